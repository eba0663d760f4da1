"""Count windows: a fixed number of rows of a key, in arrival order.

The rows of a key are numbered, and divided into panes (of the greatest common divisor of `rows` and
`every`), each folded on its own. A window is emitted when its last pane is full, merged from the
panes it spans, or from fewer at the start of a key. A window that does not slide is one pane, so
its state is one open pane per key. All keys of a batch are processed together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, NO_CLOCK_US
from headrace.core.operators.folds import ROW_COUNT, ROW_TIME, CountingFold
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import (
    ClocklessOperator,
    Output,
    UndelayedOperator,
    request_offload,
)
from headrace.core.operators.result_rows import ResultRows
from headrace.core.operators.windows.factory import build_fold
from headrace.core.plan.nodes import WindowedOperation
from headrace.core.plan.nodes.windows import Count
from headrace.core.types.elements import EVENT_TIME

if TYPE_CHECKING:
    import polars as pl

PANES_STATE = "panes"
"""The name of the state of panes."""

ROW_NUMBER = "__number"
"""The number of a row among the rows of its key in the batch, from 0."""
PANE_NUMBER = "__pane"
"""The number of a pane of its key, from 0."""
NEWEST_TIME = "__last"
"""The greatest event time of a pane's rows, in microseconds; 0 without event time."""
EARLIER_ROWS = "__before"
"""The number of earlier rows of the key."""
CONSTANT_KEY = "__all"
"""A constant key column, added for steps without a key or with a single float key.

It is needed because Polars joins do not find NaN when the only join column is sorted.
"""


class CountWindowOperator(ClocklessOperator, UndelayedOperator):
    """The operator of `window: {count: ...}`.

    ROW_COUNT is the number of rows of a key that have arrived, or that are in a pane.
    """

    def __init__(
        self, operation: WindowedOperation, context: KeyedContext, types: Mapping[str, pl.DataType]
    ) -> None:
        """`types` are the types of the input columns; only `top` keeps all of them."""
        import polars as pl

        assert operation.window is not None and isinstance(operation.window.shape, Count)
        shape, state = operation.window.shape, context.state
        self._grouping = grouping = GroupingKey(operation.key)
        self._fold = fold = CountingFold(build_fold(operation, grouping, types), (NEWEST_TIME,))
        self._out = ResultRows(operation, context.stream, ordered=context.is_ordered)
        self._pane = gcd(shape.rows, shape.every)
        self._spans = shape.rows // self._pane
        self._every = shape.every // self._pane
        self._unfilled = state.counters
        key = dict(grouping.types)
        if len(key) < 2 and all(type.is_float() for type in key.values()):
            key[CONSTANT_KEY] = pl.Int32()
        self._key = tuple(key)
        self._by = (*self._key, PANE_NUMBER)
        panes = {**key, PANE_NUMBER: pl.Int64(), **fold.state_columns}
        self._counts = state.open_table("counts", {ROW_COUNT: pl.Int64()})
        self._panes = state.open_table(PANES_STATE, panes, grouping.internal_names)

    pending_rows = 0

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Do nothing: event time does not close count windows."""
        return iter(())

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit every window that these rows fill."""
        import polars as pl

        if not frame.height:
            return
        yield from request_offload(
            self._counts.estimate_deferred_rows(NO_CLOCK_US)
            + self._panes.estimate_deferred_rows(NO_CLOCK_US)
        )
        rows = self._number_rows(frame)
        heads = self._count_keys(rows)
        new_panes = self._fold_panes(rows, heads)
        before = self._panes.find(self._find_needed_panes(heads))
        panes = (
            new_panes
            if not before.height
            else self._merge_panes(new_panes, before.select(new_panes.columns))
        )
        self._store_panes(panes, before, heads)
        done = self._collect_full_windows(panes, heads)
        if EVENT_TIME in frame.columns:
            done = done.with_columns(
                pl.col(NEWEST_TIME).cast(frame.schema[EVENT_TIME]).alias(EVENT_TIME)
            )
        yield from self._out.emit(done)

    def _number_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with their key, and their number among the rows of their key."""
        import polars as pl

        rows = self._grouping.project_rows(frame, self._fold.input_columns)
        if CONSTANT_KEY in self._key:
            rows = rows.with_columns(pl.lit(0, dtype=pl.Int32).alias(CONSTANT_KEY))
        time = pl.col(EVENT_TIME).cast(pl.Int64) if EVENT_TIME in rows.columns else pl.lit(0)
        at = pl.int_range(pl.len(), dtype=pl.Int64).over(self._key)
        time = time.cast(pl.Int64)
        return rows.with_columns(
            at.alias(ROW_NUMBER), time.alias(NEWEST_TIME), time.alias(ROW_TIME)
        )

    def _count_keys(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return each key of the batch, with its number of new and of earlier rows."""
        import polars as pl

        heads = self._grouping.encode_keys(rows.group_by(self._key).agg(pl.len().cast(pl.Int64)))
        known = self._counts.find(heads[KEY]).select(KEY, pl.col(ROW_COUNT).alias(EARLIER_ROWS))
        return heads.join(known, on=KEY, how="left").with_columns(pl.col(EARLIER_ROWS).fill_null(0))

    def _fold_panes(self, rows: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
        """Fold the new rows by pane, each with its row count and greatest time."""
        import polars as pl

        before = heads.select(*self._key, EARLIER_ROWS)
        placed = rows.join(
            before, on=self._key, how="left", nulls_equal=True, maintain_order="left"
        ).with_columns(
            ((pl.col(EARLIER_ROWS) + pl.col(ROW_NUMBER)) // self._pane).alias(PANE_NUMBER)
        )
        return self._fold.begin(placed, self._by)

    def _find_needed_panes(self, heads: pl.DataFrame) -> pl.Series:
        """Return the table keys of the stored panes that open windows reach back to."""
        import polars as pl

        last = pl.col(EARLIER_ROWS) // self._pane
        first = (last - self._spans + 1).clip(lower_bound=0)
        numbers = pl.int_ranges(first, last + 1, dtype=pl.Int64).alias(PANE_NUMBER)
        known = heads.filter(pl.col(EARLIER_ROWS) > 0).select(KEY, numbers).explode(PANE_NUMBER)
        return known.select(_build_pane_key())[KEY]

    def _merge_panes(self, *panes: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        states = pl.concat(panes)
        return self._fold.merge(states, self._by).select(states.columns)

    def _store_panes(self, panes: pl.DataFrame, before: pl.DataFrame, heads: pl.DataFrame) -> None:
        """Store the panes that later windows need, and the row count of each key."""
        import polars as pl

        now = (pl.col(EARLIER_ROWS) + pl.col("len")).alias(ROW_COUNT)
        firing = self._pane * self._every
        waiting = heads.select((now % firing - pl.col(EARLIER_ROWS) % firing).sum()).item()
        self._unfilled.unfilled += waiting
        counts = heads.select(*self._key, KEY, now)
        if self._spans == self._every == 1:  # a full window leaves no state
            counts = counts.with_columns(pl.col(ROW_COUNT) % self._pane)
            self._counts.remove(counts.filter(pl.col(ROW_COUNT) == 0)[KEY])
            panes, counts = self._renumber_open_panes(panes), counts.filter(pl.col(ROW_COUNT) > 0)
        self._counts.put(counts.select(KEY, ROW_COUNT))
        open_pane = counts.select(
            *self._key, KEY, (pl.col(ROW_COUNT) // self._pane).alias("__open")
        )
        numbered = panes.join(open_pane, on=self._key, nulls_equal=True)
        needed = numbered.filter(pl.col(PANE_NUMBER) > pl.col("__open") - self._spans)
        needed = needed.with_columns(_build_pane_key()).drop("__open")
        self._panes.remove(before.join(needed, on=KEY, how="anti")[KEY])
        self._panes.put(needed)

    def _renumber_open_panes(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Return the open panes, renumbered to 0: tumbling windows restart their count."""
        import polars as pl

        return panes.filter(pl.col(ROW_COUNT) < self._pane).with_columns(
            pl.lit(0, dtype=pl.Int64).alias(PANE_NUMBER)
        )

    def _collect_full_windows(self, panes: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
        """Return the results of the windows whose last pane is now full, oldest first."""
        import polars as pl

        last = pl.col(PANE_NUMBER)
        began = heads.select(*self._key, (pl.col(EARLIER_ROWS) // self._pane).alias("__began"))
        full = panes.filter(pl.col(ROW_COUNT) == self._pane, (last + 1) % self._every == 0)
        full = full.join(began, on=self._key, nulls_equal=True).filter(last >= pl.col("__began"))
        full = self._merge_spans(full, panes) if self._spans > 1 else full.drop("__began")
        full = full.sort(PANE_NUMBER, maintain_order=True).drop(ROW_COUNT)
        return self._fold.finish(full, (*self._by, NEWEST_TIME))

    def _merge_spans(self, full: pl.DataFrame, panes: pl.DataFrame) -> pl.DataFrame:
        """Return the windows that end with these panes, each merged from all panes it spans.

        Panes are merged in blocks of 1, 2, 4, ... that end with each pane, and a window is merged
        from such blocks, so its cost grows with the logarithm of its span.
        """
        block, size, shift, remaining_bits = panes, 1, 0, self._spans
        windows: pl.DataFrame | None = None
        while True:
            if remaining_bits & 1:
                part = self._match_panes(_shift_panes(block, shift), full)
                windows = part if windows is None else self._merge_panes(windows, part)
                shift += size
            remaining_bits >>= 1
            if not remaining_bits:
                return windows if windows is not None else full.clear()
            block = self._merge_panes(block, self._match_panes(_shift_panes(block, size), panes))
            size *= 2

    def _match_panes(self, shifted_panes: pl.DataFrame, panes: pl.DataFrame) -> pl.DataFrame:
        """Return the shifted panes whose number is that of one of the panes."""
        return shifted_panes.join(panes, on=self._by, how="semi", nulls_equal=True)


def _shift_panes(panes: pl.DataFrame, by: int) -> pl.DataFrame:
    """Add `by` to the numbers of the panes."""
    import polars as pl

    return panes.with_columns(pl.col(PANE_NUMBER) + by) if by else panes


def _build_pane_key() -> pl.Expr:
    """Return the table key of a pane: its key and its number."""
    import polars as pl

    return pl.concat_str(KEY, pl.lit("/"), pl.col(PANE_NUMBER).cast(pl.String)).alias(KEY)
