"""Chunks from batches of several partitions: unpacked, decoded in one block, and split again.

The fixed cost of a block is paid once for all partitions with data, so that many partitions with
few records each are no slower than one with all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.kafka.source.batches import Batch
from headrace.connectors.kafka.source.beside import Beside
from headrace.connectors.kafka.source.places import Partition, Place
from headrace.connectors.kafka.source.records import Records
from headrace.connectors.kafka.source.values import Rows, Values, ValuesReader
from headrace.core.contracts import BadRecord, Chunk
from headrace.core.messages import Split

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Load:
    """The input of a chunk: batches of a partition, from a position on.

    Reading resumes at `to` after them, if all their records are taken.
    """

    split: Split
    partition: Partition
    place: Place
    batches: Sequence[Batch]
    to: int

    @property
    def count(self) -> int:
        """The maximum number of records."""
        return sum(batch.count for batch in self.batches)

    @property
    def size(self) -> int:
        """The number of bytes as fetched."""
        return sum(len(batch.data) for batch in self.batches)


@dataclass(frozen=True, slots=True)
class Made:
    """A chunk, and the position at which reading resumes."""

    chunk: Chunk
    place: Place
    whole: bool
    """Whether all records of the batches were taken."""
    skipped: int = 0
    """The number of records without a value, which were left out."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes chunks with these columns, in this order."""

    values: ValuesReader
    beside: Beside
    columns: tuple[str, ...]

    def make(self, loads: Sequence[Load], most: int | None = None) -> list[Made]:
        """Make the chunks of loads, of at most `most` records in total. Raises Damaged."""
        unpacking = self.beside.unpacking
        unpacked: list[Records] = []
        left = most
        for load in loads:
            place = load.place
            records = unpacking.unpack(load.batches, place.offset, place.stop, left)
            unpacked.append(records)
            if left is not None:
                left -= len(records.values)
                if left <= 0:
                    break
        return self._parted(loads, unpacked)

    def _parted(self, loads: Sequence[Load], unpacked: Sequence[Records]) -> list[Made]:
        """Decode all loads in one batch, and give each its rows."""
        if len(unpacked) == 1:
            rows = self.values.read(unpacked[0].values)
            return [self._made(loads[0], unpacked[0], rows)]
        together: list[bytes | None] = []
        for records in unpacked:
            together += records.values
        every = self.values.read(together)
        made, at, row = [], 0, 0
        for load, records in zip(loads, unpacked, strict=False):
            end = at + len(records.values)
            bad = {n - at: error for n, error in every.bad.items() if at <= n < end}
            skipped = [n - at for n in every.skipped if at <= n < end]
            count = end - at - len(bad) - len(skipped)
            part = Rows(every.frame.slice(row, count), bad, skipped)
            made.append(self._made(load, records, part))
            at, row = end, row + count
        return made

    def _made(self, load: Load, records: Records, rows: Rows) -> Made:
        frame = self._with_beside(load.partition, records, rows)
        bad = tuple(
            BadRecord(error, records.offset(number), _shown(records.values, number))
            for number, error in rows.bad.items()
        )
        last = records.last or load.place.last
        whole = records.next_offset >= (load.batches[-1].next_offset if load.batches else 0)
        go_on = load.to if whole else records.next_offset
        if load.place.stop is not None:
            go_on = min(go_on, max(load.place.stop, load.place.offset))
        place = Place(max(go_on, load.place.offset), last, load.place.stop)
        chunk = Chunk(load.split, frame, place.position, bad)
        return Made(chunk, place, whole, len(rows.skipped))

    def _with_beside(self, partition: Partition, records: Records, rows: Rows) -> pl.DataFrame:
        """Add the metadata columns to the rows."""
        import polars as pl

        if not self.beside.columns:
            return rows.frame
        metadata = self.beside.read(partition, records)
        if out := [*rows.bad, *rows.skipped]:
            good = pl.Series([True]).new_from_index(0, metadata.height).scatter(sorted(out), False)
            metadata = metadata.filter(good)
        if not rows.frame.width:
            return metadata.select(self.columns)
        return rows.frame.hstack(metadata.get_columns()).select(self.columns)


def _shown(values: Values, number: int) -> str:
    value = values[number]
    return "" if value is None else value.decode("utf-8", "replace")
