"""A stream of bytes over one end of a socketpair: writes in order, which never block the loop.

What the system does not take at once waits in a queue. Each writer waits for its own bytes, so the
queue holds at most what the writers have in hand.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SEND_BUFFER_BYTES = 2**20
"""The room in the system for bytes on their way; the system may grant less."""


@dataclass(slots=True)
class PendingWrite:
    """Bytes to write, and sockets to pass to the peer with the first of them."""

    data: memoryview
    sockets: Sequence[socket.socket]
    done: asyncio.Future[None]


class SocketStream:
    """Writes to a socket, and calls `on_readable` when there is something to read. Owns the socket.

    A failed write is reported by `is_broken` only. What the peer has sent before can still be read;
    then comes the end of its stream.
    """

    def __init__(self, sock: socket.socket, on_readable: Callable[[], None]) -> None:
        self.socket = sock
        self.is_broken = False
        """Whether what is written is lost."""
        self._queue: deque[PendingWrite] = deque()
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._loop.add_reader(sock, on_readable)

    def write(
        self, data: memoryview | bytes, sockets: Sequence[socket.socket] = ()
    ) -> asyncio.Future[None] | None:
        """Write bytes after all earlier ones; the sockets are closed here once the peer has them.

        Returns None if the bytes are written or lost, else a future that waits for it. Its
        cancellation does not take the bytes back.
        """
        if self.is_broken:
            _close_all(sockets)
            return None
        write = PendingWrite(memoryview(data), sockets, self._loop.create_future())
        if not self._queue and self._send(write):
            return None
        self._queue.append(write)
        if len(self._queue) == 1:
            self._loop.add_writer(self.socket, self._send_queue)
        return write.done

    async def drain(self) -> None:
        """Wait until everything is written or lost."""
        while self._queue:
            await asyncio.wait([self._queue[-1].done])

    def close(self) -> None:
        """Close the socket; what has not been written is lost."""
        if self.socket.fileno() >= 0:
            self._loop.remove_reader(self.socket)
            self._stop_writing()
            self.socket.close()

    def _send_queue(self) -> None:
        while self._queue and self._send(self._queue[0]):
            if self._queue:
                _finish(self._queue.popleft())
        if not self._queue and self.socket.fileno() >= 0:
            self._loop.remove_writer(self.socket)

    def _send(self, write: PendingWrite) -> bool:
        """Send what the system takes; return whether everything is written or lost."""
        try:
            while write.data:
                if write.sockets:
                    passed = [each.fileno() for each in write.sockets]
                    count = socket.send_fds(self.socket, [write.data], passed)
                    _close_all(write.sockets)
                    write.sockets = ()
                else:
                    count = self.socket.send(write.data)
                write.data = write.data[count:]
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # the peer has closed its end
            _close_all(write.sockets)
            self._stop_writing()
        return True

    def _stop_writing(self) -> None:
        self.is_broken = True
        self._loop.remove_writer(self.socket)
        while self._queue:
            write = self._queue.popleft()
            _close_all(write.sockets)
            _finish(write)


def _finish(write: PendingWrite) -> None:
    if not write.done.done():
        write.done.set_result(None)


def _close_all(sockets: Sequence[socket.socket]) -> None:
    for each in sockets:
        each.close()
