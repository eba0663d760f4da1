"""Frozen table: its memtables, and its rows on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY, NO_CLOCK_US
from headrace.core.types.key_groups import compute_key_groups, compute_row_groups
from headrace.state.memory.table_log import FrozenTable
from headrace.state.rocks.disk_rows import DiskRows

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class FrozenSpillingTable:
    """Table as it was when the state was frozen."""

    group: tuple[str, ...] | None
    memtables: tuple[FrozenTable, ...]
    """The active memtable, then the immutable one, if there is one."""
    tombstones: tuple[pl.Series, ...]
    """Tombstones: keys whose rows on disk are deleted."""
    disk_rows: DiskRows | None
    """Rows on disk, unchanged until the state is stored or released; None if there are none."""

    def get_columns(self) -> Mapping[str, pl.DataType] | None:
        """Return the columns of the rows; None without rows."""
        if self.disk_rows is not None:
            return self.disk_rows.columns
        frames = (frame for each in self.memtables for frame in each.frames)
        return next((frame.schema for frame in frames), None)

    def read_groups(self, groups: range | None, key_groups: int) -> pl.DataFrame | None:
        """Return the rows that count, restricted to those key groups (None: all)."""
        import polars as pl

        parts = [part for part in self.read_chunks(groups, key_groups) if part.height]
        return pl.concat(parts, how="diagonal") if parts else None

    def read_chunks(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield the same rows in frames not much larger than a memtable."""
        import polars as pl

        hiding = list(self.tombstones)
        now_us = max(generation.now_us for generation in self.memtables)
        for generation in self.memtables:
            rows = read_latest_rows(generation)
            if rows is not None:
                yield self._filter_groups(
                    _filter_visible(rows, hiding[len(self.tombstones) :], now_us),
                    groups,
                    key_groups,
                )
                hiding.append(rows[KEY])
        if self.disk_rows is None:
            return
        hidden = HiddenKeys(pl.concat(hiding) if hiding else pl.Series(dtype=pl.String), key_groups)
        inside = groups if self.group is None else None
        for rows in self.disk_rows.read_all(inside):
            yield self._filter_groups(
                _filter_visible(rows, [hidden.slice_near(rows[KEY])], now_us), groups, key_groups
            )

    def _filter_groups(
        self, rows: pl.DataFrame, groups: range | None, key_groups: int
    ) -> pl.DataFrame:
        if groups is None or len(groups) >= key_groups:
            return rows
        of = (
            compute_key_groups(rows[KEY], key_groups)
            if self.group is None
            else compute_row_groups(rows, self.group, key_groups)
        )
        return rows.filter(of.is_between(groups.start, groups.stop, closed="left"))


class HiddenKeys:
    """Keys whose rows on disk do not count, sorted by key group as the rows on disk are."""

    def __init__(self, keys: pl.Series, key_groups: int) -> None:
        self._key_groups = key_groups
        groups = compute_key_groups(keys, key_groups)
        order = groups.arg_sort()
        self._keys, self._groups = keys[order], groups[order]

    def slice_near(self, keys: pl.Series) -> pl.Series:
        """Return the hidden keys in the key groups of these keys, which are in disk order."""
        groups = compute_key_groups(keys, self._key_groups)
        low = self._groups.search_sorted(int(groups[0]), "left")
        high = self._groups.search_sorted(int(groups[-1]), "right")
        return self._keys.slice(low, high - low)


def read_latest_rows(generation: FrozenTable) -> pl.DataFrame | None:
    """Return the latest row of each key that was not removed, even if the row has expired."""
    return replace(generation, now_us=NO_CLOCK_US).read_groups(None, 1)


def _filter_visible(rows: pl.DataFrame, hiding: list[pl.Series], now_us: int) -> pl.DataFrame:
    """Return the rows that are not hidden and have not expired."""
    import polars as pl

    for keys in hiding:
        rows = rows.join(keys.alias(KEY).to_frame(), on=KEY, how="anti", maintain_order="left")
    if EXPIRY not in rows.columns:
        return rows
    return rows.filter(pl.col(EXPIRY).is_null() | (pl.col(EXPIRY) >= now_us))
