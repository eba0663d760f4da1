"""The records of batches as lists, one list for each requested part of the records.

aiokafka's compiled decoder makes the records; the code here costs one pass of a comprehension,
which is most of the total cost. Offsets are counted, not read, if a batch has a record at each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from headrace.connectors.kafka.source.fetched_batches import FetchedBatch
from headrace.connectors.kafka.source.positions import LastRecord
from headrace.core.types.lazy_dataclass import dataclass

RecordHeaders = Sequence["tuple[str, bytes | None]"]


@dataclass(slots=True)
class UnpackedRecords:
    """Records of a partition, in order. Lists of parts that were not requested are empty."""

    values: list[bytes | None] = field(default_factory=list)
    offsets: list[range | list[int]] = field(default_factory=list)
    """The offsets of each batch."""
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    headers: list[RecordHeaders] = field(default_factory=list)
    last_record: LastRecord | None = None
    next_offset: int = 0
    """The offset after the last batch, or after the last record if enough were taken."""

    def get_offset(self, row: int) -> int:
        """Return the offset of a record, by its number."""
        for offsets in self.offsets:
            if row < len(offsets):
                return offsets[row]
            row -= len(offsets)
        raise IndexError(row)


@dataclass(frozen=True, slots=True)
class RecordUnpacker:
    """The requested parts of records, in addition to their values."""

    timestamps: bool = False
    keys: bool = False
    headers: bool = False

    def unpack_batches(
        self,
        batches: Iterable[FetchedBatch],
        first: int,
        before: int | None,
        max_records: int | None = None,
    ) -> UnpackedRecords:
        """Unpack the records from offset `first` up to, not including, `before`.

        Raises DamagedBatch. Safe in any thread.
        """
        records = UnpackedRecords(next_offset=first)
        for batch in batches:
            within = first <= batch.base_offset and (before is None or batch.next_offset <= before)
            fits = max_records is None or len(records.values) + batch.record_count <= max_records
            if within and fits and batch.is_dense and self == VALUES_ONLY:
                _add_values(records, batch)
                records.next_offset = batch.next_offset
            else:
                remaining_records = (
                    None if max_records is None else max_records - len(records.values)
                )
                records.next_offset = self._add_batch(
                    records, batch, first, before, remaining_records
                )
            if before is not None and records.next_offset >= before:
                records.next_offset = before
                break
            if max_records is not None and len(records.values) >= max_records:
                break
        return records

    def _add_batch(
        self,
        to: UnpackedRecords,
        batch: FetchedBatch,
        first: int,
        before: int | None,
        max_records: int | None,
    ) -> int:
        """Add the records of a batch one by one; return the next offset."""
        # No list of record objects is built: Python's garbage collector would scan it over and
        # over, which takes three times as long as everything else.
        offsets: list[int] = []
        for record in batch.open_records():
            offset = record.offset
            if offset < first or (before is not None and offset >= before):
                continue
            offsets.append(offset)
            to.values.append(record.value)
            if self.timestamps:
                to.timestamps.append(record.timestamp or 0)
            if self.keys:
                to.keys.append(record.key)
            if self.headers:
                to.headers.append(record.headers)
            last = record
            if len(offsets) == max_records:
                break
        if offsets:
            to.last_record = LastRecord(last.offset, last.timestamp or 0)
        dense = batch.is_dense and len(offsets) == batch.record_count
        to.offsets.append(range(batch.base_offset, batch.next_offset) if dense else offsets)
        return offsets[-1] + 1 if len(offsets) == max_records else batch.next_offset


VALUES_ONLY = RecordUnpacker()


def _add_values(to: UnpackedRecords, batch: FetchedBatch) -> None:
    to.values += [(last := record).value for record in batch.open_records()]
    to.offsets.append(range(batch.base_offset, batch.next_offset))
    to.last_record = LastRecord(last.offset, last.timestamp or 0)
