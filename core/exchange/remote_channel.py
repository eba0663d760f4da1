"""The two ends of a channel between processes: credits for rows and bytes, in order with the rows.

The sender counts the rows that the receiver has not taken yet, and has room for more as if the
channel were in its own process. The receiver returns credit for what it takes, but not for every
few rows: at once only if the sender has announced a backlog, else when a quarter of the bounds has
come together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.stopwatch import Stopwatch
from headrace.core.dataflow.channel import Channel, ChannelBounds, ChannelStatistics
from headrace.core.exchange.batch_codec import LONG_BYTES, cut_pieces, read_batch
from headrace.core.exchange.frame_writer import FrameWriter
from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.exchange.wire_format import FrameKind, WireFrame, decode_control
from headrace.core.types.elements import Batch, Element, EndOfStream

CREDIT_FRACTION = 4
"""Credit of less than this fraction of the bounds waits for more."""


class RemoteChannel:
    """The sender's end. `bounds` are those of the receiver's channel once it is open."""

    def __init__(self, number: int, writer: FrameWriter, peer: str) -> None:
        self.bounds = ChannelBounds()
        self.is_ended = False
        """Whether the end of the stream has been sent."""
        self._number = number
        self._writer = writer
        self._peer = peer
        self._is_open = False
        self._loss: str | None = None
        self._change: asyncio.Future[None] | None = None
        self._blocked_time = Stopwatch()
        self._statistics = ChannelStatistics()

    async def put(self, element: Element) -> None:
        """Send an element; wait until the receiver's channel has room for it.

        Raises PeerLost if the receiver is gone. Rows of a cancelled call may have been sent.
        """
        if not self._is_open or self._loss is not None:
            await self._wait_until(lambda: self._is_open)
        if isinstance(element, Batch):
            for index, frame in enumerate(cut_pieces(element.frame, self.bounds)):
                if index:
                    await asyncio.sleep(0)  # other tasks and arrivals have their turn
                await self._put_piece(Batch(frame))
        else:
            await self._wait_for_socket(self._writer.write_control(self._number, element))
            self.is_ended = isinstance(element, EndOfStream)

    def statistics(self) -> ChannelStatistics:
        """Return the current figures; the object is updated in place later.

        Rows wait from when they are sent until credit for them is back.
        """
        self._statistics.blocked_s = self._blocked_time.seconds
        return self._statistics

    def open(self, bounds: ChannelBounds) -> None:
        """Allow the first rows: the receiver has a channel with these bounds."""
        self.bounds, self._is_open = bounds, True
        self._wake_up()

    def add_credit(self, rows: int, size: int) -> None:
        """Add room: the receiver has taken this number of rows and bytes."""
        self._statistics.waiting_rows -= rows
        self._statistics.waiting_bytes -= size
        self._wake_up()

    def fail(self, reason: str) -> None:
        """Let every call of `put` raise PeerLost."""
        self._loss = reason
        self._wake_up()

    async def _put_piece(self, piece: Batch) -> None:
        rows, size = piece.rows, piece.bytes
        if not self._has_room(rows, size):
            self._writer.write_room(FrameKind.BACKLOG, self._number, rows, size)
            await self._wait_until(lambda: self._has_room(rows, size))
        now = self._statistics
        now.rows += rows
        now.batches += 1
        now.waiting_rows += rows
        now.waiting_bytes += size
        pending = await self._writer.write_batch(self._number, piece.frame, size)
        await self._wait_for_socket(pending)

    def _has_room(self, rows: int, size: int) -> bool:
        now = self._statistics
        return now.waiting_rows == 0 or (
            now.waiting_rows + rows <= self.bounds.rows
            and now.waiting_bytes + size <= self.bounds.bytes
        )

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        try:
            with self._blocked_time:
                while self._loss is None and not condition():
                    self._change = loop.create_future()
                    await self._change
        finally:
            self._change = None
        self._check_peer()

    async def _wait_for_socket(self, pending: asyncio.Future[None] | None) -> None:
        if pending is not None:
            with self._blocked_time:
                await pending
        self._check_peer()

    def _check_peer(self) -> None:
        if self._loss is not None or self._writer.is_broken:
            raise PeerLost(self._peer, self._loss or "it was closed there")

    def _wake_up(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)


class ChannelReceiver:
    """The receiver's end: appends what arrives to an ordinary channel, and returns credit.

    Rows that come without credit are an error, which loses the peer.
    """

    def __init__(
        self, number: int, channel: Channel, writer: FrameWriter, kernel_executor: KernelExecutor
    ) -> None:
        self.is_ended = False
        """Whether the end of the stream has arrived."""
        self._number = number
        self._channel = channel
        self._writer = writer
        self._executor = kernel_executor
        self._undecoded: deque[WireFrame] = deque()
        """A long batch that is decoded in a thread, and what has arrived after it."""
        self._taken_rows = self._taken_bytes = 0
        self._held_rows = self._held_bytes = 0
        """The rows that have arrived, and for which no credit is granted yet."""
        bounds = channel.bounds
        channel.on_take = self._release
        writer.write_room(FrameKind.OPEN, number, bounds.rows, bounds.bytes)

    def receive(self, frame: WireFrame) -> bool:
        """Append what has arrived; return whether `decode_long_batches` has to be run for it."""
        if frame.kind == FrameKind.BACKLOG:
            self._channel.statistics().backlog_rows = frame.first
            self._grant()
            return False
        if frame.kind == FrameKind.BATCH:
            self._use_credit(frame.first, frame.second)
        if self._undecoded or len(frame.payload) > LONG_BYTES:
            self._undecoded.append(frame)
            return len(self._undecoded) == 1
        self._append(frame, Batch(read_batch(frame.payload)) if frame.payload else None)
        return False

    async def decode_long_batches(self) -> None:
        """Decode the batches that take long in a thread, in order with all other elements."""
        while self._undecoded:
            frame, batch = self._undecoded[0], None
            if frame.payload:
                rows = await self._executor.run_blocking(partial(read_batch, frame.payload))
                batch = Batch(rows)
            self._undecoded.popleft()
            self._append(frame, batch)

    def _use_credit(self, rows: int, size: int) -> None:
        """Count rows that have arrived. Raises ValueError if the sender had no credit for them."""
        bounds, held = self._channel.bounds, self._held_rows
        self._held_rows += rows
        self._held_bytes += size
        if held and (self._held_rows > bounds.rows or self._held_bytes > bounds.bytes):
            raise ValueError(f"{rows} rows came without credit")

    def _append(self, frame: WireFrame, batch: Batch | None) -> None:
        if batch is not None:
            self._channel.statistics().backlog_rows = 0
            self._channel.append(batch, frame.second)
        else:
            element = decode_control(frame)
            self.is_ended = isinstance(element, EndOfStream)
            self._channel.append(element)

    def _release(self, rows: int, size: int) -> None:
        self._taken_rows += rows
        self._taken_bytes += size
        bounds = self._channel.bounds
        if (
            self._channel.statistics().backlog_rows
            or self._taken_rows * CREDIT_FRACTION >= bounds.rows
            or self._taken_bytes * CREDIT_FRACTION >= bounds.bytes
        ):
            self._grant()

    def _grant(self) -> None:
        if self._taken_rows:
            rows, size = self._taken_rows, self._taken_bytes
            self._taken_rows = self._taken_bytes = 0
            self._held_rows -= rows
            self._held_bytes -= size
            self._writer.write_room(FrameKind.CREDIT, self._number, rows, size)
