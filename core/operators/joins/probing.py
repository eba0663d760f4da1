"""Which rows of two frames meet: those with equal keys, and times that are near each other.

Rows that are there become numbers, sorted: the hash of the key above, the row's place in the order
of time below. So the rows that may meet one that asks stand beside each other. Those that ask are
sorted by their hashes too, and both are gone through side by side; or, where they are few, it is
found by halving where those begin and end that they may meet. How many pairs there are is known
before any is made, and they are made so many at a time: a key that nearly all rows have takes time,
but no memory. (A hash join by the key alone, filtered by time behind it, makes a hundred times the
pairs where a key has a hundred rows; where it has one, it takes as long.)
"""

from __future__ import annotations

from bisect import bisect_left
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

ASKS, HASH, FROM, TO = "__asks", "__hash", "__from", "__to"
"""A row that asks, its hash, and where in the numbers those begin and end that it may meet."""

WHOLE = (1 << 64) - 1


SPARSE = 2
"""If a row finds so many of its key, on average, times are not looked up, but compared,"""
FEW_KEYS = 16
"""So few are found sooner one by one than `search_sorted` begins."""
STEPS = 16
"""and if none finds as many as that: all rows go from one to the next together."""
SHIFT = 1 << 32


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
        bits = max(asking.height, there.height).bit_length()
        bounds = WHOLE >> bits << bits, (1 << bits) - 1
        self._upper, self._lower = (pl.Series([each], dtype=pl.UInt64) for each in bounds)
        self._order: pl.Series | None = None
        hashes = projected(there, _hash(on).alias("hash"))["hash"]
        if near is not None and not there[SLOT].is_sorted():
            self._order = there[SLOT].arg_sort()
            hashes = hashes[self._order]
        # Behind the last one there is one more, which nobody reaches.
        self._codes = self._numbered(hashes, pl.Series([WHOLE], dtype=pl.UInt64))
        asks, hashes, begin = self._begun()
        self._each = _each(self._codes, asks, begin, hashes | self._lower, SPARSE * asking.height)
        """Each row that asks and each place that it may meet, as one number; None: too many."""
        self._found = None if self._each is not None else self._ranges(asks, hashes, begin)

    def pairs(self) -> Iterator[Pair]:
        """All pairs, a bounded number at a time, in the order of the rows that ask."""
        for asks, places in self._lots():
            meets = self._rows(places)
            same = self._same(asks, meets)
            if not same.all():
                asks, meets = asks.filter(same), meets.filter(same)
            if len(asks):
                yield asks, meets

    def met(self) -> pl.Series:
        """The rows that ask and meet some, each once, in their order."""
        import polars as pl

        found = [pl.Series([], dtype=pl.UInt32)]
        if self._found is not None:
            asks, meets = self._found[ASKS], self._rows(self._found[FROM])
            same = self._same(asks, meets)
            if same.all():
                return asks
            # The first that was found is of another key, or time: of these all are looked at.
            found.append(asks.filter(same))
            self._found = self._found.filter(~same)
        found += [asks for asks, _ in self.pairs()]
        return pl.concat(found).unique().sort()

    def _lots(self) -> Iterator[Pair]:
        """Rows that ask, and places that they may meet, so many at a time."""
        import polars as pl

        if self._each is not None:
            for start in range(0, len(self._each), MOST_ROWS):
                each = self._each.slice(start, MOST_ROWS)
                yield (each // SHIFT).cast(pl.UInt32), (each & (SHIFT - 1)).cast(pl.UInt32)
            return
        assert self._found is not None, "there is one or the other"
        for ranges in _cut(self._found):
            to = pl.int_ranges(ranges[FROM], ranges[TO], dtype=pl.UInt32, eager=True)
            whole = pl.DataFrame([ranges[ASKS], to.alias(TO)]).explode(TO)
            yield whole[ASKS], whole[TO]

    def _numbered(self, hashes: pl.Series, *more: pl.Series) -> pl.Series:
        """Hashes with the numbers of their rows in the lower bits, and what is more; sorted."""
        import polars as pl

        numbers = pl.int_range(len(hashes), dtype=pl.UInt64, eager=True)
        whole = (hashes & self._upper) | numbers
        for each in more:
            whole.append(each)
        return whole.sort(multithreaded=False)

    def _begun(self) -> tuple[pl.Series, pl.Series, pl.Series]:
        """The rows that ask and may meet any, their hashes, and where those begin."""
        asking = self._numbered(projected(self._asking, _hash(self._on).alias("hash"))["hash"])
        asks, hashes = asking & self._lower, asking & self._upper
        begin = _begins(self._codes, hashes)
        some = self._codes[begin] < (hashes | self._lower)
        return asks.filter(some), hashes.filter(some), begin.filter(some)

    def _ranges(self, asks: pl.Series, hashes: pl.Series, begin: pl.Series) -> pl.DataFrame:
        """Of each row that asks where those begin and end that it may meet."""
        import polars as pl

        end = _begins(self._codes, hashes | self._lower)
        columns = {ASKS: asks.cast(pl.UInt32), HASH: hashes, FROM: begin, TO: end}
        found = pl.DataFrame([column.alias(name) for name, column in columns.items()])
        if self._near is not None and _count(found) > SPARSE * self._asking.height:
            found = self._nearer(found, self._near)
        return found[found[ASKS].arg_sort()]

    def _nearer(self, found: pl.DataFrame, near: tuple[int, int]) -> pl.DataFrame:
        """Of these ranges the parts that are near in time."""
        import polars as pl

        slots, times = self._asking[SLOT][found[ASKS]], self._there[SLOT]
        times = times if self._order is None else times[self._order]
        first = times.search_sorted(slots + near[0], "left").cast(pl.UInt64)
        last = times.search_sorted(slots + near[1], "right").cast(pl.UInt64)
        self._near = None
        begin, end = (
            self._codes.search_sorted(found[HASH] | place, "left") for place in (first, last)
        )
        found = found[[ASKS, HASH]].hstack([begin.alias(FROM), end.alias(TO)])
        return found.filter(end > begin)

    def _rows(self, found: pl.Series) -> pl.Series:
        """The rows of these places among the sorted numbers."""
        import polars as pl

        rows = (self._codes[found] & self._lower).cast(pl.UInt32)
        return rows if self._order is None else self._order[rows]

    def _same(self, asks: pl.Series, meets: pl.Series) -> pl.Series:
        """Which of these have the same key, and not only half a hash in common, and are near."""
        same = [self._asking[n][asks] == self._there[n][meets] for n in self._on]
        if self._near is not None:
            apart = self._there[SLOT][meets] - self._asking[SLOT][asks]
            same.append(apart.is_between(*self._near))
        return reduce(lambda one, other: one & other, same)


def _begins(codes: pl.Series, bounds: pl.Series) -> pl.Series:
    """Where those begin that are not less than these bounds; both are sorted."""
    import polars as pl

    if len(bounds) <= FEW_KEYS:
        found = (bisect_left(codes, bound) for bound in bounds)
        return pl.Series(list(found), dtype=pl.UInt32)
    if len(bounds) < FEW_ROWS:
        return codes.search_sorted(bounds, "left")
    numbers = pl.int_range(len(codes), dtype=pl.UInt32, eager=True).alias(FROM)
    ahead = pl.DataFrame([codes.alias(HASH), numbers])
    asked = bounds.alias(HASH).to_frame()
    return asked.join_asof(ahead, on=HASH, strategy="forward", check_sortedness=False)[FROM]


def _each(
    codes: pl.Series, asks: pl.Series, begin: pl.Series, end: pl.Series, limit: int
) -> pl.Series | None:
    """Numbers made of each row that asks and each place from where those begin that it may meet.

    They are sorted. None: there are more than so many, or of one row more than a few.
    """
    import polars as pl

    found = pl.Series([], dtype=pl.UInt64)
    for _ in range(STEPS):
        if not len(asks):
            return found.sort(multithreaded=False)
        found.append(asks * SHIFT | begin.cast(pl.UInt64))
        if len(found) > limit:
            return None
        begin = begin + 1
        more = codes[begin] < end
        asks, begin, end = asks.filter(more), begin.filter(more), end.filter(more)
    return None


def _count(ranges: pl.DataFrame) -> int:
    """How many there are in all of these."""
    import polars as pl

    return int((ranges[TO] - ranges[FROM]).cast(pl.Int64).sum())


def _cut(ranges: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The ranges in lots of about so many rows as go out at once."""
    import polars as pl

    length = pl.col(TO) - pl.col(FROM)
    total = _count(ranges)
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
