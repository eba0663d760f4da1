"""The queue of sealed batches: which are sent next, and how many bytes wait. No clock, no I/O.

Each partition has one batch in flight at a time, so sequence numbers stay in order whatever is
retried. Each broker has one request in flight, with a batch for each partition that it leads, so
that more rows are collected for the next one while the broker writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field

from headrace.connectors.kafka.sink.producer_batches import SealedBatch, TopicPartitionId
from headrace.core.types.lazy_dataclass import dataclass

MAX_REQUEST_BYTES = 8 << 20
"""The maximum bytes of batches in a request."""


@dataclass(slots=True)
class BatchQueue:
    """Batches waiting and in flight."""

    pending_bytes: int = 0
    """The bytes of batches waiting or in flight."""
    _waiting: dict[TopicPartitionId, deque[SealedBatch]] = field(default_factory=dict)
    _in_flight: set[TopicPartitionId] = field(default_factory=set)
    _busy_brokers: set[int] = field(default_factory=set)

    def add(self, batches: Sequence[SealedBatch]) -> None:
        """Add batches after the others."""
        for batch in batches:
            self._waiting.setdefault(batch.partition, deque()).append(batch)
            self.pending_bytes += len(batch.data)

    @property
    def is_empty(self) -> bool:
        """Whether all batches have been written."""
        return not self._waiting and not self._in_flight

    def has_batch(self, place: TopicPartitionId) -> bool:
        """Whether a batch for the partition is waiting or in flight."""
        return place in self._waiting or place in self._in_flight

    def take_sendable(
        self, leader: Callable[[TopicPartitionId], int | None]
    ) -> dict[int, list[SealedBatch]]:
        """Return the batches to send now, by broker, and mark them as in flight."""
        batches: dict[int, list[SealedBatch]] = {}
        sizes: dict[int, int] = {}
        for place in list(self._waiting):
            node = None if place in self._in_flight else leader(place)
            if node is None or node in self._busy_brokers:
                continue
            size = len(self._waiting[place][0].data)
            if node in batches and sizes[node] + size > MAX_REQUEST_BYTES:
                continue
            sizes[node] = sizes.get(node, 0) + size
            batches.setdefault(node, []).append(self._pop_batch(place))
        self._busy_brokers.update(batches)
        return batches

    def list_leaderless_topics(self, leader: Callable[[TopicPartitionId], int | None]) -> list[str]:
        """Return the topics of waiting batches for partitions without a known leader."""
        return sorted({place[0] for place in self._waiting if leader(place) is None})

    def release_broker(self, node: int) -> None:
        """Mark the broker as ready for the next request."""
        self._busy_brokers.discard(node)

    def remove(self, batch: SealedBatch) -> None:
        """Remove a batch that was written."""
        self._in_flight.discard(batch.partition)
        self.pending_bytes -= len(batch.data)

    def requeue(self, batch: SealedBatch, parts: Sequence[SealedBatch] = ()) -> None:
        """Requeue a failed batch before the others of its partition; or `parts` in its place."""
        self._in_flight.discard(batch.partition)
        instead = list(parts) or [batch]
        self.pending_bytes += sum(len(part.data) for part in instead) - len(batch.data)
        self._waiting.setdefault(batch.partition, deque()).extendleft(reversed(instead))

    def _pop_batch(self, place: TopicPartitionId) -> SealedBatch:
        queue = self._waiting[place]
        batch = queue.popleft()
        if not queue:
            del self._waiting[place]
        self._in_flight.add(place)
        return batch
