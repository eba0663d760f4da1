"""Frozen table: its memtables, and its rows on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import KEY, StateDescriptor
from headrace.core.types.key_groups import compute_key_groups
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.row_filters import filter_groups, filter_unexpired
from headrace.state.memory.table_log import FrozenTable
from headrace.state.rocks.disk_rows import DiskRows
from headrace.state.rocks.documents import SpillingTableDocument

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

    @property
    def descriptor(self) -> StateDescriptor:
        return StateDescriptor(is_table=True, key=self.group)

    @property
    def columns(self) -> Mapping[str, pl.DataType] | None:
        """Columns of the rows; None without rows."""
        if self.disk_rows is not None:
            return self.disk_rows.columns
        return next((each.columns for each in self.memtables if each.columns is not None), None)

    @property
    def memory_state(self) -> FrozenTable | None:
        """The table as one in memory; None if it is partly on disk."""
        is_in_memory = self.disk_rows is None and len(self.memtables) == 1
        return self.memtables[0] if is_in_memory else None

    def read_chunks(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield the rows that count, restricted to those key groups; None: all.

        The frames are not much larger than a memtable.
        """
        for rows in self._read_visible(groups, key_groups):
            if (inside := filter_groups(rows, self.group, groups, key_groups)).height:
                yield inside

    def _read_visible(self, groups: range | None, key_groups: int) -> Iterator[pl.DataFrame]:
        """Yield the rows that count; those on disk only from the key groups, if that is cheap."""
        import polars as pl

        hiding = list(self.tombstones)
        now_us = max(generation.now_us for generation in self.memtables)
        for generation in self.memtables:
            rows = generation.read_latest_rows()
            if rows is not None:
                yield _filter_visible(rows, hiding[len(self.tombstones) :], now_us)
                hiding.append(rows[KEY])
        if self.disk_rows is None:
            return
        hidden = HiddenKeys(pl.concat(hiding) if hiding else pl.Series(dtype=pl.String), key_groups)
        for rows in self.disk_rows.read_all(groups if self.group is None else None):
            yield _filter_visible(rows, [hidden.slice_near(rows[KEY])], now_us)

    def persist(self, store: SnapshotStore, blobs: FrameBlobs) -> SpillingTableDocument:
        """Put the memtables into the store; the database is put as a whole."""
        import polars as pl

        memtables = [each.persist(store, blobs) for each in self.memtables]
        tombstones = columns = None
        if self.tombstones:
            tombstones = blobs.put(pl.concat(self.tombstones).to_frame(), store)
        if self.disk_rows is not None:
            columns = blobs.put(pl.DataFrame(schema=self.disk_rows.columns), store)
        return SpillingTableDocument(self.group, memtables, tombstones, columns)


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


def _filter_visible(rows: pl.DataFrame, hiding: list[pl.Series], now_us: int) -> pl.DataFrame:
    """Return the rows that are not hidden and have not expired."""
    for keys in hiding:
        rows = rows.join(keys.alias(KEY).to_frame(), on=KEY, how="anti", maintain_order="left")
    return filter_unexpired(rows, now_us)
