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

from headrace.core.elements import EVENT_TIME
from headrace.core.operators.folds import AT
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.numbered import ROWS, Numbered
from headrace.core.operators.operator import Clockless, Output, Timely, aside
from headrace.core.operators.outgoing import Outgoing
from headrace.core.operators.place import Place
from headrace.core.operators.windows.make import fold_of
from headrace.core.plan.nodes import Windowed
from headrace.core.plan.windows import Count
from headrace.core.state import KEY, NO_CLOCK_US

if TYPE_CHECKING:
    import polars as pl

PANES = "panes"
"""The name of the state of panes."""

NUMBER = "__number"
"""The number of a row among the rows of its key in the batch, from 0."""
PANE = "__pane"
"""The number of a pane of its key, from 0."""
TIME = "__last"
"""The greatest event time of a pane's rows, in microseconds; 0 without event time."""
BEFORE = "__before"
"""The number of earlier rows of the key."""
SAME = "__all"
"""A constant key column, added for steps without a key or with a single float key.

It is needed because Polars joins do not find NaN when the only join column is sorted.
"""


class Counting(Clockless, Timely):
    """The operator of `window: {count: ...}`.

    ROW_COUNT is the number of rows of a key that have arrived, or that are in a pane.
    """

    def __init__(self, operation: Windowed, place: Place, types: Mapping[str, pl.DataType]) -> None:
        """`types` are the types of the input columns; only `top` keeps all of them."""
        import polars as pl

        assert operation.window is not None and isinstance(operation.window.shape, Count)
        shape, state = operation.window.shape, place.state
        self._grouping = grouping = Grouping(operation.key)
        self._fold = fold = Numbered(fold_of(operation, grouping, types), (TIME,))
        self._out = Outgoing(operation, place.stream, ordered=place.ordered)
        self._pane = gcd(shape.rows, shape.every)
        self._spans = shape.rows // self._pane
        self._every = shape.every // self._pane
        self._unfilled = state.counts
        key = dict(grouping.types)
        if len(key) < 2 and all(type.is_float() for type in key.values()):
            key[SAME] = pl.Int32()
        self._key = tuple(key)
        self._by = (*self._key, PANE)
        panes = {**key, PANE: pl.Int64(), **fold.columns}
        self._counts = state.table("counts", {ROWS: pl.Int64()})
        self._panes = state.table(PANES, panes, grouping.inside)

    held = 0

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Do nothing: event time does not close count windows."""
        return iter(())

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit every window that these rows fill."""
        import polars as pl

        if not frame.height:
            return
        yield from aside(self._counts.owed(NO_CLOCK_US) + self._panes.owed(NO_CLOCK_US))
        rows = self._numbered(frame)
        heads = self._heads(rows)
        came = self._folded(rows, heads)
        before = self._panes.find(self._wanted(heads))
        panes = came if not before.height else self._merged(came, before.select(came.columns))
        self._keep(panes, before, heads)
        done = self._fired(panes, heads)
        if EVENT_TIME in frame.columns:
            done = done.with_columns(pl.col(TIME).cast(frame.schema[EVENT_TIME]).alias(EVENT_TIME))
        yield from self._out.rows(done)

    def _numbered(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with their key, and their number among the rows of their key."""
        import polars as pl

        rows = self._grouping.rows(frame, self._fold.reads)
        if SAME in self._key:
            rows = rows.with_columns(pl.lit(0, dtype=pl.Int32).alias(SAME))
        time = pl.col(EVENT_TIME).cast(pl.Int64) if EVENT_TIME in rows.columns else pl.lit(0)
        at = pl.int_range(pl.len(), dtype=pl.Int64).over(self._key)
        time = time.cast(pl.Int64)
        return rows.with_columns(at.alias(NUMBER), time.alias(TIME), time.alias(AT))

    def _heads(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return each key of the batch, with its number of new and of earlier rows."""
        import polars as pl

        heads = self._grouping.encoded(rows.group_by(self._key).agg(pl.len().cast(pl.Int64)))
        known = self._counts.find(heads[KEY]).select(KEY, pl.col(ROWS).alias(BEFORE))
        return heads.join(known, on=KEY, how="left").with_columns(pl.col(BEFORE).fill_null(0))

    def _folded(self, rows: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
        """Fold the new rows by pane, each with its row count and greatest time."""
        import polars as pl

        before = heads.select(*self._key, BEFORE)
        placed = rows.join(
            before, on=self._key, how="left", nulls_equal=True, maintain_order="left"
        ).with_columns(((pl.col(BEFORE) + pl.col(NUMBER)) // self._pane).alias(PANE))
        return self._fold.begin(placed, self._by)

    def _wanted(self, heads: pl.DataFrame) -> pl.Series:
        """Return the table keys of the stored panes that open windows reach back to."""
        import polars as pl

        last = pl.col(BEFORE) // self._pane
        first = (last - self._spans + 1).clip(lower_bound=0)
        numbers = pl.int_ranges(first, last + 1, dtype=pl.Int64).alias(PANE)
        known = heads.filter(pl.col(BEFORE) > 0).select(KEY, numbers).explode(PANE)
        return known.select(_pane_key())[KEY]

    def _merged(self, *panes: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        together = pl.concat(panes)
        return self._fold.merge(together, self._by).select(together.columns)

    def _keep(self, panes: pl.DataFrame, before: pl.DataFrame, heads: pl.DataFrame) -> None:
        """Store the panes that later windows need, and the row count of each key."""
        import polars as pl

        now = (pl.col(BEFORE) + pl.col("len")).alias(ROWS)
        firing = self._pane * self._every
        waiting = heads.select((now % firing - pl.col(BEFORE) % firing).sum()).item()
        self._unfilled.unfilled += waiting
        counts = heads.select(*self._key, KEY, now)
        if self._spans == self._every == 1:  # a full window leaves no state
            counts = counts.with_columns(pl.col(ROWS) % self._pane)
            self._counts.remove(counts.filter(pl.col(ROWS) == 0)[KEY])
            panes, counts = self._from_nought(panes), counts.filter(pl.col(ROWS) > 0)
        self._counts.put(counts.select(KEY, ROWS))
        open_pane = counts.select(*self._key, KEY, (pl.col(ROWS) // self._pane).alias("__open"))
        numbered = panes.join(open_pane, on=self._key, nulls_equal=True)
        needed = numbered.filter(pl.col(PANE) > pl.col("__open") - self._spans)
        needed = needed.with_columns(_pane_key()).drop("__open")
        self._panes.remove(before.join(needed, on=KEY, how="anti")[KEY])
        self._panes.put(needed)

    def _from_nought(self, panes: pl.DataFrame) -> pl.DataFrame:
        """Return the open panes, renumbered to 0: tumbling windows restart their count."""
        import polars as pl

        return panes.filter(pl.col(ROWS) < self._pane).with_columns(
            pl.lit(0, dtype=pl.Int64).alias(PANE)
        )

    def _fired(self, panes: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
        """Return the results of the windows whose last pane is now full, oldest first."""
        import polars as pl

        last = pl.col(PANE)
        began = heads.select(*self._key, (pl.col(BEFORE) // self._pane).alias("__began"))
        full = panes.filter(pl.col(ROWS) == self._pane, (last + 1) % self._every == 0)
        full = full.join(began, on=self._key, nulls_equal=True).filter(last >= pl.col("__began"))
        full = self._spanned(full, panes) if self._spans > 1 else full.drop("__began")
        full = full.sort(PANE, maintain_order=True).drop(ROWS)
        return self._fold.finish(full, (*self._by, TIME))

    def _spanned(self, full: pl.DataFrame, panes: pl.DataFrame) -> pl.DataFrame:
        """Return the windows that end with these panes, each merged from all panes it spans.

        Panes are merged in blocks of 1, 2, 4, ... that end with each pane, and a window is merged
        from such blocks, so its cost grows with the logarithm of its span.
        """
        block, size, shift, left = panes, 1, 0, self._spans
        windows: pl.DataFrame | None = None
        while True:
            if left & 1:
                part = self._of(_moved(block, shift), full)
                windows = part if windows is None else self._merged(windows, part)
                shift += size
            left >>= 1
            if not left:
                return windows if windows is not None else full.clear()
            block = self._merged(block, self._of(_moved(block, size), panes))
            size *= 2

    def _of(self, moved: pl.DataFrame, panes: pl.DataFrame) -> pl.DataFrame:
        """Return the moved panes whose number is that of one of the panes."""
        return moved.join(panes, on=self._by, how="semi", nulls_equal=True)


def _moved(panes: pl.DataFrame, by: int) -> pl.DataFrame:
    """Add `by` to the numbers of the panes."""
    import polars as pl

    return panes.with_columns(pl.col(PANE) + by) if by else panes


def _pane_key() -> pl.Expr:
    """Return the table key of a pane: its key and its number."""
    import polars as pl

    return pl.concat_str(KEY, pl.lit("/"), pl.col(PANE).cast(pl.String)).alias(KEY)
