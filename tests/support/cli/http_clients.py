"""A server on a loop of its own thread, and plain clients of it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.cli.control import job_socket
from headrace.cli.control.http_server import HttpRoute, ServerLimits, run_server

LONGEST_S = 30.0


@contextmanager
def served(
    folder: Path, routes: Sequence[HttpRoute], limits: ServerLimits | None = None
) -> Iterator[list[BaseException]]:
    """Serve in a home until the end; yields the reported bugs."""
    defects: list[BaseException] = []
    ready = threading.Event()
    over: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        end = asyncio.Event()
        with job_socket.open_listener(str(folder)) as listener:
            async with run_server(routes, listener, defects.append, limits):
                over.append((asyncio.get_running_loop(), end))
                ready.set()
                await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(LONGEST_S)
    try:
        yield defects
    finally:
        loop, end = over[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(LONGEST_S)
        assert not thread.is_alive()


def said(folder: Path, data: bytes, *, close: bool = False) -> bytes:
    """All that is answered to these bytes."""
    with job_socket.connect_to_job(str(folder), LONGEST_S) as connection:
        connection.sendall(data)
        if close:
            connection.shutdown(socket.SHUT_WR)
        return rest(connection)


def rest(connection: socket.socket) -> bytes:
    """Return the remaining data."""
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)
