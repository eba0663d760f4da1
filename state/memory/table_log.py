"""Frozen table: a log of rows, in which the last row of each key counts.

A log can therefore be restricted to key groups and concatenated with others without comparing keys.
The latest rows are only found when an index of the log is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY
from headrace.core.types.key_groups import compute_key_groups, compute_row_groups, hash_keys

if TYPE_CHECKING:
    import polars as pl

LOG_ROW = "__row"
"""Column with the number of a row in the log."""


@dataclass(frozen=True, slots=True)
class FrozenTable:
    """Log of a table as it was, and the numbers of the rows that had been removed."""

    frames: tuple[pl.DataFrame, ...]
    removed_rows: tuple[pl.Series, ...]
    now_us: int
    group: tuple[str, ...] | None

    def read_groups(self, groups: range | None, key_groups: int) -> pl.DataFrame | None:
        """Return the rows that count, restricted to those key groups (None: all)."""
        import polars as pl

        if not self.frames:
            return None
        rows = self.find_latest_rows()[LOG_ROW]
        log = pl.concat(self.frames)
        log = log if len(rows) == log.height else log[rows]
        if EXPIRY in log.columns:
            log = log.filter(pl.col(EXPIRY).is_null() | (pl.col(EXPIRY) >= self.now_us))
        if groups is not None and len(groups) < key_groups:
            log = log.filter(self._mask_groups(log, groups, key_groups))
        return log if log.height else None

    def find_latest_rows(self) -> pl.DataFrame:
        """Return key and number of the last row of each key that was not removed; the log must have
        frames.
        """
        import polars as pl

        last = pl.concat([frame[[KEY]] for frame in self.frames]).with_row_index(LOG_ROW)
        # Only keys whose hash occurs twice are compared as texts: the others differ by their hash.
        twice = hash_keys(last[KEY]).is_duplicated()
        if twice.any():
            again = last.filter(twice).unique(KEY, keep="last")
            last = pl.concat([last.filter(~twice), again]).sort(LOG_ROW)
        if not self.removed_rows:
            return last
        return last.filter(~pl.col(LOG_ROW).is_in(pl.concat(self.removed_rows).implode()))

    def clip_to_groups(self, groups: range, key_groups: int) -> FrozenTable:
        """Return the log restricted to the keys of those groups."""
        import polars as pl

        if len(groups) == key_groups or not self.frames:
            return self
        keeps = [self._mask_groups(frame, groups, key_groups) for frame in self.frames]
        frames = [f.filter(each) for f, each in zip(self.frames, keeps, strict=True)]
        removed = self.removed_rows
        if removed:
            # A removed row hides earlier rows of its key, so it stays, under its new number.
            which, old = pl.concat(keeps), pl.concat(self.removed_rows)
            numbers = which.cast(pl.UInt32).cum_sum() - 1
            removed = (numbers[old.filter(which[old])].cast(old.dtype),)
        return replace(self, frames=tuple(f for f in frames if f.height), removed_rows=removed)

    def _mask_groups(self, log: pl.DataFrame, groups: range, key_groups: int) -> pl.Series:
        of = (
            compute_key_groups(log[KEY], key_groups)
            if self.group is None
            else compute_row_groups(log, self.group, key_groups)
        )
        return of.is_between(groups.start, groups.stop, closed="left")


def concat_logs(logs: Sequence[FrozenTable]) -> FrozenTable:
    """Concatenate several logs, whose keys differ."""
    if len(logs) == 1:
        return logs[0]
    now_us = max(log.now_us for log in logs)
    frames: list[pl.DataFrame] = []
    removed: list[pl.Series] = []
    for log in logs:
        height = sum(frame.height for frame in frames)
        removed += [numbers + height for numbers in log.removed_rows]
        frames += log.frames
    if any(EXPIRY in frame.columns for frame in frames):
        frames = [
            frame if EXPIRY in frame.columns else add_expiry_column(frame) for frame in frames
        ]
    return FrozenTable(tuple(frames), tuple(removed), now_us, logs[0].group)


def add_expiry_column(frame: pl.DataFrame) -> pl.DataFrame:
    """Add an EXPIRY column of nulls."""
    import polars as pl

    return frame.with_columns(pl.lit(None, dtype=pl.Int64).alias(EXPIRY))
