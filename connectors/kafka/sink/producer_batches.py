"""Record batches for a broker: filled row by row, and sealed when they are full.

aiokafka's compiled builder takes a row in a seventh of a microsecond; its producer would create a
future for each. A batch gets the producer's sequence number when it is started. A sealed batch is
sent unchanged on each retry, and the broker detects duplicates by the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from headrace.connectors.kafka.sink.batch_compression import compress_batch
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from aiokafka.record.default_records import DefaultRecordBatchBuilderProtocol

RecordHeaders: TypeAlias = "list[tuple[str, bytes | None]]"
TopicPartitionId: TypeAlias = "tuple[str, int]"
"""A topic, and the number of a partition."""

BATCH_BYTES = 512 << 10
"""Bytes in a batch, before compression."""
UNBOUNDED_BYTES = 1 << 30
SEQUENCE_COUNT = 1 << 31
"""The number of sequence numbers; after the last, they start at zero again."""
NO_HEADERS: RecordHeaders = []


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """A producer's identity at brokers; `id` is the transactional id, if it has one."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records of one topic, as columns; a record without a value is a tombstone of its key."""

    topic: str
    partitions: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    times_ms: Sequence[int]
    headers: Sequence[RecordHeaders] | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """A batch that is ready to send; `first` is the sequence number of its first record."""

    partition: TopicPartitionId
    first_sequence: int
    record_count: int
    data: bytes | bytearray


@dataclass(slots=True)
class _OpenBatch:
    """A batch being filled."""

    builder: DefaultRecordBatchBuilderProtocol
    first_sequence: int
    opened_at_s: float
    record_count: int = 0
    append: Callable[..., object] = field(init=False)

    def __post_init__(self) -> None:
        self.append = self.builder.append


@dataclass(slots=True)
class ProducerBatches:
    """The open batches of a producer, one per partition."""

    producer: ProducerIdentity
    codec: int = 0
    batch_bytes: int = BATCH_BYTES
    _open_batches: dict[TopicPartitionId, _OpenBatch] = field(default_factory=dict)
    _next_sequences: dict[TopicPartitionId, int] = field(default_factory=dict)
    """The sequence number of the next batch's first record."""

    def add_records(self, records: RecordColumns, now_s: float) -> list[SealedBatch]:
        """Add records; return the batches that are full now."""
        full: list[SealedBatch] = []
        topic = records.topic
        opened: dict[int, _OpenBatch] = {}
        all_headers = records.headers or [NO_HEADERS] * len(records)
        columns = (records.partitions, records.keys, records.values, records.times_ms, all_headers)
        for number, key, value, time_ms, headers in zip(*columns, strict=True):
            batch = opened.get(number)
            if batch is None:
                batch = opened[number] = self._get_open((topic, number), now_s)
            if batch.append(batch.record_count, time_ms, key, value, headers) is None:
                full.append(self._seal_batch((topic, number)))
                batch = opened[number] = self._get_open((topic, number), now_s)
                batch.append(0, time_ms, key, value, headers)
            batch.record_count += 1
        return full

    def find_oldest(self, but: Callable[[TopicPartitionId], bool]) -> float | None:
        """Return the start time of the oldest open batch, except for partitions in `but`."""
        waiting = (
            batch.opened_at_s for place, batch in self._open_batches.items() if not but(place)
        )
        return min(waiting, default=None)

    def seal_before(
        self, since_s: float, but: Callable[[TopicPartitionId], bool] = lambda _: False
    ) -> list[SealedBatch]:
        """Seal the batches started until then, full or not, except for partitions in `but`."""
        old = [place for place, batch in self._open_batches.items() if batch.opened_at_s <= since_s]
        return [self._seal_batch(place) for place in old if not but(place)]

    @property
    def row_count(self) -> int:
        """The number of rows in open batches."""
        return sum(batch.record_count for batch in self._open_batches.values())

    @property
    def byte_count(self) -> int:
        """The total size of the open batches."""
        return sum(batch.builder.size() for batch in self._open_batches.values())

    def _get_open(self, place: TopicPartitionId, now_s: float) -> _OpenBatch:
        batch = self._open_batches.get(place)
        if batch is None:
            first = self._next_sequences.get(place, 0)
            batch = self._open_batches[place] = _OpenBatch(
                self._make_builder(first, self.batch_bytes), first, now_s
            )
        return batch

    def _make_builder(self, first: int, size: int) -> DefaultRecordBatchBuilderProtocol:
        from aiokafka.record.default_records import DefaultRecordBatchBuilder

        who = self.producer
        numbers = (int(who.transactional_id is not None), who.producer_id, who.epoch, first)
        return DefaultRecordBatchBuilder(2, 0, *numbers, size)

    def _seal_batch(self, place: TopicPartitionId) -> SealedBatch:
        batch = self._open_batches.pop(place)
        self._next_sequences[place] = (batch.first_sequence + batch.record_count) % SEQUENCE_COUNT
        data = compress_batch(batch.builder.build(), self.codec)
        return SealedBatch(place, batch.first_sequence, batch.record_count, data)

    def split_batch(self, sealed: SealedBatch) -> list[SealedBatch]:
        """Split a batch that is too large for its broker into two."""
        middle = sealed.record_count // 2
        found, second = (
            list(iterate_rows(sealed)),
            (sealed.first_sequence + middle) % SEQUENCE_COUNT,
        )
        parts = ((sealed.first_sequence, found[:middle]), (second, found[middle:]))
        return [self._rebuild_batch(sealed.partition, first, part) for first, part in parts]

    def _rebuild_batch(
        self, place: TopicPartitionId, first: int, found: list[RecordRow]
    ) -> SealedBatch:
        builder = self._make_builder(first, size=UNBOUNDED_BYTES)
        for number, (time_ms, key, value, headers) in enumerate(found):
            builder.append(number, time_ms, key, value, headers)
        return SealedBatch(place, first, len(found), compress_batch(builder.build(), self.codec))


RecordRow: TypeAlias = "tuple[int, bytes | None, bytes | None, RecordHeaders]"
"""The time, key, value and headers of a record."""


def iterate_rows(sealed: SealedBatch) -> Iterator[RecordRow]:
    """Yield the rows of a batch."""
    from aiokafka.record.memory_records import MemoryRecords

    batch = MemoryRecords(bytes(sealed.data)).next_batch()
    assert batch is not None
    for record in batch:
        yield record.timestamp or 0, record.key, record.value, list(record.headers)
