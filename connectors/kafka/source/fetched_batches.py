"""The record batches of a fetch response, parsed by their headers alone, and the visible ones.

Records are not unpacked, so the next fetch can be sent before those of this one are decoded. A
header is 61 bytes; the batch's checksum covers all but the offset and the length at its front. Old
brokers may still hold messages in formats before batches (magic 0 and 1), which have the last
offset in the place of the base offset.

A broker answers a `read_committed` fetch with all batches before the first open transaction, and
a list of aborted transactions: the producer and the first offset of each. From that offset on,
batches of the producer are hidden, up to the control batch that ends its transaction; Java's client
does the same. Control batches are hidden from all readers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from aiokafka.record._protocols import (
        DefaultRecordBatchProtocol,
        LegacyRecordBatchProtocol,
    )


HEADER_STRUCT = struct.Struct(">qiibIhiqqqhii")


FRONT_STRUCT = struct.Struct(">qi")


MAGIC_OFFSET = 16


MIN_BYTES = 17
"""The bytes of a batch, up to the magic byte, whose layout is the same in all versions."""


TRANSACTIONAL_FLAG = 0x10


CONTROL_FLAG = 0x20


ABORT_TYPE = 0


class DamagedBatch(Exception):
    """A batch with a wrong checksum or length."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the records from offset {offset} on are damaged")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """A record batch: its header and its bytes."""

    data: bytes
    """The bytes of the batch as fetched."""
    base_offset: int
    next_offset: int
    """The base offset of the next batch, even if the last records were compacted away."""
    record_count: int
    """The number of records, or an upper bound of it in old formats."""
    attributes: int
    producer_id: int
    magic: int

    @property
    def is_control(self) -> bool:
        """Whether the batch is a control batch, which marks the end of a transaction."""
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_dense(self) -> bool:
        """Whether the batch has a record at each of its offsets."""
        return self.magic >= 2 and self.record_count == self.next_offset - self.base_offset

    @property
    def is_abort(self) -> bool:
        """Whether the batch marks the end of an aborted transaction."""
        if not self.is_control or not self.record_count:
            return False
        key = next(iter(self.open_records())).key
        return (
            key is not None and len(key) >= 4 and struct.unpack_from(">h", key, 2)[0] == ABORT_TYPE
        )

    def open_records(self) -> DefaultRecordBatchProtocol | LegacyRecordBatchProtocol:
        """Return an iterator of the records, for one pass. Raises DamagedBatch."""
        from aiokafka.record.default_records import DefaultRecordBatch
        from aiokafka.record.legacy_records import LegacyRecordBatch

        batch = (
            DefaultRecordBatch(self.data)
            if self.magic >= 2
            else LegacyRecordBatch(self.data, self.magic)
        )
        if not batch.validate_crc():
            raise DamagedBatch(self.base_offset)
        return batch


def parse_batches(data: bytes) -> list[FetchedBatch]:
    """Split a response into whole batches; an incomplete last one is fetched again."""
    batches = []
    at, size = 0, len(data)
    while at + MIN_BYTES <= size:
        first, length = FRONT_STRUCT.unpack_from(data, at)
        end = at + FRONT_STRUCT.size + length
        if length < MIN_BYTES - FRONT_STRUCT.size:
            raise DamagedBatch(first)
        if end > size:
            break
        batches.append(_parse_batch(data[at:end]))
        at = end
    return batches


def _parse_batch(data: bytes) -> FetchedBatch:
    magic = data[MAGIC_OFFSET]
    if magic < 2:
        (last,) = struct.unpack_from(">q", data)
        return FetchedBatch(data, last, last + 1, 1, 0, -1, magic)
    if len(data) < HEADER_STRUCT.size:
        raise DamagedBatch(int.from_bytes(data[:8], "big"))
    base, _, _, _, _, attributes, delta, _, _, producer, _, _, count = HEADER_STRUCT.unpack_from(
        data
    )
    return FetchedBatch(data, base, base + delta + 1, count, attributes, producer, magic)


AbortedTransactions = Iterable[tuple[int, int]]
"""The aborted transactions in a response: the producer's id and the first offset."""


def filter_visible(
    found: Sequence[FetchedBatch], aborted: AbortedTransactions | None
) -> list[FetchedBatch]:
    """Return the visible batches; `aborted` is None for readers of uncommitted records."""
    to_come = sorted(aborted or (), key=lambda each: each[1], reverse=True)
    hidden: set[int] = set()
    shown = []
    for batch in found:
        while to_come and to_come[-1][1] < batch.next_offset:
            hidden.add(to_come.pop()[0])
        if batch.is_control:
            if batch.producer_id in hidden and batch.is_abort:
                hidden.discard(batch.producer_id)
        elif batch.record_count and not (batch.is_transactional and batch.producer_id in hidden):
            shown.append(batch)
    return shown
