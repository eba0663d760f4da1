"""Windows that also fire whenever a number of rows of a key has arrived in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from headrace.core.api.state import SLOT
from headrace.core.operators.folds import ROW_COUNT
from headrace.core.operators.windows.due_windows import DueWindows
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.row_trigger_windows import (
    CUT_NUMBER,
    IS_FIRING,
    CutRows,
    RowTriggerWindows,
    concat_states,
)
from headrace.core.operators.windows.window_operator import WindowComponents

if TYPE_CHECKING:
    import polars as pl


class CountTriggerWindows(RowTriggerWindows):
    """Windows with a count trigger.

    ROW_COUNT is the number of rows of a key and window since it was last emitted. A window without
    such rows is not emitted again at its end.
    """

    def __init__(self, parts: WindowComponents, panes: Grid, count: int) -> None:
        super().__init__(parts, panes)
        self._count = self._rows_per_firing = count

    def _fire(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        filed = self._pane_state
        came = filed.fold.begin(rows, filed.group_columns)
        known = filed.runs.take_keys(came.select(filed.key).unique())
        states = came if known is None else filed.merge_panes(concat_states(known, came))
        firing = self._find_firing(came, states)
        if not firing.height:
            filed.runs.add(states)
            return
        filed.runs.add(self._match(states, firing, "anti"))
        known = None if known is None else self._match(known, firing, "semi")
        yield from self._fire_windows(self._match(rows, firing, "semi"), known)

    def _find_firing(self, came: pl.DataFrame, states: pl.DataFrame) -> pl.DataFrame:
        """Return the keys and windows that fire as these rows come."""
        import polars as pl

        by = self._pane_state.group_columns
        full = states.filter(pl.col(ROW_COUNT) >= self._count).select(by)
        if not _reaches(came, self._clock.now_us):
            return full
        ended = came.filter(pl.col(SLOT) <= self._clock.now_us).select(by)
        return full.vstack(ended).unique()

    def _match(
        self, frame: pl.DataFrame, windows: pl.DataFrame, how: Literal["semi", "anti"]
    ) -> pl.DataFrame:
        by = self._pane_state.group_columns
        return frame.join(windows, on=by, how=how, nulls_equal=True, maintain_order="left")

    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> CutRows:
        import polars as pl

        by = self._pane_state.group_columns
        number = pl.int_range(pl.len(), dtype=pl.Int64).over(by)
        if known is None:
            before = pl.lit(0, dtype=pl.Int64)
        else:
            earlier = known.select(*by, ROW_COUNT)
            rows = rows.join(earlier, on=by, how="left", nulls_equal=True, maintain_order="left")
            before = pl.col(ROW_COUNT).fill_null(0) % self._count
        at = number + before
        cut, fires = at // self._count, (at + 1) % self._count == 0
        if _reaches(rows, self._clock.now_us):
            ended = pl.col(SLOT) <= self._clock.now_us
            cut, fires = pl.when(ended).then(number).otherwise(cut), fires | ended
        marked = rows.with_columns(cut.alias(CUT_NUMBER), fires.alias(IS_FIRING))
        return CutRows(marked.drop(ROW_COUNT, strict=False))

    def _update_state(self, last: pl.DataFrame, cut_rows: CutRows) -> pl.DataFrame:
        import polars as pl

        return last.with_columns(pl.col(ROW_COUNT) % self._count)

    def _read_windows(self, due: DueWindows, late: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
        """Read the windows that end with rows that were not emitted."""
        import polars as pl

        for states in super()._read_windows(due, late):
            yield states.filter(pl.col(ROW_COUNT) > 0)


def _reaches(frame: pl.DataFrame, now_us: int) -> bool:
    """Whether one of these windows has ended."""
    least = frame[SLOT].min()
    return isinstance(least, int) and least <= now_us
