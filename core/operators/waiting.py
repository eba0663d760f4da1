"""Rows that wait, as they came, until the watermark has passed them; then they go on in order.

So what is done with them does not depend on when each of them came. They are filed under their
event times, which are their slots; nothing is merged, for no row stands for another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME
from headrace.core.frames import added, projected
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.ranking import place
from headrace.core.state import SLOT, Runs, RunsLayout, StepState

if TYPE_CHECKING:
    import polars as pl

WAITING = "waiting"
"""What the runs are called in the state."""


class Waiting:
    """The rows of a step that wait, with the columns of their key; they have their places."""

    def __init__(self, state: StepState, grouping: Grouping) -> None:
        self._state = state
        self._grouping = grouping
        self._runs: Runs | None = None
        self._columns: tuple[str, ...] = ()
        columns = state.columns(WAITING)
        if columns is not None:
            self._open({n: t for n, t in columns.items() if n not in (SLOT, *grouping.inside)})

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return 0 if self._runs is None else self._runs.rows

    @property
    def owed(self) -> int:
        """On how many rows `add` works that had come before."""
        return 0 if self._runs is None else self._runs.owed(asking=False)

    def add(self, rows: pl.DataFrame) -> None:
        """Let rows wait that have the columns of their key beside their own."""
        import polars as pl

        if self._runs is None:
            inside = self._grouping.inside
            self._open({n: t for n, t in rows.schema.items() if n not in inside})
        assert self._runs is not None, "it was opened"
        slotted = added(rows, pl.col(EVENT_TIME).cast(pl.Int64).alias(SLOT))
        self._runs.add(projected(slotted, *self._grouping.inside, *self._columns, SLOT))

    def passed(self, watermark_us: int) -> pl.DataFrame | None:
        """The rows that the watermark has passed, in their order; they wait no longer."""
        if self._runs is None:
            return None
        first = self._runs.first()
        if first is None or first >= watermark_us:
            return None
        rows = self._runs.take(watermark_us - 1)
        return None if rows is None else rows.drop(SLOT).sort(place())

    def _open(self, types: Mapping[str, pl.DataType]) -> None:
        self._columns = tuple(types)
        inside = self._grouping.inside
        layout = RunsLayout({**self._grouping.types, **types}, inside, lambda frame: frame)
        self._runs = self._state.runs(WAITING, layout)
