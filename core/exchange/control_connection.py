"""A connection for messages between the coordinator and a worker, which can carry sockets.

A message is a header (the number of its sockets and its length) and a pickle. Nothing but the
processes of one job has the ends of the socketpair, so the pickles are from the same program.
Sockets travel with the first byte of their message (SCM_RIGHTS).
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import struct
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.exchange.socket_stream import SocketStream

HEADER = struct.Struct("<QQ")
READ_BYTES = 2**18
MAX_SOCKETS = 253
"""The number of sockets that Linux passes with one message."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message that has arrived, and the sockets that came with it, which the receiver owns."""

    message: object
    sockets: tuple[socket.socket, ...] = ()


class ControlConnection:
    """One end of a connection for messages. It owns its socket; one task receives."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        """`peer`: the name of the other process in messages, as `worker 2`."""
        self.peer = peer
        self.lost: PeerLost | None = None
        """The reason why nothing more arrives; None as long as the connection is open."""
        self._buffer = bytearray()
        self._descriptors: deque[int] = deque()
        self._envelopes: deque[Envelope] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._stream = SocketStream(sock, self._read)

    def post(
        self, message: object, sockets: Sequence[socket.socket] = ()
    ) -> asyncio.Future[None] | None:
        """Write a message after all earlier ones, without waiting; a lost peer gets nothing.

        The sockets belong to the connection, which closes them here once the peer has them. Returns
        None if the message is written or lost, else a future that waits for it.
        """
        if len(sockets) > MAX_SOCKETS:
            raise ValueError(f"a message takes at most {MAX_SOCKETS} sockets, got {len(sockets)}")
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        return self._stream.write(HEADER.pack(len(sockets), len(data)) + data, sockets)

    async def send(self, message: object, sockets: Sequence[socket.socket] = ()) -> None:
        """Write a message as `post` does; return when it is written, or raise PeerLost."""
        pending = self.post(message, sockets)
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
        """Close the socket, and sockets that nobody has received; unwritten messages are lost."""
        self._lose("it is closed")
        while self._envelopes:
            for each in self._envelopes.popleft().sockets:
                each.close()

    def _read(self) -> None:
        with suppress(BlockingIOError, InterruptedError):
            try:
                data, descriptors, flags, _ = socket.recv_fds(
                    self._stream.socket, READ_BYTES, MAX_SOCKETS
                )
            except ConnectionResetError:  # the peer has closed its end without reading everything
                data, descriptors, flags = b"", [], 0
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            self._descriptors += descriptors
            if flags & socket.MSG_CTRUNC:
                self._lose("sockets that it passed were refused: too many open files")
            elif not data:
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
                passed = tuple(
                    socket.socket(fileno=self._descriptors.popleft()) for _ in range(count)
                )
            except Exception as error:
                self._lose(f"what it sent cannot be read: {type(error).__name__}: {error}")
                return
            self._envelopes.append(Envelope(message, passed))
        self._wake_up()

    def _lose(self, reason: str) -> None:
        self._stream.close()
        if self.lost is None:
            self.lost = PeerLost(self.peer, reason)
        while self._descriptors:
            os.close(self._descriptors.popleft())
        self._wake_up()

    def _wake_up(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
