"""One end of a stream of bytes between two processes: all that connections need of the system.

`SocketEnd` is the end of a socketpair. A simulation has ends whose bytes are late, cut or lost.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

SEND_BUFFER_BYTES = 2**20
"""The room in the system for bytes on their way; the system may grant less."""
MAX_PASSED_ENDS = 253
"""The number of sockets that Linux passes with one message."""


class DescriptorError(Exception):
    """Ends that the peer has passed were refused by the system; they are lost."""


class StreamEnd(Protocol):
    """One end of a stream in both directions. No call blocks: it raises BlockingIOError instead.

    Other errors are of OSError, and mean that the peer is gone.
    """

    @property
    def is_closed(self) -> bool:
        """Whether this end is closed."""
        ...

    def send(self, data: memoryview, ends: Sequence[StreamEnd] = ()) -> int:
        """Send a part of the data, and pass the ends with its first byte; return its length.

        The passed ends are the peer's, and closed here.
        """
        ...

    def receive_into(self, space: memoryview) -> int:
        """Put what has come into the space; return its length, which is 0 after the last byte."""
        ...

    def receive(self, size: int) -> tuple[bytes, Sequence[StreamEnd]]:
        """Return at most this number of the bytes that have come, and the ends passed with them.

        Raises DescriptorError.
        """
        ...

    def watch_arrivals(self, on_arrival: Callable[[], None]) -> None:
        """Call a function whenever something can be received, from the running loop."""
        ...

    def watch_room(self, on_room: Callable[[], None] | None) -> None:
        """Call a function whenever something can be sent; None: do so no longer."""
        ...

    def close(self) -> None:
        """Close this end; what was sent still arrives."""
        ...


class SocketEnd:
    """A `StreamEnd` over a socket, which it owns."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._loop: asyncio.AbstractEventLoop | None = None
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    @property
    def is_closed(self) -> bool:
        """Whether the socket is closed."""
        return self.socket.fileno() < 0

    def send(self, data: memoryview, ends: Sequence[StreamEnd] = ()) -> int:
        """Send what the system takes."""
        if not ends:
            return self.socket.send(data)
        count = socket.send_fds(self.socket, [data], [_get_descriptor(end) for end in ends])
        for end in ends:
            end.close()
        return count

    def receive_into(self, space: memoryview) -> int:
        """Put what has come into the space."""
        return self.socket.recv_into(space)

    def receive(self, size: int) -> tuple[bytes, Sequence[StreamEnd]]:
        """Return what has come."""
        data, descriptors, flags, _ = socket.recv_fds(self.socket, size, MAX_PASSED_ENDS)
        if flags & socket.MSG_CTRUNC:
            for descriptor in descriptors:
                os.close(descriptor)
            raise DescriptorError("too many open files")
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return data, [SocketEnd(socket.socket(fileno=each)) for each in descriptors]

    def watch_arrivals(self, on_arrival: Callable[[], None]) -> None:
        """Have the loop watch the socket."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.socket, on_arrival)

    def watch_room(self, on_room: Callable[[], None] | None) -> None:
        """Have the loop watch the socket, or not."""
        assert self._loop is not None
        if on_room is not None:
            self._loop.add_writer(self.socket, on_room)
        else:
            self._loop.remove_writer(self.socket)

    def close(self) -> None:
        """Close the socket."""
        if self._loop is not None and not self.is_closed:
            self._loop.remove_reader(self.socket)
            self._loop.remove_writer(self.socket)
        self.socket.close()


def _get_descriptor(end: StreamEnd) -> int:
    assert isinstance(end, SocketEnd)
    return end.socket.fileno()


def open_socket_pair() -> tuple[SocketEnd, SocketEnd]:
    """Return the two ends of a socketpair."""
    one, other = socket.socketpair()
    return SocketEnd(one), SocketEnd(other)
