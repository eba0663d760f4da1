"""Rows of keys in the order of time, divided into sequences: what frames of rows are found in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.parsing.syntax_tree import RowFrame
from headrace.core.plan.over_reach import RowReach
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

GROUP = "__group"
"""The number of a row's key among the keys."""
STATE = "__state"
"""The number of the stored state that a sequence continues; null: it starts from the beginning."""
IS_STORED, IS_EMITTED = "__stored", "__emitted"
"""Whether a row was stored with its key, and whether it has been emitted."""
POSITION = "__at"
"""The position of a row among all rows."""
TIME = "__us"
"""The event time of a row, in microseconds."""
NUMBER, TIME_NUMBER = "__row_number", "__time_number"
"""The number of a row in its sequence, and that of its time, from 1."""
TARGET = "__target"
"""The position of the row whose frame a range is."""
LEAST_US = -(1 << 62)
"""A time before all rows, from which others may be subtracted."""
LEFT, RIGHT = "__left", "__right"
"""The first position of a range, and the one after its last."""


@dataclass(frozen=True, slots=True)
class RowSequences:
    """Rows of several sequences, one after the other, each in the order of time.

    The columns have a value for each row: its time in microseconds, and the positions at which its
    sequence starts and ends.
    """

    times: pl.Series
    starts: pl.Series
    ends: pl.Series

    @property
    def positions(self) -> pl.Series:
        """The positions of the rows."""
        import polars as pl

        return pl.int_range(len(self.times), dtype=pl.Int64, eager=True)

    def find_bounds(self, frame: RowFrame, targets: pl.Series) -> pl.DataFrame:
        """Return the first position of the frame of each target row, and the one after its last.

        An unbounded frame starts with its sequence.
        """
        import polars as pl

        starts, ends = self.starts.gather(targets), self.ends.gather(targets)
        if frame.unit == "rows":
            left = starts if frame.start is None else targets + frame.start
            right = targets + (frame.end + 1)
        else:
            keys = self._compress_times(max(abs(frame.start or 0), abs(frame.end)))
            own = keys.gather(targets)
            left = starts
            if frame.start is not None:
                left = keys.search_sorted(own + frame.start, "left").cast(pl.Int64)
            right = keys.search_sorted(own + frame.end, "right").cast(pl.Int64)
        bounds = pl.DataFrame({TARGET: targets, LEFT: left, RIGHT: right, "s": starts, "e": ends})
        inside = (pl.col(name).clip(pl.col("s"), pl.col("e")) for name in (LEFT, RIGHT))
        return bounds.select(TARGET, *inside)

    def needs_division(self, frames: Sequence[RowFrame]) -> bool:
        """Whether there are too many sequences to find the bounds of all frames at once."""
        bounds = (each for f in frames if f.unit == "range" for each in (f.start, f.end))
        reach_us = max((abs(each or 0) for each in bounds), default=0)
        if not reach_us or not len(self.times):
            return False
        count = int((self.positions == self.starts).sum())
        span_us = int(self.times.max()) - int(self.times.min())  # type: ignore[arg-type]
        return count > 1 and count * (reach_us + span_us) > MAX_WATERMARK_US // 2

    def _compress_times(self, reach_us: int) -> pl.Series:
        """Return times that increase over all rows.

        Times less than the reach apart are as far apart as they are; others, and those of other
        sequences, are further apart than the reach.
        """
        import polars as pl

        beyond = reach_us + 1
        since = self.times.diff().fill_null(0).clip(upper_bound=beyond)
        begins = self.positions == self.starts
        return pl.select(pl.when(begins).then(beyond).otherwise(since).cum_sum()).to_series()


@dataclass(frozen=True, slots=True)
class KeyRows:
    """The rows of keys, stored ones before new ones, in sequences.

    `rows` have the columns GROUP, IS_STORED and IS_EMITTED; all rows of a key are adjacent.
    `states` has the STATE of each row's sequence.
    """

    rows: pl.DataFrame
    sequences: RowSequences
    states: pl.Series

    @staticmethod
    def build(rows: pl.DataFrame, keys: pl.DataFrame, ttl_us: int | None) -> KeyRows:
        """Divide the rows into sequences.

        `keys` has, for each key, its STATE and `__last`, the time of its last row before. A
        sequence ends with its key, and where the next row is more than `ttl_us` later.
        """
        import polars as pl

        times = rows[EVENT_TIME].cast(pl.Int64)
        groups = rows[GROUP]
        begins = (groups != groups.shift(1)).fill_null(True)
        states = keys[STATE].gather(groups)
        if ttl_us is not None:
            of_state = pl.when(rows[IS_STORED]).then(times).otherwise(keys["__last"].gather(groups))
            before = pl.when(begins).then(of_state).otherwise(times.shift(1))
            gaps = pl.select((times - before) > ttl_us).to_series().fill_null(False)
            states = pl.select(pl.when(begins & ~gaps).then(states)).to_series()
            begins |= gaps
        positions = pl.int_range(rows.height, dtype=pl.Int64, eager=True)
        first = positions.filter(begins)
        ends = first.shift(-1, fill_value=rows.height)
        sequence = begins.cast(pl.Int64).cum_sum() - 1
        starts = first.gather(sequence)
        sequences = RowSequences(times, starts, ends.gather(sequence))
        return KeyRows(rows, sequences, states.gather(starts).alias(STATE))

    @property
    def is_last(self) -> pl.Series:
        """Whether the sequence of each row is the last of its key."""
        groups = self.rows[GROUP]
        following = groups.shift(-1).gather(self.sequences.ends - 1)
        return (groups != following).fill_null(True)

    @property
    def time_numbers(self) -> pl.Series:
        """The number of each row's time in its sequence, from 1."""
        import polars as pl

        begins = self._find_new_times().cast(pl.Int64).cum_sum()
        return begins - begins.gather(self.sequences.starts) + 1

    def find_first_of_time(self) -> pl.Series:
        """Return the position of the first row with the time of each row in its sequence."""
        import polars as pl

        begins, at = self._find_new_times(), self.sequences.positions
        return at.filter(begins).gather(begins.cast(pl.Int64).cum_sum() - 1)

    def _find_new_times(self) -> pl.Series:
        """Return whether each row has another time than the one before, or begins its sequence."""
        times, sequences = self.sequences.times, self.sequences
        changes = (times != times.shift(1)).fill_null(True)
        return changes | (sequences.positions == sequences.starts)

    def find_known(self, reach: RowReach, watermark_us: int) -> pl.Series:
        """Return whether each row has not been emitted, and all rows in its frames are known."""
        at = self.sequences
        if watermark_us == MAX_WATERMARK_US or not reach.follows:
            return ~self.rows[IS_EMITTED]
        closed = ~self.is_last
        if reach.ttl_us is not None:
            closed |= at.times.gather(at.ends - 1) < max(watermark_us, LEAST_US) - reach.ttl_us
        has_rows = at.positions + reach.rows_after < at.ends
        has_times = at.times < max(watermark_us, LEAST_US) - reach.us_after
        return ~self.rows[IS_EMITTED] & (closed | (has_rows & has_times))

    def find_last(self, is_known: pl.Series) -> pl.DataFrame:
        """Return the rows of the last sequence of each key, with TIME, NUMBER, TIME_NUMBER and
        STATE; known ones count as emitted."""
        at = self.sequences
        added = [
            at.times.alias(TIME),
            (at.positions - at.starts + 1).alias(NUMBER),
            self.time_numbers.alias(TIME_NUMBER),
            self.states,
            (self.rows[IS_EMITTED] | is_known).alias(IS_EMITTED),
        ]
        return self.rows.with_columns(added).filter(self.is_last)
