"""The pairs of rows of two frames with equal keys, and with times near each other.

The stored rows become sorted numbers: the hash of the key in the upper bits, the row's rank in the
order of time in the lower bits. So the candidates of a probing row are adjacent. The probing rows
are sorted by their hashes too, and both are merged; or, if the probing rows are few, the start and
end of their candidates is found by bisection. The number of pairs is known before any is made, and
pairs are made in bounded batches: a key that nearly all rows have takes time, but no memory. (A
hash join by the key alone, then filtered by time, makes a hundred times the pairs where a key has a
hundred rows; where it has one, it takes as long.)

If both frames have few rows, a dictionary of the stored keys gives the same pairs in less time than
a call of Polars takes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.state import SLOT
from headrace.core.operators.operator import MAX_OUTPUT_ROWS
from headrace.core.types.frames import FEW_ROWS, hash_rows, list_keys

if TYPE_CHECKING:
    import polars as pl

RowPair: TypeAlias = "tuple[pl.Series, pl.Series]"
"""The numbers of probing rows, and of the rows that they match, side by side."""

PROBE_ROW, KEY_HASH, RANGE_START, RANGE_END = "__asks", "__hash", "__from", "__to"
"""A probing row, its hash, and the start and end of its candidates."""

FULL_MASK, ROW_MASK = (1 << 64) - 1, (1 << 32) - 1

MAX_SPARSE_MATCHES = 2
"""Up to this average number of candidates per row, times are compared instead of looked up."""
MAX_BISECTED_KEYS = 16
"""Up to this number, bisecting each key is faster than the overhead of `search_sorted`."""
MAX_STEPS = 16
"""Up to this number of candidates of a row, all rows step from candidate to candidate together."""
PAIR_FACTOR = 1 << 32
MAX_LISTED_ROWS = 512
"""Up to this number of rows of both frames, pairs are found in Python."""
MAX_LISTED_PAIRS = 1024


class ProbeIndex:
    """The stored rows of probes, with an index of their key, which is built for the first search.

    The columns `on` have no nulls.
    """

    def __init__(self, rows: pl.DataFrame, on: Sequence[str], *, by_time: bool = False) -> None:
        """`by_time`: the rows have a SLOT, and those of a key are found in its order."""
        self.rows = rows
        self.key = on
        self._by_time = by_time

    @cached_property
    def upper(self) -> pl.Series:
        """The bits of a code that are of the hash."""
        import polars as pl

        return pl.Series([FULL_MASK ^ ROW_MASK], dtype=pl.UInt64)

    @cached_property
    def lower(self) -> pl.Series:
        """The bits of a code that are of the number of the row."""
        import polars as pl

        return pl.Series([ROW_MASK], dtype=pl.UInt64)

    @cached_property
    def order(self) -> pl.Series | None:
        """The numbers of the rows in the order of time; None: they are in this order."""
        is_unsorted = self._by_time and not self.rows[SLOT].is_sorted()
        return self.rows[SLOT].arg_sort() if is_unsorted else None

    @cached_property
    def codes(self) -> pl.Series:
        """The sorted codes of the rows, and a sentinel after them, which no search reaches."""
        import polars as pl

        hashes = hash_rows(self.rows, self.key)
        if self.order is not None:
            hashes = hashes[self.order]
        return self.number_hashes(hashes, pl.Series([FULL_MASK], dtype=pl.UInt64))

    def number_hashes(self, hashes: pl.Series, *more: pl.Series) -> pl.Series:
        """Combine hashes with their row numbers in the lower bits, append `more`, and sort."""
        import polars as pl

        numbers = pl.int_range(len(hashes), dtype=pl.UInt64, eager=True)
        whole = (hashes & self.upper) | numbers
        for each in more:
            whole.append(each)
        return whole.sort(multithreaded=False)

    def get_row_numbers(self, found: pl.Series) -> pl.Series:
        """Return the row numbers of these positions in the codes."""
        import polars as pl

        rows = (self.codes[found] & self.lower).cast(pl.UInt32)
        return rows if self.order is None else self.order[rows]


class JoinProbe:
    """The matches of rows among the stored ones."""

    def __init__(
        self, probe_rows: pl.DataFrame, index: ProbeIndex, near: tuple[int, int] | None = None
    ) -> None:
        """`near`: the inclusive bounds of a match's SLOT less that of the probing row.

        They need an index by time.
        """
        self._probe_rows, self._index, self._time_range = probe_rows, index, near
        self._pairs = _list_pairs(probe_rows, index.rows, index.key, near)
        """The pairs of few rows; None: they are found by searching."""
        if self._pairs is None:
            self._search_candidates()

    def _search_candidates(self) -> None:
        index = self._index
        asks, hashes, begin = self._find_starts()
        limit = MAX_SPARSE_MATCHES * self._probe_rows.height
        ends = hashes | index.lower
        self._candidates = _list_candidates(index.codes, asks, begin, ends, limit)
        """Each probing row and each candidate, as one number; None: there are too many."""
        self._found_ranges = (
            None if self._candidates is not None else self._find_ranges(asks, hashes, begin)
        )

    def iterate_pairs(self) -> Iterator[RowPair]:
        """Return all pairs, in bounded batches, in the order of the probing rows."""
        if self._pairs is not None:
            for start in range(0, len(self._pairs[0]), MAX_OUTPUT_ROWS):
                yield _build_pairs(each[start : start + MAX_OUTPUT_ROWS] for each in self._pairs)
            return
        for asks, places in self._iterate_candidates():
            meets = self._index.get_row_numbers(places)
            same = self._match_pairs(asks, meets)
            if not same.all():
                asks, meets = asks.filter(same), meets.filter(same)
            if len(asks):
                yield asks, meets

    def find_matched(self) -> pl.Series:
        """Return the probing rows that have a match, each once, in order."""
        import polars as pl

        if self._pairs is not None:
            return pl.Series(list(dict.fromkeys(self._pairs[0])), dtype=pl.UInt32)
        matched_rows = [pl.Series([], dtype=pl.UInt32)]
        if self._found_ranges is not None:
            asks, meets = (
                self._found_ranges[PROBE_ROW],
                self._index.get_row_numbers(self._found_ranges[RANGE_START]),
            )
            same = self._match_pairs(asks, meets)
            if same.all():
                return asks
            # The first candidate has another key or time: all candidates of these are checked.
            matched_rows.append(asks.filter(same))
            self._found_ranges = self._found_ranges.filter(~same)
        matched_rows += [asks for asks, _ in self.iterate_pairs()]
        return pl.concat(matched_rows).unique().sort()

    def _iterate_candidates(self) -> Iterator[RowPair]:
        """Return probing rows and their candidates, in bounded batches."""
        import polars as pl

        if self._candidates is not None:
            for start in range(0, len(self._candidates), MAX_OUTPUT_ROWS):
                each = self._candidates.slice(start, MAX_OUTPUT_ROWS)
                yield (
                    (each // PAIR_FACTOR).cast(pl.UInt32),
                    (each & (PAIR_FACTOR - 1)).cast(pl.UInt32),
                )
            return
        assert self._found_ranges is not None, "ranges exist if single candidates do not"
        for ranges in _split_ranges(self._found_ranges):
            to = pl.int_ranges(ranges[RANGE_START], ranges[RANGE_END], dtype=pl.UInt32, eager=True)
            whole = pl.DataFrame([ranges[PROBE_ROW], to.alias(RANGE_END)]).explode(RANGE_END)
            yield whole[PROBE_ROW], whole[RANGE_END]

    def _find_starts(self) -> tuple[pl.Series, pl.Series, pl.Series]:
        """Return the probing rows that have candidates, their hashes, and the first candidates."""
        index = self._index
        probe_rows = index.number_hashes(hash_rows(self._probe_rows, index.key))
        asks, hashes = probe_rows & index.lower, probe_rows & index.upper
        begin = _search_starts(index.codes, hashes)
        some = index.codes[begin] < (hashes | index.lower)
        return asks.filter(some), hashes.filter(some), begin.filter(some)

    def _find_ranges(self, asks: pl.Series, hashes: pl.Series, begin: pl.Series) -> pl.DataFrame:
        """Return the start and end of the candidates of each probing row."""
        import polars as pl

        end = _search_starts(self._index.codes, hashes | self._index.lower)
        columns = {
            PROBE_ROW: asks.cast(pl.UInt32),
            KEY_HASH: hashes,
            RANGE_START: begin,
            RANGE_END: end,
        }
        found = pl.DataFrame([column.alias(name) for name, column in columns.items()])
        if (
            self._time_range is not None
            and _count_candidates(found) > MAX_SPARSE_MATCHES * self._probe_rows.height
        ):
            found = self._narrow_ranges(found, self._time_range)
        return found[found[PROBE_ROW].arg_sort()]

    def _narrow_ranges(self, ranges: pl.DataFrame, near: tuple[int, int]) -> pl.DataFrame:
        """Restrict the ranges to the candidates that are near in time."""
        import polars as pl

        index = self._index
        slots, times = self._probe_rows[SLOT][ranges[PROBE_ROW]], index.rows[SLOT]
        times = times if index.order is None else times[index.order]
        first = times.search_sorted(slots + near[0], "left").cast(pl.UInt64)
        last = times.search_sorted(slots + near[1], "right").cast(pl.UInt64)
        self._time_range = None
        begin, end = (
            index.codes.search_sorted(ranges[KEY_HASH] | place, "left") for place in (first, last)
        )
        ranges = ranges[[PROBE_ROW, KEY_HASH]].hstack(
            [begin.alias(RANGE_START), end.alias(RANGE_END)]
        )
        return ranges.filter(end > begin)

    def _match_pairs(self, asks: pl.Series, meets: pl.Series) -> pl.Series:
        """Return which pairs really have equal keys, not only half a hash, and are near in time."""
        there = self._index.rows
        same = [self._probe_rows[n][asks] == there[n][meets] for n in self._index.key]
        if self._time_range is not None:
            apart = there[SLOT][meets] - self._probe_rows[SLOT][asks]
            same.append(apart.is_between(*self._time_range))
        return reduce(lambda one, other: one & other, same)


def _list_pairs(
    probe_rows: pl.DataFrame,
    there: pl.DataFrame,
    on: Sequence[str],
    near: tuple[int, int] | None,
) -> tuple[list[int], list[int]] | None:
    """Return the numbers of the rows of all pairs; None: the rows or the pairs are too many.

    A row's matches are in the order of their time.
    """
    if not on or probe_rows.height + there.height > MAX_LISTED_ROWS:
        return None
    stored_keys, keys = list_keys(there, on), list_keys(probe_rows, on)
    if stored_keys is None or keys is None:
        return None
    rows_by_key = defaultdict(list)
    if near is None:
        times, stored_times = [0] * len(keys), [0] * len(stored_keys)
    else:
        times, stored_times = probe_rows[SLOT].to_list(), there[SLOT].to_list()
    for row in sorted(range(there.height), key=stored_times.__getitem__):
        rows_by_key[stored_keys[row]].append(row)
    least, most = near or (0, 0)
    asks, meets = list[int](), list[int]()
    for ask, (key, time) in enumerate(zip(keys, times, strict=True)):
        for meet in rows_by_key.get(key, ()):
            if least <= stored_times[meet] - time <= most:
                asks.append(ask)
                meets.append(meet)
        if len(asks) > MAX_LISTED_PAIRS:
            return None
    return asks, meets


def _build_pairs(numbers: Iterable[list[int]]) -> RowPair:
    import polars as pl

    asks, meets = (pl.Series(each, dtype=pl.UInt32) for each in numbers)
    return asks, meets


def _search_starts(codes: pl.Series, bounds: pl.Series) -> pl.Series:
    """Return the index of the first code not less than each bound; both are sorted."""
    import polars as pl

    if len(bounds) <= MAX_BISECTED_KEYS:
        found = (bisect_left(codes, bound) for bound in bounds)
        return pl.Series(list(found), dtype=pl.UInt32)
    if len(bounds) < FEW_ROWS:
        return codes.search_sorted(bounds, "left")
    numbers = pl.int_range(len(codes), dtype=pl.UInt32, eager=True).alias(RANGE_START)
    ahead = pl.DataFrame([codes.alias(KEY_HASH), numbers])
    requests = bounds.alias(KEY_HASH).to_frame()
    return requests.join_asof(ahead, on=KEY_HASH, strategy="forward", check_sortedness=False)[
        RANGE_START
    ]


def _list_candidates(
    codes: pl.Series, asks: pl.Series, begin: pl.Series, end: pl.Series, limit: int
) -> pl.Series | None:
    """Return sorted numbers made of each probing row and each of its candidates.

    None: there are more than `limit`, or one row has more than a few.
    """
    import polars as pl

    found = pl.Series([], dtype=pl.UInt64)
    for _ in range(MAX_STEPS):
        if not len(asks):
            return found.sort(multithreaded=False)
        found.append(asks * PAIR_FACTOR | begin.cast(pl.UInt64))
        if len(found) > limit:
            return None
        begin = begin + 1
        more = codes[begin] < end
        asks, begin, end = asks.filter(more), begin.filter(more), end.filter(more)
    return None


def _count_candidates(ranges: pl.DataFrame) -> int:
    """Return the total length of the ranges."""
    import polars as pl

    return int((ranges[RANGE_END] - ranges[RANGE_START]).cast(pl.Int64).sum())


def _split_ranges(ranges: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Split the ranges into lots of about one output batch each."""
    import polars as pl

    length = pl.col(RANGE_END) - pl.col(RANGE_START)
    total = _count_candidates(ranges)
    if total <= MAX_OUTPUT_ROWS:
        if total:
            yield ranges
        return
    begin = pl.int_ranges(RANGE_START, RANGE_END, MAX_OUTPUT_ROWS, dtype=pl.UInt32)
    parts = ranges.with_columns(begin.alias(RANGE_START)).explode(RANGE_START)
    parts = parts.with_columns(pl.min_horizontal(RANGE_END, pl.col(RANGE_START) + MAX_OUTPUT_ROWS))
    ends = parts.select(length.cast(pl.Int64).cum_sum()).to_series()
    start = done = 0
    while start < parts.height:
        end = max(start + 1, int(ends.search_sorted(done + MAX_OUTPUT_ROWS, side="right")))
        yield parts.slice(start, end - start)
        start, done = end, int(ends[end - 1])
