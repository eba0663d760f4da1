"""Two ends of a connection in one loop, over a socketpair that cuts and delays what passes."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.dataflow.channel import Channel
from headrace.core.exchange.connection import Connection
from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.exchange.stream_end import SocketEnd
from headrace.core.types.elements import Batch, Element, EndOfStream


class CutSocket(socket.socket):
    """A socket that sends and receives only a part, and sometimes has to be tried again."""

    def __init__(self, fileno: int, seed: int) -> None:
        super().__init__(fileno=fileno)
        self._random = random.Random(seed)

    def _cut(self, size: int) -> int:
        if self._random.random() < 0.2:
            raise BlockingIOError
        return min(size, self._random.choice((1, 31, 100, 5000)))

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        return super().recv_into(buffer, self._cut(len(buffer)), flags)

    def send(self, data: Any, flags: int = 0) -> int:
        return super().send(data[: self._cut(len(data))], flags)


def cut_socketpair(seed: int) -> tuple[socket.socket, socket.socket]:
    """A socketpair of which both ends cut and delay."""
    left, right = socket.socketpair()
    return CutSocket(left.detach(), seed), CutSocket(right.detach(), seed + 1)


@asynccontextmanager
async def connected(
    sockets: tuple[socket.socket, socket.socket] | None = None,
    executor: KernelExecutor | None = None,
    on_lost: Callable[[PeerLost], None] = lambda _: None,
) -> AsyncIterator[tuple[Connection, Connection]]:
    """Two connections that are each other's peers; they leave no task."""
    left, right = sockets or socket.socketpair()
    before = asyncio.all_tasks()
    ends = (
        Connection(SocketEnd(left), "worker 2", executor, on_lost),
        Connection(SocketEnd(right), "worker 1", executor, on_lost),
    )
    try:
        yield ends
    finally:
        for each in ends:
            await each.close()
    assert asyncio.all_tasks() <= before
    assert left.fileno() == right.fileno() == -1


async def turn_until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until the condition holds."""
    for _ in range(1_000_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise TimeoutError


async def take_until_end(channel: Channel, pause: Callable[[], float] = lambda: 0) -> list[Element]:
    """Take the elements of a channel up to its end, at most what is there at a time."""
    arrived = asyncio.Event()
    channel.on_arrival = arrived.set
    elements: list[Element] = []
    while not (elements and isinstance(elements[-1], EndOfStream)):
        while not channel.has_elements:
            arrived.clear()
            await arrived.wait()
        await asyncio.sleep(pause())
        taken = channel.take()
        rows = sum(each.rows for each in taken if isinstance(each, Batch))
        assert rows <= channel.bounds.rows
        elements += taken
    return elements
