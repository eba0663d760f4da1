"""A connection for messages between the coordinator and a worker, which can carry ends of streams.

A message is a header (the number of its ends and its length) and a pickle. Nothing but the
processes of one job has the ends of the socketpair, so the pickles are from the same program.
Ends travel with the first byte of their message (SCM_RIGHTS).
"""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from headrace.core.exchange.byte_stream import ByteStream
from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.exchange.stream_end import MAX_PASSED_ENDS, DescriptorError, StreamEnd
from headrace.core.types.lazy_dataclass import dataclass

HEADER = struct.Struct("<QQ")
READ_BYTES = 2**18


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message that has arrived, and the ends that came with it, which the receiver owns."""

    message: object
    ends: tuple[StreamEnd, ...] = ()


class ControlConnection:
    """One end of a connection for messages. It owns the end of its stream; one task receives."""

    def __init__(self, end: StreamEnd, peer: str) -> None:
        """`peer`: the name of the other process in messages, as `worker 2`."""
        self.peer = peer
        self.lost: PeerLost | None = None
        """The reason why nothing more arrives; None as long as the connection is open."""
        self._buffer = bytearray()
        self._passed: deque[StreamEnd] = deque()
        self._envelopes: deque[Envelope] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._stream = ByteStream(end, self._read)

    def post(self, message: object, ends: Sequence[StreamEnd] = ()) -> asyncio.Future[None] | None:
        """Write a message after all earlier ones, without waiting; a lost peer gets nothing.

        The ends belong to the connection, and to the peer once it has them. Returns None if the
        message is written or lost, else a future that waits for it.
        """
        if len(ends) > MAX_PASSED_ENDS:
            raise ValueError(f"a message takes at most {MAX_PASSED_ENDS} ends, got {len(ends)}")
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        return self._stream.write(HEADER.pack(len(ends), len(data)) + data, ends)

    async def send(self, message: object, ends: Sequence[StreamEnd] = ()) -> None:
        """Write a message as `post` does; return when it is written, or raise PeerLost."""
        pending = self.post(message, ends)
        if pending is not None:
            await pending
        if self._stream.is_broken:
            raise self.lost or PeerLost(self.peer, "it was closed there")

    async def drain(self) -> None:
        """Wait until all messages are written or lost."""
        await self._stream.drain()

    async def receive(self) -> Envelope:
        """Return the next message; raise PeerLost after the last one."""
        while not self._envelopes:
            if self.lost is not None:
                raise self.lost
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        return self._envelopes.popleft()

    def close(self) -> None:
        """Close the end, and ends that nobody has received; unwritten messages are lost."""
        self._lose("it is closed")
        while self._envelopes:
            for each in self._envelopes.popleft().ends:
                each.close()

    def _read(self) -> None:
        with suppress(BlockingIOError, InterruptedError):
            try:
                data, ends = self._stream.end.receive(READ_BYTES)
            except ConnectionResetError:  # the peer has closed its end without reading everything
                data, ends = b"", ()
            except DescriptorError as error:
                self._lose(f"sockets that it passed were refused: {error}")
                return
            self._passed += ends
            if not data:
                self._lose(
                    "it has ended in the middle of a message" if self._buffer else "it has ended"
                )
            else:
                self._buffer += data
                self._unpack_messages()

    def _unpack_messages(self) -> None:
        while len(self._buffer) >= HEADER.size:
            count, length = HEADER.unpack_from(self._buffer)
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            data = bytes(memoryview(self._buffer)[HEADER.size : end])
            del self._buffer[:end]
            try:
                message = pickle.loads(data)
                passed = tuple(self._passed.popleft() for _ in range(count))
            except Exception as error:
                self._lose(f"what it sent cannot be read: {type(error).__name__}: {error}")
                return
            self._envelopes.append(Envelope(message, passed))
        self._wake_up()

    def _lose(self, reason: str) -> None:
        self._stream.close()
        if self.lost is None:
            self.lost = PeerLost(self.peer, reason)
        while self._passed:
            self._passed.popleft().close()
        self._wake_up()

    def _wake_up(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
