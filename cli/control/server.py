"""A small HTTP server beside a job, on its loop, over any stream socket: Unix or TCP.

Nothing that a client sends, or fails to send, ends it or disturbs the job. A request has its time
and its size; there are at most so many connections; a handler that fails is answered for, and told
to whoever started the server. A client that goes away takes its handler with it, but nothing that
the handler has begun elsewhere.
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
"""How long a client may take to send its request, or to take the answer."""

GRACE_S = 2.0
"""How long those that are being answered when the server ends are waited for."""

MOST = 200
"""Connections at a time."""


BROKEN = (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError)
"""What ends a connection. Behind a task that is cancelled streams complain, so none is."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may take."""

    patience_s: float = PATIENCE_S
    grace_s: float = GRACE_S
    connections: int = MOST


@dataclass(slots=True)
class Serving:
    """A server that runs."""

    routes: Sequence[Route]
    limits: Limits
    failed: Callable[[BaseException], None]
    """Told of a handler's failure, which is a defect of ours."""
    connections: set[asyncio.Task[None]] = field(default_factory=set)
    answering: set[asyncio.Task[None]] = field(default_factory=set)
    """Those whose request has come, and whose answer has not gone out yet."""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its request to its end."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        try:
            # A request that never came whole, an answer that nobody took, or the server's end.
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
            # What is still on its way would make the system take the answer back.
            while await reader.read(MAX_HEAD):
                pass

    async def _answer(self, reader: asyncio.StreamReader, task: asyncio.Task[None]) -> bytes:
        """The answer to what comes; none to a client that has gone away meanwhile."""
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
        """What the route says; None when the client does not wait for it."""
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
            raise Bad(500, "defect", said, "a defect of headrace: please report it") from None
        finally:
            handling.cancel()
            going.cancel()
            await asyncio.gather(handling, going, return_exceptions=True)


async def _request(reader: asyncio.StreamReader) -> Request:
    """What is asked. Raises Bad; IncompleteReadError where nothing is, or half of it."""
    try:
        head = read_head(await reader.readuntil(END_OF_HEAD))
    except asyncio.LimitOverrunError:
        raise Bad(400, "malformed", f"wanted a head of at most {MAX_HEAD} bytes") from None
    body = read_body(head, await reader.readexactly(head.length))
    return Request(head.method, head.path, head.query, body)


async def _gone(reader: asyncio.StreamReader) -> None:
    """Wait until the client goes; what it says behind its request is nothing to us."""
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
    """Serve on a socket that listens; at the end, who is being answered is, and it is closed."""
    serving = Serving(routes, limits or Limits(), failed)
    listener.setblocking(False)
    server = await asyncio.start_server(serving.connected, sock=listener, limit=MAX_HEAD)
    try:
        yield serving
    finally:
        server.close()
        await _over(serving)


async def _over(serving: Serving) -> None:
    """Let the last answers go out, but not for long."""
    if serving.answering:
        await asyncio.wait(serving.answering, timeout=serving.limits.grace_s)
    for task in (left := list(serving.connections)):
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
