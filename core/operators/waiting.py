"""Rows buffered until the watermark has passed them, then released in row order.

So the processing of rows does not depend on when each of them arrived. Rows are stored under their
event times as slots; nothing is merged, since no row replaces another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME
from headrace.core.frames import add_columns, select_columns
from headrace.core.operators.grouping import GroupingKey
from headrace.core.operators.ranking import get_order_columns
from headrace.core.state import SLOT, RunsLayout, SortedRuns, StepState

if TYPE_CHECKING:
    import polars as pl

BUFFER_STATE = "waiting"
"""The name of the runs in the state."""


class WatermarkBuffer:
    """The buffered rows of a step, with their key columns and positions in the row order."""

    def __init__(self, state: StepState, grouping: GroupingKey) -> None:
        self._state = state
        self._grouping = grouping
        self._runs: SortedRuns | None = None
        self._columns: tuple[str, ...] = ()
        columns = state.get_restored_columns(BUFFER_STATE)
        if columns is not None:
            self._open(
                {n: t for n, t in columns.items() if n not in (SLOT, *grouping.internal_names)}
            )

    @property
    def row_count(self) -> int:
        """The number of buffered rows."""
        return 0 if self._runs is None else self._runs.rows

    @property
    def deferred_rows(self) -> int:
        """The number of earlier rows that `add` works on."""
        return 0 if self._runs is None else self._runs.estimate_deferred_rows(asking=False)

    def add(self, rows: pl.DataFrame) -> None:
        """Buffer rows, which have their key columns in addition to their own."""
        import polars as pl

        if self._runs is None:
            inside = self._grouping.internal_names
            self._open({n: t for n, t in rows.schema.items() if n not in inside})
        assert self._runs is not None, "the runs are open"
        slotted = add_columns(rows, pl.col(EVENT_TIME).cast(pl.Int64).alias(SLOT))
        self._runs.add(
            select_columns(slotted, *self._grouping.internal_names, *self._columns, SLOT)
        )

    def release_rows(self, watermark_us: int) -> pl.DataFrame | None:
        """Remove and return the rows that the watermark has passed, in row order."""
        if self._runs is None:
            return None
        first = self._runs.get_first_slot()
        if first is None or first >= watermark_us:
            return None
        rows = self._runs.take(watermark_us - 1)
        return None if rows is None else rows.drop(SLOT).sort(get_order_columns())

    def _open(self, types: Mapping[str, pl.DataType]) -> None:
        self._columns = tuple(types)
        inside = self._grouping.internal_names
        layout = RunsLayout({**self._grouping.types, **types}, inside, lambda frame: frame)
        self._runs = self._state.open_runs(BUFFER_STATE, layout)
