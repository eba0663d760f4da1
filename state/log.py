"""Frozen table: a log of rows, in which the last row of each key counts.

A log can therefore be restricted to key groups and concatenated with others without comparing keys.
The latest rows are only found when an index of the log is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core.keygroups import groups_of, hashes_of, key_group
from headrace.core.state import KEY, UNTIL

if TYPE_CHECKING:
    import polars as pl

ROW = "__row"
"""Column with the number of a row in the log."""


@dataclass(frozen=True, slots=True)
class FrozenTable:
    """Log of a table as it was, and the numbers of the rows that had been removed."""

    frames: tuple[pl.DataFrame, ...]
    removed: tuple[pl.Series, ...]
    now_us: int
    group: tuple[str, ...] | None

    def of_groups(self, groups: range | None, key_groups: int) -> pl.DataFrame | None:
        """Return the rows that count, restricted to those key groups (None: all)."""
        import polars as pl

        if not self.frames:
            return None
        rows = self.last_rows()[ROW]
        log = pl.concat(self.frames)
        log = log if len(rows) == log.height else log[rows]
        if UNTIL in log.columns:
            log = log.filter(pl.col(UNTIL).is_null() | (pl.col(UNTIL) >= self.now_us))
        if groups is not None and len(groups) < key_groups:
            log = log.filter(self._within(log, groups, key_groups))
        return log if log.height else None

    def last_rows(self) -> pl.DataFrame:
        """Return key and number of the last row of each key that was not removed; the log must have
        frames.
        """
        import polars as pl

        last = pl.concat([frame[[KEY]] for frame in self.frames]).with_row_index(ROW)
        # Only keys whose hash occurs twice are compared as texts: the others differ by their hash.
        twice = hashes_of(last[KEY]).is_duplicated()
        if twice.any():
            again = last.filter(twice).unique(KEY, keep="last")
            last = pl.concat([last.filter(~twice), again]).sort(ROW)
        if not self.removed:
            return last
        return last.filter(~pl.col(ROW).is_in(pl.concat(self.removed).implode()))

    def clipped(self, groups: range, key_groups: int) -> FrozenTable:
        """Return the log restricted to the keys of those groups."""
        import polars as pl

        if len(groups) == key_groups or not self.frames:
            return self
        keeps = [self._within(frame, groups, key_groups) for frame in self.frames]
        frames = [f.filter(each) for f, each in zip(self.frames, keeps, strict=True)]
        removed = self.removed
        if removed:
            # A removed row hides earlier rows of its key, so it stays, under its new number.
            which, old = pl.concat(keeps), pl.concat(self.removed)
            numbers = which.cast(pl.UInt32).cum_sum() - 1
            removed = (numbers[old.filter(which[old])].cast(old.dtype),)
        return replace(self, frames=tuple(f for f in frames if f.height), removed=removed)

    def _within(self, log: pl.DataFrame, groups: range, key_groups: int) -> pl.Series:
        of = (
            groups_of(log[KEY], key_groups)
            if self.group is None
            else key_group(log, self.group, key_groups)
        )
        return of.is_between(groups.start, groups.stop, closed="left")


def joined(logs: Sequence[FrozenTable]) -> FrozenTable:
    """Concatenate several logs, whose keys differ."""
    if len(logs) == 1:
        return logs[0]
    now_us = max(log.now_us for log in logs)
    frames: list[pl.DataFrame] = []
    removed: list[pl.Series] = []
    for log in logs:
        height = sum(frame.height for frame in frames)
        removed += [numbers + height for numbers in log.removed]
        frames += log.frames
    if any(UNTIL in frame.columns for frame in frames):
        frames = [frame if UNTIL in frame.columns else timed(frame) for frame in frames]
    return FrozenTable(tuple(frames), tuple(removed), now_us, logs[0].group)


def timed(frame: pl.DataFrame) -> pl.DataFrame:
    """Add an EXPIRY column of nulls."""
    import polars as pl

    return frame.with_columns(pl.lit(None, dtype=pl.Int64).alias(UNTIL))
