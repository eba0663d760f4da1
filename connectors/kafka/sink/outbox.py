"""Sealed batches on their way: which are sent next, and how much waits. No clock, no I/O.

Of each partition one batch is under way at a time: their numbers stay in order, whatever is to be
sent again. A broker is sent one request at a time, with a batch of each partition it leads, so that
more gather for the next while it writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.connectors.kafka.sink.batches import Place, Sealed

REQUEST = 8 << 20
"""So many bytes go into a request."""


@dataclass(slots=True)
class Outbox:
    """What is to be sent."""

    held: int = 0
    """How many bytes wait, or are under way."""
    _waiting: dict[Place, deque[Sealed]] = field(default_factory=dict)
    _under_way: set[Place] = field(default_factory=set)
    _busy: set[int] = field(default_factory=set)

    def put(self, batches: Sequence[Sealed]) -> None:
        """Send these behind the others."""
        for batch in batches:
            self._waiting.setdefault(batch.place, deque()).append(batch)
            self.held += len(batch.data)

    @property
    def empty(self) -> bool:
        """Whether all has been written."""
        return not self._waiting and not self._under_way

    def has(self, place: Place) -> bool:
        """Whether something is to be sent there already."""
        return place in self._waiting or place in self._under_way

    def take(self, leader: Callable[[Place], int | None]) -> dict[int, list[Sealed]]:
        """What can be sent now, by broker; they are under way then."""
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
        """The topics for which something waits, and nobody knows who takes it."""
        return sorted({place[0] for place in self._waiting if leader(place) is None})

    def answered(self, node: int) -> None:
        """The broker can be sent something again."""
        self._busy.discard(node)

    def written(self, batch: Sealed) -> None:
        """It is there."""
        self._under_way.discard(batch.place)
        self.held -= len(batch.data)

    def again(self, batch: Sealed, parts: Sequence[Sealed] = ()) -> None:
        """Send it once more before all others of its partition; or these in its place."""
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
