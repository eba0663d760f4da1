"""Rows buffered until the watermark has passed them, then released in row order.

So the processing of rows does not depend on when each of them arrived. Rows are stored under their
event times as slots; nothing is merged, since no row replaces another.
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
"""The name of the runs in the state."""


class Waiting:
    """The buffered rows of a step, with their key columns and positions in the row order."""

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
        """The number of buffered rows."""
        return 0 if self._runs is None else self._runs.rows

    @property
    def owed(self) -> int:
        """The number of earlier rows that `add` works on."""
        return 0 if self._runs is None else self._runs.owed(asking=False)

    def add(self, rows: pl.DataFrame) -> None:
        """Buffer rows, which have their key columns in addition to their own."""
        import polars as pl

        if self._runs is None:
            inside = self._grouping.inside
            self._open({n: t for n, t in rows.schema.items() if n not in inside})
        assert self._runs is not None, "the runs are open"
        slotted = added(rows, pl.col(EVENT_TIME).cast(pl.Int64).alias(SLOT))
        self._runs.add(projected(slotted, *self._grouping.inside, *self._columns, SLOT))

    def passed(self, watermark_us: int) -> pl.DataFrame | None:
        """Remove and return the rows that the watermark has passed, in row order."""
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
