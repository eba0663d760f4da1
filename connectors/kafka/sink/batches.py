"""Record batches for a broker: filled row by row, and sealed when they are full.

aiokafka's compiled builder takes a row in a seventh of a microsecond; its producer would create a
future for each. A batch gets the producer's sequence number when it is started. A sealed batch is
sent unchanged on each retry, and the broker detects duplicates by the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from headrace.connectors.kafka.sink.packing import packed

if TYPE_CHECKING:
    from aiokafka.record.default_records import DefaultRecordBatchBuilderProtocol

Headers: TypeAlias = "list[tuple[str, bytes | None]]"
Place: TypeAlias = "tuple[str, int]"
"""A topic, and the number of a partition."""

SIZE = 512 << 10
"""Bytes in a batch, before compression."""
UNBOUNDED = 1 << 30
SEQUENCES = 1 << 31
"""The number of sequence numbers; after the last, they start at zero again."""
NO_HEADERS: Headers = []


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer's identity at brokers; `id` is the transactional id, if it has one."""

    number: int
    epoch: int
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one topic, as columns; a record without a value is a tombstone of its key."""

    topic: str
    partitions: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    times_ms: Sequence[int]
    headers: Sequence[Headers] | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A batch that is ready to send; `first` is the sequence number of its first record."""

    place: Place
    first: int
    count: int
    data: bytes | bytearray


@dataclass(slots=True)
class _Open:
    """A batch being filled."""

    builder: DefaultRecordBatchBuilderProtocol
    first: int
    since_s: float
    count: int = 0
    append: Callable[..., object] = field(init=False)

    def __post_init__(self) -> None:
        self.append = self.builder.append


@dataclass(slots=True)
class Batches:
    """The open batches of a producer, one per partition."""

    producer: Producer
    codec: int = 0
    size: int = SIZE
    _open: dict[Place, _Open] = field(default_factory=dict)
    _next: dict[Place, int] = field(default_factory=dict)
    """The sequence number of the next batch's first record."""

    def add(self, records: Records, now_s: float) -> list[Sealed]:
        """Add records; return the batches that are full now."""
        full: list[Sealed] = []
        topic = records.topic
        opened: dict[int, _Open] = {}
        all_headers = records.headers or [NO_HEADERS] * len(records)
        columns = (records.partitions, records.keys, records.values, records.times_ms, all_headers)
        for number, key, value, time_ms, headers in zip(*columns, strict=True):
            batch = opened.get(number)
            if batch is None:
                batch = opened[number] = self._at((topic, number), now_s)
            if batch.append(batch.count, time_ms, key, value, headers) is None:
                full.append(self._seal((topic, number)))
                batch = opened[number] = self._at((topic, number), now_s)
                batch.append(0, time_ms, key, value, headers)
            batch.count += 1
        return full

    def waiting_since(self, but: Callable[[Place], bool]) -> float | None:
        """Return the start time of the oldest open batch, except for partitions in `but`."""
        waiting = (batch.since_s for place, batch in self._open.items() if not but(place))
        return min(waiting, default=None)

    def seal_before(
        self, since_s: float, but: Callable[[Place], bool] = lambda _: False
    ) -> list[Sealed]:
        """Seal the batches started until then, full or not, except for partitions in `but`."""
        old = [place for place, batch in self._open.items() if batch.since_s <= since_s]
        return [self._seal(place) for place in old if not but(place)]

    @property
    def rows(self) -> int:
        """The number of rows in open batches."""
        return sum(batch.count for batch in self._open.values())

    @property
    def bytes(self) -> int:
        """The total size of the open batches."""
        return sum(batch.builder.size() for batch in self._open.values())

    def _at(self, place: Place, now_s: float) -> _Open:
        batch = self._open.get(place)
        if batch is None:
            first = self._next.get(place, 0)
            batch = self._open[place] = _Open(self._builder(first, self.size), first, now_s)
        return batch

    def _builder(self, first: int, size: int) -> DefaultRecordBatchBuilderProtocol:
        from aiokafka.record.default_records import DefaultRecordBatchBuilder

        who = self.producer
        numbers = (int(who.id is not None), who.number, who.epoch, first)
        return DefaultRecordBatchBuilder(2, 0, *numbers, size)

    def _seal(self, place: Place) -> Sealed:
        batch = self._open.pop(place)
        self._next[place] = (batch.first + batch.count) % SEQUENCES
        data = packed(batch.builder.build(), self.codec)
        return Sealed(place, batch.first, batch.count, data)

    def halves(self, sealed: Sealed) -> list[Sealed]:
        """Split a batch that is too large for its broker into two."""
        middle = sealed.count // 2
        found, second = list(rows(sealed)), (sealed.first + middle) % SEQUENCES
        parts = ((sealed.first, found[:middle]), (second, found[middle:]))
        return [self._again(sealed.place, first, part) for first, part in parts]

    def _again(self, place: Place, first: int, found: list[Row]) -> Sealed:
        builder = self._builder(first, size=UNBOUNDED)
        for number, (time_ms, key, value, headers) in enumerate(found):
            builder.append(number, time_ms, key, value, headers)
        return Sealed(place, first, len(found), packed(builder.build(), self.codec))


Row: TypeAlias = "tuple[int, bytes | None, bytes | None, Headers]"
"""The time, key, value and headers of a record."""


def rows(sealed: Sealed) -> Iterator[Row]:
    """Yield the rows of a batch."""
    from aiokafka.record.memory_records import MemoryRecords

    batch = MemoryRecords(bytes(sealed.data)).next_batch()
    assert batch is not None
    for record in batch:
        yield record.timestamp or 0, record.key, record.value, list(record.headers)
