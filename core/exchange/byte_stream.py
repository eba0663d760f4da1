"""Writes to one end of a stream of bytes, in order, which never block the loop.

What the system does not take at once waits in a queue. Each writer waits for its own bytes, so the
queue holds at most what the writers have in hand.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from headrace.core.exchange.stream_end import StreamEnd
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class PendingWrite:
    """Bytes to write, and ends to pass to the peer with the first of them."""

    data: memoryview
    ends: Sequence[StreamEnd]
    done: asyncio.Future[None]


class ByteStream:
    """Writes to an end, and calls `on_arrival` when there is something to read. Owns the end.

    A failed write is reported by `is_broken` only. What the peer has sent before can still be read;
    then comes the end of its stream.
    """

    def __init__(self, end: StreamEnd, on_arrival: Callable[[], None]) -> None:
        self.end = end
        self.is_broken = False
        """Whether what is written is lost."""
        self._queue: deque[PendingWrite] = deque()
        self._loop = asyncio.get_running_loop()
        end.watch_arrivals(on_arrival)

    def write(
        self, data: memoryview | bytes, ends: Sequence[StreamEnd] = ()
    ) -> asyncio.Future[None] | None:
        """Write bytes after all earlier ones; the passed ends are the peer's once it has them.

        Returns None if the bytes are written or lost, else a future that waits for it. Its
        cancellation does not take the bytes back.
        """
        if self.is_broken:
            _close_all(ends)
            return None
        write = PendingWrite(memoryview(data), ends, self._loop.create_future())
        if not self._queue and self._send(write):
            return None
        self._queue.append(write)
        if len(self._queue) == 1:
            self.end.watch_room(self._send_queue)
        return write.done

    async def drain(self) -> None:
        """Wait until everything is written or lost."""
        while self._queue:
            await asyncio.wait([self._queue[-1].done])

    def close(self) -> None:
        """Close the end; what has not been written is lost."""
        if not self.end.is_closed:
            self._stop_writing()
            self.end.close()

    def _send_queue(self) -> None:
        while self._queue and self._send(self._queue[0]):
            if self._queue:
                _finish(self._queue.popleft())
        if not self._queue and not self.end.is_closed:
            self.end.watch_room(None)

    def _send(self, write: PendingWrite) -> bool:
        """Send what the system takes; return whether everything is written or lost."""
        try:
            while write.data:
                count = self.end.send(write.data, write.ends)
                write.data, write.ends = write.data[count:], ()
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # the peer has closed its end
            _close_all(write.ends)
            self._stop_writing()
        return True

    def _stop_writing(self) -> None:
        self.is_broken = True
        self.end.watch_room(None)
        while self._queue:
            write = self._queue.popleft()
            _close_all(write.ends)
            _finish(write)


def _finish(write: PendingWrite) -> None:
    if not write.done.done():
        write.done.set_result(None)


def _close_all(ends: Sequence[StreamEnd]) -> None:
    for each in ends:
        each.close()
