"""A bounded channel from one subtask to another: it makes a sender wait that is too fast.

The bound is in rows and in bytes; a batch larger than the bound passes an empty channel alone, so
nothing is ever stuck. A receiver takes all that waits: batches that stand next to each other come
out as one. Under load batches grow and the cost of a call is shared by more rows; at rest a single
row goes through at once. The share of time that senders wait is the figure of backpressure.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.core.elements import Batch, Element


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may wait in a channel, and how long a source waits to send more at once."""

    rows: int = 8192
    bytes: int = 16 * 2**20
    linger_s: float = 0.0


@dataclass(slots=True)
class ChannelStatistics:
    """What went through a channel, what waits in it, and how long its sender was made to wait."""

    rows: int = 0
    batches: int = 0
    waiting_rows: int = 0
    waiting_bytes: int = 0
    blocked_s: float = 0.0


@dataclass(slots=True)
class Channel:
    """One sender, one receiver. `arrived` is called when an element has come."""

    bounds: Bounds
    arrived: Callable[[], None] = lambda: None
    _queue: deque[Element] = field(default_factory=deque)
    _room: asyncio.Future[None] | None = None
    _blocked_since: float | None = None
    _statistics: ChannelStatistics = field(default_factory=ChannelStatistics)

    async def put(self, element: Element) -> None:
        """Append an element; waits until it fits."""
        if not self._fits(element):
            await self._wait(element)
        self._queue.append(element)
        if isinstance(element, Batch):
            self._count(element, 1)
            self._statistics.rows += element.rows
            self._statistics.batches += 1
        self.arrived()

    def take(self) -> Element | None:
        """What waits first, or None; batches that stand together come as one."""
        if not self._queue:
            return None
        first = self._queue.popleft()
        if not isinstance(first, Batch):
            return first
        together = [first]
        while self._queue and isinstance(self._queue[0], Batch):
            together.append(self._queue.popleft())  # type: ignore[arg-type]
        for batch in together:
            self._count(batch, -1)
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        return first if len(together) == 1 else _joined(together)

    @property
    def waits(self) -> bool:
        """Whether an element can be taken."""
        return bool(self._queue)

    def statistics(self) -> ChannelStatistics:
        """The figures, live; a wait that goes on is counted up to now."""
        self._count_wait()
        return self._statistics

    def _fits(self, element: Element) -> bool:
        now = self._statistics
        if not isinstance(element, Batch) or now.waiting_rows == 0:
            return True
        return (
            now.waiting_rows + element.rows <= self.bounds.rows
            and now.waiting_bytes + element.bytes <= self.bounds.bytes
        )

    async def _wait(self, element: Element) -> None:
        loop = asyncio.get_running_loop()
        self._blocked_since = loop.time()
        try:
            while not self._fits(element):
                self._room = loop.create_future()
                await self._room
        finally:
            self._room = None
            self._count_wait()
            self._blocked_since = None

    def _count_wait(self) -> None:
        if self._blocked_since is not None:
            now = asyncio.get_running_loop().time()
            self._statistics.blocked_s += now - self._blocked_since
            self._blocked_since = now

    def _count(self, batch: Batch, sign: int) -> None:
        self._statistics.waiting_rows += sign * batch.rows
        self._statistics.waiting_bytes += sign * batch.bytes


def _joined(batches: list[Batch]) -> Batch:
    import polars as pl

    return Batch(pl.concat([batch.frame for batch in batches], rechunk=True))
