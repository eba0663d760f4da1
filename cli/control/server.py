"""A small HTTP server on a job's event loop, over any stream socket: Unix or TCP.

Nothing that a client sends, or fails to send, ends the server or disturbs the job. Time and size of
a request and the number of connections are limited. A failing handler gets an answer of status 500,
and the exception is passed to `failed`. If a client disconnects, its handler is cancelled, but not
the work that the handler has started elsewhere.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from headrace.cli.control.http import (
    END_OF_HEAD,
    MAX_HEAD,
    Bad,
    Request,
    Response,
    read_body,
    read_head,
    refusal,
    written,
)
from headrace.cli.control.routes import NotAllowed, Route, find

PATIENCE_S = 10.0
"""The time that a client may take to send its request, or to receive the answer."""

GRACE_S = 2.0
"""The time that the end of the server waits for answers in progress."""

MOST = 200
"""The most connections at a time."""


BROKEN = (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError)
"""Exceptions that end a connection. Streams log a cancelled task, so cancellation is caught too."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of clients."""

    patience_s: float = PATIENCE_S
    grace_s: float = GRACE_S
    connections: int = MOST


@dataclass(slots=True)
class Serving:
    """A running server."""

    routes: Sequence[Route]
    limits: Limits
    failed: Callable[[BaseException], None]
    """Called with the exception of a failing handler, which is a bug in headrace."""
    connections: set[asyncio.Task[None]] = field(default_factory=set)
    answering: set[asyncio.Task[None]] = field(default_factory=set)
    """The connections whose request has arrived and whose answer has not been sent."""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one connection, from its request to its end."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        try:
            # An incomplete request, an answer that the client did not read, or the server's end.
            with suppress(*BROKEN):
                await self._talk(reader, writer, task)
        finally:
            self.connections.discard(task)
            writer.close()

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        try:
            data = await self._answer(reader, task)
            if data:
                async with asyncio.timeout(self.limits.patience_s):
                    writer.write(data)
                    await writer.drain()
        finally:
            self.answering.discard(task)
        async with asyncio.timeout(self.limits.patience_s):
            writer.write_eof()
            # Unread input would make the system reset the connection and drop the answer.
            while await reader.read(MAX_HEAD):
                pass

    async def _answer(self, reader: asyncio.StreamReader, task: asyncio.Task[None]) -> bytes:
        """Return the encoded answer to a request; empty if the client has disconnected."""
        method = ""
        try:
            if len(self.connections) > self.limits.connections:
                raise Bad(503, "busy", "there are too many connections", "try again")
            async with asyncio.timeout(self.limits.patience_s):
                request = await _request(reader)
            self.answering.add(task)
            method = request.method
            response = await self._handled(reader, request)
        except NotAllowed as bad:
            response = refusal(bad, {"Allow": ", ".join(bad.methods)})
        except Bad as bad:
            response = refusal(bad)
        return written(response, with_body=method != "HEAD") if response else b""

    async def _handled(self, reader: asyncio.StreamReader, request: Request) -> Response | None:
        """Return the handler's answer; None if the client has disconnected."""
        route, names = find(self.routes, request.method, request.path)
        handling = asyncio.ensure_future(route.handler(replace(request, names=names)))
        going = asyncio.ensure_future(_gone(reader))
        try:
            await asyncio.wait([handling, going], return_when=asyncio.FIRST_COMPLETED)
            return handling.result() if handling.done() else None
        except Bad:
            raise
        except Exception as error:
            self.failed(error)
            said = f"{type(error).__name__}: {error}"
            raise Bad(500, "defect", said, "a bug in headrace: please report it") from None
        finally:
            handling.cancel()
            going.cancel()
            await asyncio.gather(handling, going, return_exceptions=True)


async def _request(reader: asyncio.StreamReader) -> Request:
    """Read a request. Raises Bad; IncompleteReadError if it is empty or incomplete."""
    try:
        head = read_head(await reader.readuntil(END_OF_HEAD))
    except asyncio.LimitOverrunError:
        raise Bad(400, "malformed", f"wanted a head of at most {MAX_HEAD} bytes") from None
    body = read_body(head, await reader.readexactly(head.length))
    return Request(head.method, head.path, head.query, body)


async def _gone(reader: asyncio.StreamReader) -> None:
    """Wait until the client disconnects; input after its request is ignored."""
    with suppress(OSError):
        while await reader.read(MAX_HEAD):
            pass


@asynccontextmanager
async def serve(
    routes: Sequence[Route],
    listener: socket.socket,
    failed: Callable[[BaseException], None] = lambda error: None,
    limits: Limits | None = None,
) -> AsyncIterator[Serving]:
    """Serve on a listening socket; at the end, answers in progress are sent, and it is closed."""
    serving = Serving(routes, limits or Limits(), failed)
    listener.setblocking(False)
    server = await asyncio.start_server(serving.connected, sock=listener, limit=MAX_HEAD)
    try:
        yield serving
    finally:
        server.close()
        await _over(serving)


async def _over(serving: Serving) -> None:
    """Send the last answers, for a limited time."""
    if serving.answering:
        await asyncio.wait(serving.answering, timeout=serving.limits.grace_s)
    for task in (left := list(serving.connections)):
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
