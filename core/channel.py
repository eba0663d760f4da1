"""A bounded channel from one subtask to another: it makes a sender wait that is too fast.

The bound is in rows and in bytes; a batch larger than the bound passes an empty channel alone, so
nothing is ever stuck. A receiver takes all that waits before the next barrier: the rows as one
batch, and behind them how far time has come. Under load batches grow, and the cost of a call is
shared by more rows; at rest a single row goes through at once. The share of time that senders wait
is the figure of backpressure.

So a watermark may come later than it was sent, though behind no barrier. Fewer rows are late then,
and never more. Without this no batch could grow where a watermark follows each of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.core.elements import Barrier, Batch, Element, End, Idle, Watermark
from headrace.core.frames import joined
from headrace.core.waiting import Waiting

if TYPE_CHECKING:
    import polars as pl


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
    waiting_elements: int = 0
    blocked_s: float = 0.0


@dataclass(slots=True)
class Channel:
    """One sender, one receiver. `arrived` is called when an element has come."""

    bounds: Bounds
    arrived: Callable[[], None] = lambda: None
    _queue: deque[tuple[Element, int]] = field(default_factory=deque)
    """Each with its bytes as they were counted: a batch may say otherwise later."""
    _room: asyncio.Future[None] | None = None
    _blocked: Waiting = field(default_factory=Waiting)
    _statistics: ChannelStatistics = field(default_factory=ChannelStatistics)

    async def put(self, element: Element) -> None:
        """Append an element; waits until it fits."""
        size = 0
        if isinstance(element, Batch):
            size = element.bytes
            if not self._fits(element.rows, size):
                await self._wait(element.rows, size)
            self._count(element.rows, size)
        self._queue.append((element, size))
        self.arrived()

    def take(self) -> list[Element]:
        """What waits before the next barrier or the end, or that; nothing when nothing waits."""
        if self._queue and isinstance(self._queue[0][0], Barrier | End):
            return [self._queue.popleft()[0]]
        frames: list[pl.DataFrame] = []
        watermark: Watermark | None = None
        idle: Idle | None = None
        while self._queue and not isinstance(self._queue[0][0], Barrier | End):
            element, size = self._queue.popleft()
            idle = element if isinstance(element, Idle) else None
            if isinstance(element, Watermark):
                watermark = element
            elif isinstance(element, Batch):
                frames.append(element.frame)
                self._statistics.waiting_rows -= element.rows
                self._statistics.waiting_bytes -= size
        if frames and self._room is not None and not self._room.done():
            self._room.set_result(None)
        taken = (Batch(joined(frames)) if frames else None, watermark, idle)
        return [element for element in taken if element is not None]

    @property
    def waits(self) -> bool:
        """Whether an element can be taken."""
        return bool(self._queue)

    def statistics(self) -> ChannelStatistics:
        """The figures up to now."""
        self._statistics.blocked_s = self._blocked.seconds
        self._statistics.waiting_elements = len(self._queue)
        return self._statistics

    def _fits(self, rows: int, size: int) -> bool:
        now = self._statistics
        return now.waiting_rows == 0 or (
            now.waiting_rows + rows <= self.bounds.rows
            and now.waiting_bytes + size <= self.bounds.bytes
        )

    async def _wait(self, rows: int, size: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            with self._blocked:
                while not self._fits(rows, size):
                    self._room = loop.create_future()
                    await self._room
        finally:
            self._room = None

    def _count(self, rows: int, size: int) -> None:
        self._statistics.rows += rows
        self._statistics.batches += 1
        self._statistics.waiting_rows += rows
        self._statistics.waiting_bytes += size
