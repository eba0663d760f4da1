"""Small HTTP server on a job's event loop, with a table of routes, over a Unix or TCP socket.

Nothing that a client sends, or fails to send, ends the server or disturbs the job. Time and size of
a request and the number of connections are limited. A failing handler gets an answer of status 500,
and the exception is passed to `failed`. If a client disconnects, its handler is cancelled, but not
the work that the handler has started elsewhere.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import field, replace
from typing import TypeAlias

from headrace.cli.control.http_messages import (
    END_OF_HEAD,
    MAX_HEAD,
    Request,
    RequestError,
    Response,
    StreamedResponse,
    check_host,
    encode_response,
    encode_stream_head,
    make_error_response,
    parse_body,
    parse_head,
)
from headrace.core.types.lazy_dataclass import dataclass

Answer: TypeAlias = "Response | StreamedResponse"
Handler: TypeAlias = "Callable[[Request], Awaitable[Answer]]"


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """A method, a path and a handler; a word of the path in braces matches any word."""

    method: str
    path: str
    handler: Handler
    is_reading: bool = False
    """Whether it changes nothing, whatever its method."""


class MethodNotAllowed(RequestError):
    """The path exists, but only for other methods."""

    def __init__(self, path: str, methods: Sequence[str]) -> None:
        super().__init__(405, "not_allowed", f"{path} is for {' and '.join(methods)}")
        self.methods = methods


def find_route(
    routes: Sequence[HttpRoute], method: str, path: str
) -> tuple[HttpRoute, Mapping[str, str]]:
    """Find the route of a request, and the values of its words in braces. Raises RequestError.

    HEAD is answered as GET is.
    """
    method = "GET" if method == "HEAD" else method
    others = []
    for route in routes:
        names = match_path(route.path, path)
        if names is None:
            continue
        if route.method == method:
            return route, names
        others.append(route.method)
    if others:
        raise MethodNotAllowed(path, others)
    there = ", ".join(dict.fromkeys(route.path for route in routes))
    raise RequestError(404, "no_such_path", f"there is no {path}", f"there are {there}")


def match_path(pattern: str, path: str) -> dict[str, str] | None:
    """Return the values of the words in braces, if the path matches the pattern.

    >>> match_path("/v1/operations/{id}", "/v1/operations/7")
    {'id': '7'}
    >>> match_path("/v1/operations/{id}", "/v1/job")
    """
    wanted, got = pattern.split("/"), path.split("/")
    if len(wanted) != len(got):
        return None
    names = {}
    for want, word in zip(wanted, got, strict=True):
        if want.startswith("{") and word:
            names[want.strip("{}")] = word
        elif want != word:
            return None
    return names


CLIENT_TIMEOUT_S = 10.0
"""The time that a client may take to send its request, or to receive the answer."""


STALL_TIMEOUT_S = 60.0
"""The time that a client may take to read a part of a stream."""


CLOSE_GRACE_S = 2.0
"""The time that the end of the server waits for answers in progress."""


MAX_CONNECTIONS = 200
"""The most connections at a time."""


CONNECTION_ERRORS = (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError)
"""Exceptions that end a connection. Streams log a cancelled task, so cancellation is caught too."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of clients."""

    timeout_s: float = CLIENT_TIMEOUT_S
    grace_s: float = CLOSE_GRACE_S
    stall_s: float = STALL_TIMEOUT_S
    connections: int = MAX_CONNECTIONS


@dataclass(slots=True)
class HttpServer:
    """A running server."""

    routes: Sequence[HttpRoute]
    limits: ServerLimits
    report_bug: Callable[[BaseException], None]
    """Called with the exception of a failing handler, which is a bug in headrace."""
    hosts: Collection[str] | None = None
    """The names of this host that requests may have beside localhost; None: any names."""
    connections: set[asyncio.Task[None]] = field(default_factory=set)
    busy_connections: set[asyncio.Task[None]] = field(default_factory=set)
    """The connections whose request has arrived and whose answer has not been sent."""

    async def handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Handle one connection, from its request to its end."""
        task = asyncio.current_task()
        assert task is not None
        self.connections.add(task)
        try:
            # An incomplete request, an answer that the client did not read, or the server's end.
            with suppress(*CONNECTION_ERRORS):
                await self._exchange(reader, writer, task)
        finally:
            self.connections.discard(task)
            writer.close()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        try:
            answer = await self._answer(reader, task)
            if isinstance(answer, StreamedResponse):
                await self._send_stream(reader, writer, answer)
            elif answer:
                await _send(writer, answer, self.limits.timeout_s)
        finally:
            self.busy_connections.discard(task)
        async with asyncio.timeout(self.limits.timeout_s):
            writer.write_eof()
            # Unread input would make the system reset the connection and drop the answer.
            while await reader.read(MAX_HEAD):
                pass

    async def _send_stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: StreamedResponse
    ) -> None:
        """Send a stream to its end, or until the client disconnects or reads nothing."""

        async def send() -> None:
            async with aclosing(answer.chunks) as chunks:
                await _send(writer, encode_stream_head(answer), self.limits.stall_s)
                async for chunk in chunks:
                    await _send(writer, chunk, self.limits.stall_s)

        sending = asyncio.ensure_future(send())
        going = asyncio.ensure_future(_wait_for_disconnect(reader))
        try:
            await asyncio.wait([sending, going], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            going.cancel()
            sent, _ = await asyncio.gather(sending, going, return_exceptions=True)
        if isinstance(sent, Exception) and not isinstance(sent, CONNECTION_ERRORS):
            self.report_bug(sent)

    async def _answer(
        self, reader: asyncio.StreamReader, task: asyncio.Task[None]
    ) -> bytes | StreamedResponse:
        """Return the encoded answer to a request, or its stream.

        It is empty if the client has disconnected.
        """
        method = ""
        try:
            if len(self.connections) > self.limits.connections:
                raise RequestError(503, "busy", "there are too many connections", "try again")
            async with asyncio.timeout(self.limits.timeout_s):
                request = await _read_request(reader, self.hosts)
            self.busy_connections.add(task)
            method = request.method
            response = await self._call_handler(reader, request)
            if isinstance(response, StreamedResponse):
                return response
        except MethodNotAllowed as bad:
            response = make_error_response(bad, {"Allow": ", ".join(bad.methods)})
        except RequestError as bad:
            response = make_error_response(bad)
        return encode_response(response, with_body=method != "HEAD") if response else b""

    async def _call_handler(self, reader: asyncio.StreamReader, request: Request) -> Answer | None:
        """Return the handler's answer; None if the client has disconnected."""
        route, names = find_route(self.routes, request.method, request.path)
        handling = asyncio.ensure_future(route.handler(replace(request, path_values=names)))
        going = asyncio.ensure_future(_wait_for_disconnect(reader))
        try:
            await asyncio.wait([handling, going], return_when=asyncio.FIRST_COMPLETED)
            return handling.result() if handling.done() else None
        except RequestError:
            raise
        except Exception as error:
            self.report_bug(error)
            message = f"{type(error).__name__}: {error}"
            raise RequestError(
                500, "defect", message, "a bug in headrace: please report it"
            ) from None
        finally:
            handling.cancel()
            going.cancel()
            await asyncio.gather(handling, going, return_exceptions=True)


async def _read_request(
    reader: asyncio.StreamReader, hosts: Collection[str] | None = None
) -> Request:
    """Read a request. Raises RequestError; IncompleteReadError if it is empty or incomplete."""
    try:
        head = parse_head(await reader.readuntil(END_OF_HEAD))
    except asyncio.LimitOverrunError:
        raise RequestError(400, "malformed", f"wanted a head of at most {MAX_HEAD} bytes") from None
    if hosts is not None:
        check_host(head, hosts)
    body = parse_body(head, await reader.readexactly(head.length))
    return Request(head.method, head.path, head.query, body, headers=head.headers)


async def _send(writer: asyncio.StreamWriter, data: bytes, timeout_s: float) -> None:
    """Send data, which its client must take in this time. Raises TimeoutError, OSError."""
    try:
        async with asyncio.timeout(timeout_s):
            writer.write(data)
            await writer.drain()
    except TimeoutError:
        writer.transport.abort()  # a close would wait for the client
        raise


async def _wait_for_disconnect(reader: asyncio.StreamReader) -> None:
    """Wait until the client disconnects; input after its request is ignored."""
    with suppress(OSError):
        while await reader.read(MAX_HEAD):
            pass


@asynccontextmanager
async def run_server(
    routes: Sequence[HttpRoute],
    listener: socket.socket,
    failed: Callable[[BaseException], None] = lambda error: None,
    limits: ServerLimits | None = None,
    hosts: Collection[str] | None = None,
) -> AsyncIterator[HttpServer]:
    """Serve on a listening socket; at the end, answers in progress are sent, and it is closed."""
    serving = HttpServer(routes, limits or ServerLimits(), failed, hosts)
    listener.setblocking(False)
    server = await asyncio.start_server(serving.handle_connection, sock=listener, limit=MAX_HEAD)
    try:
        yield serving
    finally:
        server.close()
        await _close_server(serving)


async def _close_server(serving: HttpServer) -> None:
    """Send the last answers, for a limited time."""
    if serving.busy_connections:
        await asyncio.wait(serving.busy_connections, timeout=serving.limits.grace_s)
    for task in (tasks := list(serving.connections)):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
