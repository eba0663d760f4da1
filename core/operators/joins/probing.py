"""Which rows of two frames meet: those with equal keys, and times that are near each other.

Rows that are there become numbers, sorted: the hash of the key above, the row's place in the order
of time below. So the rows that may meet one that asks stand beside each other, and where they begin
and end is found by halving. How many pairs there are is known before any is made, and they are made
so many at a time: a key that nearly all rows have takes time, but no memory. (A hash join by the
key alone, filtered by time behind it, makes a hundred times the pairs where a key has a hundred
rows; where it has one, it takes half as long.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.frames import FEW_ROWS, projected
from headrace.core.operators.operator import MOST_ROWS
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

Pair: TypeAlias = "tuple[pl.Series, pl.Series]"
"""Numbers of rows that ask, and of those that they meet, one beside the other."""

ASKS, FROM, TO = "__asks", "__from", "__to"
"""A row that asks, and where in the sorted numbers those begin and end that it may meet."""

WHOLE = (1 << 64) - 1


SPARSE = 2
"""If a row finds so many of its key, on average, times are not looked up, but compared."""
NEARBY = 1 << 16
"""Among so many rows that are there one is found fast enough, whatever was found before."""


class Probe:
    """`asking` and `there` have the columns `on`, none of them null."""

    def __init__(
        self,
        asking: pl.DataFrame,
        there: pl.DataFrame,
        on: Sequence[str],
        near: tuple[int, int] | None = None,
    ) -> None:
        """`near`: the SLOT of a row that is met less that of the one that asks, both ends in."""
        import polars as pl

        self._asking, self._there, self._on, self._near = asking, there, on, near
        self._bits = there.height.bit_length()
        self._upper = WHOLE >> self._bits << self._bits
        self._order: pl.Series | None = None
        hashes = projected(there, _hash(on).alias("hash"))["hash"]
        if near is not None and not there[SLOT].is_sorted():
            self._order = there[SLOT].arg_sort()
            hashes = hashes.gather(self._order)
        places = pl.int_range(there.height, dtype=pl.UInt64, eager=True)
        self._codes = ((hashes & self._upper) | places).sort(multithreaded=False)
        self._found = self._ranges()

    def pairs(self) -> Iterator[Pair]:
        """All pairs, a bounded number at a time, in the order of the rows that ask."""
        import polars as pl

        for ranges in _cut(self._found):
            to = pl.int_ranges(ranges[FROM], ranges[TO], dtype=pl.UInt32, eager=True)
            whole = pl.DataFrame([ranges[ASKS], to.alias(TO)]).explode(TO)
            asks, meets = whole[ASKS], self._rows(whole[TO])
            same = self._same(asks, meets)
            if not same.all():
                asks, meets = asks.filter(same), meets.filter(same)
            if len(asks):
                yield asks, meets

    def met(self) -> pl.Series:
        """The rows that ask and meet some, each once, in their order."""
        import polars as pl

        asks, meets = self._found[ASKS], self._rows(self._found[FROM])
        same = self._same(asks, meets)
        if same.all():
            return asks
        # The first that was found is of another key, or time: of these all are looked at.
        self._found = self._found.filter(~same)
        rest = [asks for asks, _ in self.pairs()]
        return pl.concat([asks.filter(same), *rest]).unique().sort()

    def _ranges(self) -> pl.DataFrame:
        """Of each row that asks those that it may meet, if there are any."""
        import polars as pl

        hashes = projected(self._asking, _hash(self._on).alias("hash"))["hash"]
        if self._there.height > NEARBY:
            asks = _by_hash(hashes)
            hashes = hashes.gather(asks)
        else:
            asks = pl.int_range(len(hashes), dtype=pl.UInt32, eager=True)
        hashes = hashes & self._upper
        found = self._between(asks, hashes, hashes | self._there.height)
        length = int((found[TO] - found[FROM]).cast(pl.Int64).sum())
        if self._near is not None and length > SPARSE * self._asking.height:
            found = self._nearer(found, self._near)
        return found if found[ASKS].is_sorted() else found.sort(ASKS)

    def _nearer(self, found: pl.DataFrame, near: tuple[int, int]) -> pl.DataFrame:
        """Of these ranges the parts that are near in time."""
        import polars as pl

        slots, times = self._asking[SLOT].gather(found[ASKS]), self._there[SLOT]
        times = times if self._order is None else times.gather(self._order)
        hashes = self._codes.gather(found[FROM]) & self._upper
        first = times.search_sorted(slots + near[0], "left").cast(pl.UInt64)
        last = times.search_sorted(slots + near[1], "right").cast(pl.UInt64)
        self._near = None
        return self._between(found[ASKS], hashes | first, hashes | last)

    def _between(self, asks: pl.Series, least: pl.Series, most: pl.Series) -> pl.DataFrame:
        """Where what lies within these bounds begins and ends, for those that have some."""
        import polars as pl

        begin, end = (self._codes.search_sorted(bound, "left") for bound in (least, most))
        found = pl.DataFrame([asks.alias(ASKS), begin.alias(FROM), end.alias(TO)])
        return found.filter(end > begin)

    def _rows(self, found: pl.Series) -> pl.Series:
        """The rows of these places among the sorted numbers."""
        import polars as pl

        rows = (self._codes.gather(found) & ((1 << self._bits) - 1)).cast(pl.UInt32)
        return rows if self._order is None else self._order.gather(rows)

    def _same(self, asks: pl.Series, meets: pl.Series) -> pl.Series:
        """Which of these have the same key, and not only half a hash in common, and are near."""
        same = [self._asking[n].gather(asks) == self._there[n].gather(meets) for n in self._on]
        if self._near is not None:
            apart = self._there[SLOT].gather(meets) - self._asking[SLOT].gather(asks)
            same.append(apart.is_between(*self._near))
        return reduce(lambda one, other: one & other, same)


def _by_hash(hashes: pl.Series) -> pl.Series:
    """The rows in the order of their hashes: what is looked for is near what was just found."""
    import polars as pl

    rows = len(hashes)
    if rows < FEW_ROWS:
        return pl.int_range(rows, dtype=pl.UInt32, eager=True)
    bits = rows.bit_length()
    numbered = (hashes & (WHOLE >> bits << bits)) | pl.int_range(rows, dtype=pl.UInt64, eager=True)
    return (numbered.sort(multithreaded=False) & ((1 << bits) - 1)).cast(pl.UInt32)


def _cut(ranges: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The ranges in lots of about so many rows as go out at once."""
    import polars as pl

    length = pl.col(TO) - pl.col(FROM)
    total = int(projected(ranges, length.cast(pl.Int64).sum()).item())
    if total <= MOST_ROWS:
        if total:
            yield ranges
        return
    begin = pl.int_ranges(FROM, TO, MOST_ROWS, dtype=pl.UInt32)
    parts = ranges.with_columns(begin.alias(FROM)).explode(FROM)
    parts = parts.with_columns(pl.min_horizontal(TO, pl.col(FROM) + MOST_ROWS))
    ends = parts.select(length.cast(pl.Int64).cum_sum()).to_series()
    start = done = 0
    while start < parts.height:
        end = max(start + 1, int(ends.search_sorted(done + MOST_ROWS, side="right")))
        yield parts.slice(start, end - start)
        start, done = end, int(ends[end - 1])


def _hash(on: Sequence[str]) -> pl.Expr:
    """A number that equal keys have in common."""
    import polars as pl

    return reduce(lambda one, other: one.hash() ^ other.hash(1), map(pl.col, on)).hash(2)
