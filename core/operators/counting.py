"""Count windows: so many rows of a key, in the order in which they come.

The rows of a key are numbered, and every `pane` of them (what `rows` and `every` are multiples of)
is folded on its own. A window is put out when its last pane is full, of as many panes as it spans,
or of those there are at a key's beginning. So a window that does not slide is one pane, and what is
kept is one open pane a key. All of it is done for all keys of a batch at once.
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
"""What the table of panes is called in the state."""

NUMBER = "__number"
"""The number of a row among those of its key that came with it, from 0."""
PANE = "__pane"
"""The number of a pane of its key, from 0."""
TIME = "__last"
"""The greatest event time of a pane's rows, in microseconds; 0 where they have none."""
BEFORE = "__before"
"""How many rows of a key had come before these."""
SAME = "__all"
"""A column of the key that is the same for all: of a step without key the only one.

Beside a number it makes joins find NaN: Polars does not where one sorted column is all to join by.
"""


class Counting(Clockless, Timely):
    """The operator of `window: {count: ...}`.

    ROWS is how many rows of a key have come, or stand in a pane.
    """

    def __init__(self, operation: Windowed, place: Place, types: Mapping[str, pl.DataType]) -> None:
        """`types` are those of the columns that rows come with; only `top` keeps them all."""
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
        """Time changes nothing: rows of windows that do not fill are counted as they come."""
        return iter(())

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Every window that these rows fill."""
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
        """The rows with their key, and with their number among those of their key here."""
        import polars as pl

        rows = self._grouping.rows(frame, self._fold.reads)
        if SAME in self._key:
            rows = rows.with_columns(pl.lit(0, dtype=pl.Int32).alias(SAME))
        time = pl.col(EVENT_TIME).cast(pl.Int64) if EVENT_TIME in rows.columns else pl.lit(0)
        at = pl.int_range(pl.len(), dtype=pl.Int64).over(self._key)
        time = time.cast(pl.Int64)
        return rows.with_columns(at.alias(NUMBER), time.alias(TIME), time.alias(AT))

    def _heads(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Each key here: how many rows came now, and before."""
        import polars as pl

        heads = self._grouping.encoded(rows.group_by(self._key).agg(pl.len().cast(pl.Int64)))
        known = self._counts.find(heads[KEY]).select(KEY, pl.col(ROWS).alias(BEFORE))
        return heads.join(known, on=KEY, how="left").with_columns(pl.col(BEFORE).fill_null(0))

    def _folded(self, rows: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
        """The panes of these rows alone, each with its number of rows and greatest time."""
        import polars as pl

        before = heads.select(*self._key, BEFORE)
        placed = rows.join(
            before, on=self._key, how="left", nulls_equal=True, maintain_order="left"
        ).with_columns(((pl.col(BEFORE) + pl.col(NUMBER)) // self._pane).alias(PANE))
        return self._fold.begin(placed, self._by)

    def _wanted(self, heads: pl.DataFrame) -> pl.Series:
        """Under which keys the panes are kept that windows to come reach back to."""
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
        """Keep what later windows need of these panes, and how many rows each key has had."""
        import polars as pl

        now = (pl.col(BEFORE) + pl.col("len")).alias(ROWS)
        firing = self._pane * self._every
        waiting = heads.select((now % firing - pl.col(BEFORE) % firing).sum()).item()
        self._unfilled.unfilled += waiting
        counts = heads.select(*self._key, KEY, now)
        if self._spans == self._every == 1:  # a window that is full leaves nothing behind
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
        """The open panes, numbered 0: keys whose windows do not slide count from the last one."""
        import polars as pl

        return panes.filter(pl.col(ROWS) < self._pane).with_columns(
            pl.lit(0, dtype=pl.Int64).alias(PANE)
        )

    def _fired(self, panes: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
        """The results of the windows whose last pane is full since now, oldest first."""
        import polars as pl

        last = pl.col(PANE)
        began = heads.select(*self._key, (pl.col(BEFORE) // self._pane).alias("__began"))
        full = panes.filter(pl.col(ROWS) == self._pane, (last + 1) % self._every == 0)
        full = full.join(began, on=self._key, nulls_equal=True).filter(last >= pl.col("__began"))
        full = self._spanned(full, panes) if self._spans > 1 else full.drop("__began")
        full = full.sort(PANE, maintain_order=True).drop(ROWS)
        return self._fold.finish(full, (*self._by, TIME))

    def _spanned(self, full: pl.DataFrame, panes: pl.DataFrame) -> pl.DataFrame:
        """The windows that end with these panes, each of all panes that it spans.

        Panes are put together in blocks of 1, 2, 4, ... that end with each pane, and a window of
        blocks, so that its cost grows with the logarithm of what it spans.
        """
        block, size, behind, left = panes, 1, 0, self._spans
        windows: pl.DataFrame | None = None
        while True:
            if left & 1:
                part = self._of(_moved(block, behind), full)
                windows = part if windows is None else self._merged(windows, part)
                behind += size
            left >>= 1
            if not left:
                return windows if windows is not None else full.clear()
            block = self._merged(block, self._of(_moved(block, size), panes))
            size *= 2

    def _of(self, moved: pl.DataFrame, panes: pl.DataFrame) -> pl.DataFrame:
        """Those that now stand where one of the panes does."""
        return moved.join(panes, on=self._by, how="semi", nulls_equal=True)


def _moved(panes: pl.DataFrame, by: int) -> pl.DataFrame:
    """The panes, each under the number of the one so many behind it."""
    import polars as pl

    return panes.with_columns(pl.col(PANE) + by) if by else panes


def _pane_key() -> pl.Expr:
    """The key of a pane in its table: its key's, and its number."""
    import polars as pl

    return pl.concat_str(KEY, pl.lit("/"), pl.col(PANE).cast(pl.String)).alias(KEY)
