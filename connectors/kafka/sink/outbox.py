"""The queue of sealed batches: which are sent next, and how many bytes wait. No clock, no I/O.

Each partition has one batch in flight at a time, so sequence numbers stay in order whatever is
retried. Each broker has one request in flight, with a batch for each partition that it leads, so
that more rows are collected for the next one while the broker writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.connectors.kafka.sink.batches import Place, Sealed

REQUEST = 8 << 20
"""The maximum bytes of batches in a request."""


@dataclass(slots=True)
class Outbox:
    """Batches waiting and in flight."""

    held: int = 0
    """The bytes of batches waiting or in flight."""
    _waiting: dict[Place, deque[Sealed]] = field(default_factory=dict)
    _under_way: set[Place] = field(default_factory=set)
    _busy: set[int] = field(default_factory=set)

    def put(self, batches: Sequence[Sealed]) -> None:
        """Add batches after the others."""
        for batch in batches:
            self._waiting.setdefault(batch.place, deque()).append(batch)
            self.held += len(batch.data)

    @property
    def empty(self) -> bool:
        """Whether all batches have been written."""
        return not self._waiting and not self._under_way

    def has(self, place: Place) -> bool:
        """Whether a batch for the partition is waiting or in flight."""
        return place in self._waiting or place in self._under_way

    def take(self, leader: Callable[[Place], int | None]) -> dict[int, list[Sealed]]:
        """Return the batches to send now, by broker, and mark them as in flight."""
        taken: dict[int, list[Sealed]] = {}
        sizes: dict[int, int] = {}
        for place in list(self._waiting):
            node = None if place in self._under_way else leader(place)
            if node is None or node in self._busy:
                continue
            size = len(self._waiting[place][0].data)
            if node in taken and sizes[node] + size > REQUEST:
                continue
            sizes[node] = sizes.get(node, 0) + size
            taken.setdefault(node, []).append(self._next(place))
        self._busy.update(taken)
        return taken

    def unled(self, leader: Callable[[Place], int | None]) -> list[str]:
        """Return the topics of waiting batches for partitions without a known leader."""
        return sorted({place[0] for place in self._waiting if leader(place) is None})

    def answered(self, node: int) -> None:
        """Mark the broker as ready for the next request."""
        self._busy.discard(node)

    def written(self, batch: Sealed) -> None:
        """Remove a batch that was written."""
        self._under_way.discard(batch.place)
        self.held -= len(batch.data)

    def again(self, batch: Sealed, parts: Sequence[Sealed] = ()) -> None:
        """Requeue a failed batch before the others of its partition; or `parts` in its place."""
        self._under_way.discard(batch.place)
        instead = list(parts) or [batch]
        self.held += sum(len(part.data) for part in instead) - len(batch.data)
        self._waiting.setdefault(batch.place, deque()).extendleft(reversed(instead))

    def _next(self, place: Place) -> Sealed:
        queue = self._waiting[place]
        batch = queue.popleft()
        if not queue:
            del self._waiting[place]
        self._under_way.add(place)
        return batch
