"""The record batches in a fetch answer, by their headers alone: nothing is unpacked here.

So the next fetch can be sent before the records of this one are looked at. A header is 61 bytes;
the offset and the length in front are not covered by the batch's checksum, the rest is. Old brokers
may still keep messages from before batches (magic 0 and 1): what stands in the place of the base
offset there is the last offset.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiokafka.record._protocols import (
        DefaultRecordBatchProtocol,
        LegacyRecordBatchProtocol,
    )

HEADER = struct.Struct(">qiibIhiqqqhii")
FRONT = struct.Struct(">qi")
MAGIC_AT = 16
LEAST = 17
"""Up to the magic byte, the first bytes of a batch are the same in all versions."""

TRANSACTIONAL = 0x10
CONTROL = 0x20
ABORT = 0


class Damaged(Exception):
    """A batch whose bytes are not those that were written."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the records from offset {offset} on are damaged")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch: what its header says, and its bytes."""

    data: bytes
    """The bytes of the batch, as they came."""
    base_offset: int
    next_offset: int
    """Where the batch after it begins, also where the last records were compacted away."""
    count: int
    """How many records it holds; an upper bound is enough where it has to be guessed."""
    attributes: int
    producer_id: int
    magic: int

    @property
    def is_control(self) -> bool:
        """Whether it holds no records but a mark of a transaction's end."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_dense(self) -> bool:
        """Whether it has a record at each of its offsets."""
        return self.magic >= 2 and self.count == self.next_offset - self.base_offset

    @property
    def is_abort(self) -> bool:
        """Whether it marks the end of a transaction that was aborted."""
        if not self.is_control or not self.count:
            return False
        key = next(iter(self.opened())).key
        return key is not None and len(key) >= 4 and struct.unpack_from(">h", key, 2)[0] == ABORT

    def opened(self) -> DefaultRecordBatchProtocol | LegacyRecordBatchProtocol:
        """What unpacks the records, once; raises Damaged."""
        from aiokafka.record.default_records import DefaultRecordBatch
        from aiokafka.record.legacy_records import LegacyRecordBatch

        batch = (
            DefaultRecordBatch(self.data)
            if self.magic >= 2
            else LegacyRecordBatch(self.data, self.magic)
        )
        if not batch.validate_crc():
            raise Damaged(self.base_offset)
        return batch


def batches(data: bytes) -> list[Batch]:
    """The batches that came whole; an answer may end within one, which then comes again."""
    found = []
    at, size = 0, len(data)
    while at + LEAST <= size:
        first, length = FRONT.unpack_from(data, at)
        end = at + FRONT.size + length
        if length < LEAST - FRONT.size:
            raise Damaged(first)
        if end > size:
            break
        found.append(_batch(data[at:end]))
        at = end
    return found


def _batch(data: bytes) -> Batch:
    magic = data[MAGIC_AT]
    if magic < 2:
        (last,) = struct.unpack_from(">q", data)
        return Batch(data, last, last + 1, 1, 0, -1, magic)
    if len(data) < HEADER.size:
        raise Damaged(int.from_bytes(data[:8], "big"))
    base, _, _, _, _, attributes, delta, _, _, producer, _, _, count = HEADER.unpack_from(data)
    return Batch(data, base, base + delta + 1, count, attributes, producer, magic)
