"""A bounded channel from one subtask to another, with backpressure: a fast sender has to wait.

The bounds are in rows and in bytes. A batch larger than the bounds passes in pieces; a single row
that is larger than the bound passes an empty channel, so nothing is ever stuck. The receiver takes
everything queued before the next barrier: the rows as one batch, the last watermark, and all
latency markers. Under load batches grow, and more rows share the cost of a call; when idle, a
single row passes at once. Backpressure is the share of time that senders wait.

So a watermark may arrive after rows that were sent later, but never after a barrier sent later.
That makes fewer rows late, never more. Otherwise no batch could grow where each is followed by a
watermark. A strict watermark ends the batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from headrace.core.api.stopwatch import Stopwatch
from headrace.core.types.elements import (
    SEPARATORS,
    Batch,
    Element,
    IdleMarker,
    LatencyMarker,
    WatermarkElement,
)
from headrace.core.types.frames import concat_contiguous, split_frame
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.pipeline.settings import Settings


@dataclass(frozen=True, slots=True)
class ChannelBounds:
    """The capacity of a channel, and when a source sends: gathered rows, and latency markers."""

    rows: int = 65536
    bytes: int = 16 * 2**20
    linger_s: float = 0.0
    """The time for which a source gathers rows into larger batches."""
    marker_interval_s: float | None = None
    """The time between two latency markers of a source's subtask; None: it sends none."""

    @classmethod
    def from_settings(cls, settings: Settings) -> ChannelBounds:
        """Return the bounds that the settings of a pipeline say."""
        buffer, markers = settings.buffer, settings.latency_markers
        return cls(
            buffer.rows,
            buffer.bytes,
            linger_s=buffer.timeout.total_seconds(),
            marker_interval_s=None if markers is None else markers.total_seconds(),
        )


@dataclass(slots=True)
class ChannelStatistics:
    """Totals of a channel, its queue, and the time that its sender was blocked."""

    rows: int = 0
    batches: int = 0
    waiting_rows: int = 0
    waiting_bytes: int = 0
    waiting_elements: int = 0
    blocked_s: float = 0.0
    backlog_rows: int = 0
    """The rows for which a sender in another process has no room; 0 if it does not wait."""


class OutputChannel(Protocol):
    """The sender's side of a channel to a subtask of this process or of another one."""

    @property
    def bounds(self) -> ChannelBounds:
        """The capacity of the channel."""

    async def put(self, element: Element) -> None:
        """Append an element; wait until the channel has room for it."""

    def statistics(self) -> ChannelStatistics:
        """Return the current figures."""


@dataclass(slots=True)
class Channel:
    """A channel with one sender and one receiver. `on_arrival` is called after each `put`.

    If the sender is in another process, its elements are appended, and `on_take` is called with the
    rows and bytes that `take` has removed.
    """

    bounds: ChannelBounds
    on_arrival: Callable[[], None] = lambda: None
    on_take: Callable[[int, int], None] | None = None
    _queue: deque[tuple[Element, int]] = field(default_factory=deque)
    """The elements, each with its size when it was put: the estimate of a batch may change."""
    _room_future: asyncio.Future[None] | None = None
    _blocked_time: Stopwatch = field(default_factory=Stopwatch)
    _statistics: ChannelStatistics = field(default_factory=ChannelStatistics)

    async def put(self, element: Element) -> None:
        """Append an element; wait until the channel has room for it."""
        if isinstance(element, Batch):
            for frame in split_frame(element.frame, self.bounds.rows, self.bounds.bytes):
                await self._put_batch(Batch(frame))
        else:
            self.append(element)

    def append(self, element: Element, size: int = 0) -> None:
        """Append an element without waiting; the caller knows that there is room.

        `size` is the size of a batch in bytes; the same number is passed to `on_take`.
        """
        if isinstance(element, Batch):
            self._count_batch(element.rows, size)
        self._queue.append((element, size))
        self.on_arrival()

    def take(self) -> list[Element]:
        """Remove and return the elements before the next separator, or that element itself.

        All batches up to a strict watermark become one, followed by the last watermark, and by all
        latency markers. Empty if the channel is empty.
        """
        if self._queue and isinstance(self._queue[0][0], SEPARATORS):
            return [self._queue.popleft()[0]]
        waiting = self._statistics.waiting_rows, self._statistics.waiting_bytes
        frames: list[pl.DataFrame] = []
        watermark: WatermarkElement | None = None
        idle: IdleMarker | None = None
        markers: list[LatencyMarker] = []
        while self._queue and not isinstance(self._queue[0][0], SEPARATORS):
            element, size = self._queue.popleft()
            if isinstance(element, Batch):
                idle = None
                frames.append(element.frame)
                self._statistics.waiting_rows -= element.rows
                self._statistics.waiting_bytes -= size
            elif isinstance(element, WatermarkElement):
                watermark, idle = element, None
                if element.is_strict:
                    break
            elif isinstance(element, IdleMarker):
                idle = element
            elif isinstance(element, LatencyMarker):
                markers.append(element)
        if frames and self._room_future is not None and not self._room_future.done():
            self._room_future.set_result(None)
        if frames and self.on_take is not None:
            rows, size = waiting
            now = self._statistics
            self.on_take(rows - now.waiting_rows, size - now.waiting_bytes)
        batch = Batch(concat_contiguous(frames)) if frames else None
        elements = (batch, watermark, idle, *markers)
        return [element for element in elements if element is not None]

    @property
    def has_elements(self) -> bool:
        """Whether there is an element to take."""
        return bool(self._queue)

    def statistics(self) -> ChannelStatistics:
        """Return the current figures; the object is updated in place later."""
        self._statistics.blocked_s = self._blocked_time.seconds
        self._statistics.waiting_elements = len(self._queue)
        return self._statistics

    def _has_room(self, rows: int, size: int) -> bool:
        now = self._statistics
        return now.waiting_rows == 0 or (
            now.waiting_rows + rows <= self.bounds.rows
            and now.waiting_bytes + size <= self.bounds.bytes
        )

    async def _put_batch(self, batch: Batch) -> None:
        size = batch.bytes
        if not self._has_room(batch.rows, size):
            await self._wait_for_room(batch.rows, size)
        self.append(batch, size)

    async def _wait_for_room(self, rows: int, size: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            with self._blocked_time:
                while not self._has_room(rows, size):
                    self._room_future = loop.create_future()
                    await self._room_future
        finally:
            self._room_future = None

    def _count_batch(self, rows: int, size: int) -> None:
        self._statistics.rows += rows
        self._statistics.batches += 1
        self._statistics.waiting_rows += rows
        self._statistics.waiting_bytes += size
