"""Chunks from batches of several partitions: unpacked, decoded in one block, and split again.

The fixed cost of a block is paid once for all partitions with data, so that many partitions with
few records each are no slower than one with all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from headrace.connectors.kafka.source.fetched_batches import FetchedBatch
from headrace.connectors.kafka.source.metadata_columns import MetadataColumns
from headrace.connectors.kafka.source.positions import Partition, PartitionPosition
from headrace.connectors.kafka.source.record_unpacking import UnpackedRecords
from headrace.connectors.kafka.source.tombstones import TombstoneDecoder
from headrace.connectors.kafka.source.value_decoding import (
    DecodedValues,
    RecordValues,
    ValueDecoder,
)
from headrace.core.api.sources import BadRecord, Chunk
from headrace.core.api.splits import Position, Split
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class ChunkInput:
    """The input of a chunk: batches of a partition, from a position on.

    Reading resumes at `resume_offset` after them, if all their records are taken.
    """

    split: Split
    partition: Partition
    position: PartitionPosition
    batches: Sequence[FetchedBatch]
    resume_offset: int

    @property
    def record_count(self) -> int:
        """The maximum number of records."""
        return sum(batch.record_count for batch in self.batches)

    @property
    def byte_count(self) -> int:
        """The number of bytes as fetched."""
        return sum(len(batch.data) for batch in self.batches)


@dataclass(frozen=True, slots=True)
class MadeChunk:
    """A chunk, and the position at which reading resumes."""

    chunk: Chunk
    position: PartitionPosition
    is_complete: bool
    """Whether all records of the batches were taken."""
    skipped_records: int = 0
    """The number of records without a value, which were left out."""


@dataclass(frozen=True, slots=True)
class ChunkMaker:
    """Makes chunks with these columns, in this order."""

    value_decoder: ValueDecoder
    metadata_columns: MetadataColumns
    columns: tuple[str, ...]
    tombstones: TombstoneDecoder | None = None
    """Decodes records without a value, which delete rows of a table; None: they are left out."""

    def make_chunks(
        self, inputs: Sequence[ChunkInput], max_records: int | None = None
    ) -> list[MadeChunk]:
        """Make chunks of at most `max_records` records in total. Raises DamagedBatch."""
        unpacking = self.metadata_columns.unpacker
        if self.tombstones is not None:
            unpacking = replace(unpacking, keys=True)
        unpacked: list[UnpackedRecords] = []
        remaining_records = max_records
        for chunk_input in inputs:
            place = chunk_input.position
            records = unpacking.unpack_batches(
                chunk_input.batches, place.offset, place.stop, remaining_records
            )
            unpacked.append(records)
            if remaining_records is not None:
                remaining_records -= len(records.values)
                if remaining_records <= 0:
                    break
        return self._decode_batch(inputs, unpacked)

    def _decode_batch(
        self, inputs: Sequence[ChunkInput], unpacked: Sequence[UnpackedRecords]
    ) -> list[MadeChunk]:
        """Decode all inputs in one batch, and give each its rows."""
        if len(unpacked) == 1:
            rows = self._decode_records(unpacked[0].values, unpacked[0].keys)
            return [self._make_chunk(inputs[0], unpacked[0], rows)]
        values: list[bytes | None] = []
        keys: list[bytes | None] = []
        for records in unpacked:
            values += records.values
            keys += records.keys
        decoded = self._decode_records(values, keys)
        made, at, row = [], 0, 0
        for chunk_input, records in zip(inputs, unpacked, strict=False):
            end = at + len(records.values)
            bad = {n - at: error for n, error in decoded.errors.items() if at <= n < end}
            skipped = [n - at for n in decoded.skipped if at <= n < end]
            count = end - at - len(bad) - len(skipped)
            part = DecodedValues(decoded.frame.slice(row, count), bad, skipped)
            made.append(self._make_chunk(chunk_input, records, part))
            at, row = end, row + count
        return made

    def _decode_records(self, values: RecordValues, keys: RecordValues) -> DecodedValues:
        """Decode values; of a table, also the keys of records without a value."""
        decoded = self.value_decoder.decode_values(values)
        if self.tombstones is None or not decoded.skipped:
            return decoded
        return self.tombstones.add_deletes(decoded, keys, len(values))

    def _make_chunk(
        self, chunk_input: ChunkInput, records: UnpackedRecords, rows: DecodedValues
    ) -> MadeChunk:
        frame = self._add_metadata(chunk_input.partition, records, rows)
        bad = tuple(
            BadRecord(error, records.get_offset(number), _format_raw(records.values, number))
            for number, error in rows.errors.items()
        )
        last = records.last_record or chunk_input.position.last_record
        whole = records.next_offset >= (
            chunk_input.batches[-1].next_offset if chunk_input.batches else 0
        )
        resume_offset = chunk_input.resume_offset if whole else records.next_offset
        if chunk_input.position.stop is not None:
            resume_offset = min(
                resume_offset, max(chunk_input.position.stop, chunk_input.position.offset)
            )
        place = PartitionPosition(
            max(resume_offset, chunk_input.position.offset), last, chunk_input.position.stop
        )
        offsets, out = records.offsets, {*rows.errors, *rows.skipped}

        def list_offsets() -> list[Position]:
            every = enumerate(chain.from_iterable(offsets))
            return [offset for number, offset in every if number not in out]

        chunk = Chunk(chunk_input.split, frame, place.stored_form, bad, list_positions=list_offsets)
        return MadeChunk(chunk, place, whole, len(rows.skipped))

    def _add_metadata(
        self, partition: Partition, records: UnpackedRecords, rows: DecodedValues
    ) -> pl.DataFrame:
        """Add the metadata columns to the rows."""
        import polars as pl

        if not self.metadata_columns.columns:
            return rows.frame
        metadata = self.metadata_columns.build_columns(partition, records)
        if out := [*rows.errors, *rows.skipped]:
            good = pl.Series([True]).new_from_index(0, metadata.height).scatter(sorted(out), False)
            metadata = metadata.filter(good)
        if not rows.frame.width:
            return metadata.select(self.columns)
        frame = rows.frame.hstack(metadata.get_columns())
        return frame.select(name for name in self.columns if name in frame.columns)


def _format_raw(values: RecordValues, number: int) -> str:
    value = values[number]
    return "" if value is None else value.decode("utf-8", "replace")
