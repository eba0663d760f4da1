"""Windows that fire at certain of their rows: the base of count and user triggers.

A row is added to each of its windows when it arrives, since the trigger goes by the rows of each
window, and the keys of a batch are looked up at once, since their windows may fire. Every firing is
emitted, with the rows up to that at which it fires, in arrival order: results do not depend on
where batches are cut. Of a discarding window only the rest stays in its state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.operators.operator import Output, request_offload
from headrace.core.operators.windows.due_windows import DueWindows
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.pane_expander import expand_rows
from headrace.core.operators.windows.window_operator import WindowComponents, WindowOperator
from headrace.core.operators.windows.window_rows import ArrivedRows
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


CUT_NUMBER = "__turn"
"""The number of the firing, of a key and window, that a new row is first part of."""


IS_FIRING = "__fires"
"""Whether a window fires with this row."""


MAX_FIRING_BYTES = 1 << 26
"""The approximate memory of the states that are merged for firings at once."""


@dataclass(frozen=True, slots=True)
class CutRows:
    """Rows with IS_FIRING and CUT_NUMBER, and the new state of the trigger in their windows."""

    rows: pl.DataFrame
    trigger_state: pl.DataFrame | None = None
    known: pl.DataFrame | None = None
    """The stored states of the windows of their keys, as they were."""


class RowTriggerWindows(WindowOperator, ABC):
    """Windows that fire at certain rows: each firing is emitted, in the order of these rows.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive. The rows
    of a key and window are cut after each row at which it fires, and each cut is folded on its own.
    """

    _rows_per_firing = 1
    """The least number of rows of a window that has not ended between two firings."""

    def __init__(self, parts: WindowComponents, panes: Grid) -> None:
        super().__init__(parts)
        self._panes = panes
        self._cut_columns = (*self._pane_state.group_columns, CUT_NUMBER)
        states = self._pane_state.fold.state_columns.values()
        self._may_grow = self._window.keeps_rows and any(type.is_nested() for type in states)

    @abstractmethod
    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> CutRows:
        """Return where windows fire; CUT_NUMBER is from 0 for each key and window.

        `known` are the stored states of windows. A window that has ended fires at each row.
        """

    @abstractmethod
    def _update_state(self, last: pl.DataFrame, cut_rows: CutRows) -> pl.DataFrame:
        """Return the state to store of the windows of these keys after their last row."""

    def _store_rows(self, came: ArrivedRows) -> Iterator[Output]:
        yield from request_offload(self._pane_state.count_deferred_rows(for_lookup=True))
        for rows in expand_rows(self._panes, came.rows, self._clock.closed_end_us):
            yield from self._parts.results.emit_in_order(self._fire(rows))

    @abstractmethod
    def _fire(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Add rows to their windows, and return the state of each firing."""

    def _read_windows(self, due: DueWindows, late: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
        """Read the states of windows that end, if they then fire."""
        return super()._read_windows(due, late) if self._window.fires_at_end else iter(())

    def _fire_windows(
        self, rows: pl.DataFrame, known: pl.DataFrame | None
    ) -> Iterator[pl.DataFrame]:
        """Add rows to windows with these stored states, and return the state of each firing."""
        import polars as pl

        filed = self._pane_state
        if self._is_too_much(rows, known):
            if known is not None:
                filed.runs.add(known)
            yield from self._fire(rows.head(rows.height // 2))
            yield from self._fire(rows.tail(-(rows.height // 2)))
            return
        numbered = self._number_cuts(rows, known)
        fires = numbered.rows.filter(IS_FIRING).select(self._cut_columns)
        cuts = filed.fold.begin(numbered.rows, self._cut_columns)
        if known is not None:
            first = known.with_columns(pl.lit(0, dtype=pl.Int64).alias(CUT_NUMBER))
            cuts = filed.fold.merge(concat_states(cuts, first), self._cut_columns)
        if self._window.keeps_rows:
            cuts = self._add_earlier_cuts(cuts)
        self._store_last_cuts(cuts, fires, numbered)
        if fires.height:
            found = fires.join(
                cuts, on=self._cut_columns, how="left", nulls_equal=True, maintain_order="left"
            )
            yield found.select(*filed.group_columns, *filed.fold.state_columns)

    def _is_too_much(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> bool:
        """Whether the states of all firings with these rows may take too much memory."""
        if not self._may_grow or rows.height < 2:
            return False
        most = rows.group_by(self._pane_state.group_columns).len()["len"].max()
        assert isinstance(most, int)
        size = rows.estimated_size() + (0 if known is None else known.estimated_size())
        return most > 1 and most * size > MAX_FIRING_BYTES * self._rows_per_firing

    def _add_earlier_cuts(self, cuts: pl.DataFrame) -> pl.DataFrame:
        """Merge into each cut all earlier ones of its window, in a logarithmic number of steps."""
        import polars as pl

        by, number, distance = self._cut_columns, pl.col(CUT_NUMBER), 1
        most = cuts[CUT_NUMBER].max()
        assert most is None or isinstance(most, int)
        while most is not None and distance <= most:
            later = cuts.filter(number >= distance)
            moved = cuts.with_columns(number + distance)
            earlier = moved.join(later.select(by), on=by, how="semi", nulls_equal=True)
            merged = self._pane_state.fold.merge(concat_states(later, earlier), by)
            cuts = concat_states(cuts.filter(number < distance), merged)
            distance *= 2
        return cuts

    def _store_last_cuts(self, cuts: pl.DataFrame, fires: pl.DataFrame, cut_rows: CutRows) -> None:
        """Store each window as it is after its last row; a discarding one without what fired."""
        import polars as pl

        filed = self._pane_state
        if fires.height and not self._window.keeps_rows:
            cuts = cuts.join(fires, on=self._cut_columns, how="anti", nulls_equal=True)
        elif fires.height:
            number = pl.col(CUT_NUMBER)
            cuts = cuts.filter(number == number.max().over(filed.group_columns))
        stored = self._update_state(cuts, cut_rows)
        filed.runs.add(stored.select(*filed.group_columns, *filed.fold.state_columns))


def concat_states(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """Append states to others, with their columns in the order of the first."""
    return first.vstack(second.select(first.columns))
