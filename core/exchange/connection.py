"""A connection between two workers: many channels, in both directions, over one socketpair.

Whoever reads the socket never waits for a channel, because a sender sends only what the receiver
has room for. So one full channel stops no other, and each side always drains what the other has
written: a write waits only as long as the other process has no turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.exchange.byte_stream import ByteStream
from headrace.core.exchange.frame_writer import FrameWriter
from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.exchange.remote_channel import ChannelReceiver, RemoteChannel
from headrace.core.exchange.stream_end import StreamEnd
from headrace.core.exchange.wire_format import FrameKind, FrameReader, WireFrame


class Connection:
    """One end of a connection. It owns its stream, and belongs to the running event loop.

    `on_lost` is called once if the peer goes before all channels have ended, or sends what cannot
    be read. A lost connection delivers nothing more: no channel ends by it.
    """

    def __init__(
        self,
        end: StreamEnd,
        peer: str,
        kernel_executor: KernelExecutor | None = None,
        on_lost: Callable[[PeerLost], None] = lambda _: None,
    ) -> None:
        """`peer`: the name of the other process in messages, as `worker 2`."""
        self.peer = peer
        self.lost: PeerLost | None = None
        """The reason why nothing more arrives; None as long as the connection is open."""
        self._executor = kernel_executor or KernelExecutor()
        self._on_lost = on_lost
        self._senders: dict[int, RemoteChannel] = {}
        self._receivers: dict[int, ChannelReceiver] = {}
        self._early_bounds: dict[int, ChannelBounds] = {}
        """The bounds of channels that the peer has opened before this process."""
        self._decode_tasks: set[asyncio.Task[None]] = set()
        self._reader = FrameReader()
        self._stream = ByteStream(end, self._read)
        self._writer = FrameWriter(self._stream, self._executor)

    def open_sender(self, number: int) -> RemoteChannel:
        """Return the sender's end of a channel; it waits until the peer has opened its end."""
        sender = self._senders[number] = RemoteChannel(number, self._writer, self.peer)
        if number in self._early_bounds:
            sender.open(self._early_bounds.pop(number))
        if self.lost is not None:
            sender.fail(self.lost.message)
        return sender

    def open_receiver(self, number: int, channel: Channel) -> None:
        """Let the rows of a channel arrive in `channel`, within its bounds."""
        self._receivers[number] = ChannelReceiver(number, channel, self._writer, self._executor)

    async def close(self) -> None:
        """Close the end, and wait for threads; senders that wait get PeerLost."""
        self._end("it is closed")
        for task in self._decode_tasks:
            task.cancel()
        await asyncio.gather(*self._decode_tasks, return_exceptions=True)

    @property
    def is_ended(self) -> bool:
        """Whether all channels have ended."""
        sent = all(each.is_ended for each in self._senders.values())
        return sent and all(each.is_ended for each in self._receivers.values())

    def _read(self) -> None:
        """Read once, so that other tasks have their turn between two reads."""
        with suppress(BlockingIOError, InterruptedError):
            try:
                count = self._stream.end.receive_into(self._reader.get_space())
            except ConnectionResetError:  # the peer has closed its end without reading everything
                count = 0
            if not count:
                whole = self._reader.is_between_frames
                self._lose("it has ended" if whole else "it has ended in the middle of a frame")
                return
            self._try(lambda: self._receive(count))

    def _try(self, work: Callable[[], object]) -> None:
        """Do work with what the peer has sent; if that fails, the connection is lost."""
        try:
            work()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # also a panic of Polars, which is no Exception
            reason = f"what it sent cannot be read: {type(error).__name__}: {error}"
            self._lose(reason, is_gone=False)

    def _receive(self, count: int) -> None:
        for frame in self._reader.advance(count):
            self._deliver(frame)

    def _deliver(self, frame: WireFrame) -> None:
        match frame.kind:
            case FrameKind.OPEN:
                bounds = ChannelBounds(frame.first, frame.second)
                if frame.channel in self._senders:
                    self._senders[frame.channel].open(bounds)
                else:
                    self._early_bounds[frame.channel] = bounds
            case FrameKind.CREDIT:
                self._senders[frame.channel].add_credit(frame.first, frame.second)
            case _:
                receiver = self._receivers[frame.channel]
                if receiver.receive(frame):
                    task = asyncio.create_task(receiver.decode_long_batches())
                    self._decode_tasks.add(task)
                    task.add_done_callback(self._finish_decoding)

    def _finish_decoding(self, task: asyncio.Task[None]) -> None:
        self._decode_tasks.discard(task)
        if not task.cancelled():
            self._try(task.result)

    def _lose(self, reason: str, *, is_gone: bool = True) -> None:
        if self.lost is None:
            self._end(reason, is_gone=is_gone)
            if not self.is_ended and self.lost is not None:
                self._on_lost(self.lost)

    def _end(self, reason: str, *, is_gone: bool = True) -> None:
        self._stream.close()
        if self.lost is None:
            self.lost = PeerLost(self.peer, reason, is_gone=is_gone)
            for sender in self._senders.values():
                sender.fail(reason)
