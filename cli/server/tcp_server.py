"""HTTP over TCP: the API of the server for requests with a token, and the page without.

aiohttp parses what strangers send; the routes are those of the owner's socket. A port has no owner:
any program and any web page on this machine can send to it. So a request needs a token, on this
machine too, and these are rejected whatever their token:

- one for another host name, which a web page could have made an address of this machine;
- one from the page of another origin.

Size and time of a request are limited, as are the connections; one that is idle, or whose client
does not read the answer, is closed.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from logging.handlers import RotatingFileHandler
from types import MappingProxyType
from typing import Any

import orjson
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from headrace.cli.control.http_messages import (
    MAX_BODY,
    Request,
    RequestError,
    RequestHead,
    Response,
    StreamedResponse,
    check_host,
    make_error_response,
    parse_body,
)
from headrace.cli.control.http_server import STALL_TIMEOUT_S, Answer, HttpRoute, find_route
from headrace.cli.server.access_tokens import AccessTokens, Role
from headrace.core.api.snapshots import format_now
from headrace.core.types.lazy_dataclass import dataclass

IDLE_TIMEOUT_S = 15.0
"""The time that a client may take to send a request, or to read the answer."""

MAX_CONNECTIONS = 200
MAX_ACCESS_LOG = 10 * 2**20
MAX_LOGGED_PATH = 500
ROTATED_LOGS = 3
CLIENT_GONE = 499
"""The status in the log of a request whose client has not waited for the answer."""

READING_METHODS = ("GET", "HEAD")

PAGE = os.path.join(os.path.dirname(__file__), "page")
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
"""The files of the page that are served, by their suffixes."""

ROLE_HEADER = "Headrace-Role"
"""The role of the token, which the page need not guess."""

SECURITY_HEADERS = {
    "Server": "headrace",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """Limits of clients."""

    idle_s: float = IDLE_TIMEOUT_S
    connections: int = MAX_CONNECTIONS
    stall_s: float = STALL_TIMEOUT_S
    """The time that a client may take to read a part of a stream."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page, as it is and compressed."""

    plain: Response
    compressed: Response

    @classmethod
    def build(cls, data: bytes, kind: str) -> PageFile:
        """Build both answers."""
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        plain = Response(200, data, kind, {"Vary": "Accept-Encoding"})
        return cls(plain, Response(200, gzip.compress(data, mtime=0), kind, headers))

    def choose(self, accepted: str) -> Response:
        """Return the answer for a client that accepts these encodings."""
        return self.compressed if "gzip" in accepted.lower() else self.plain


@dataclass(frozen=True, slots=True)
class TcpServer:
    """Answers requests over TCP."""

    routes: Sequence[HttpRoute]
    tokens: AccessTokens
    hosts: Collection[str]
    """The names of this host that requests may have, beside localhost and addresses."""
    page: Mapping[str, PageFile]
    """The files of the page, by path."""
    access_log: logging.Handler
    report_bug: Callable[[BaseException], None]

    async def handle_request(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, and log it."""
        connection = request.protocol
        assert isinstance(connection, _Connection)
        connection.is_busy = True
        role: Role | None = None
        response: Answer
        try:
            head = _build_head(request)
            role = self.tokens.find_role(head.headers.get("authorization", ""))
            response = await self._answer(request, head, role)
        except asyncio.CancelledError:
            self._log(request, CLIENT_GONE, 0, role)
            raise
        except RequestError as error:
            response = make_error_response(error)
        except Exception as error:
            self.report_bug(error)
            message = f"a bug in headrace: {type(error).__name__}"
            response = make_error_response(RequestError(500, "defect", message))
        if isinstance(response, StreamedResponse):
            return await self._send_stream(request, connection, response, role)
        connection.reading_task = None
        connection.mark_used()
        self._log(request, response.status, len(response.body), role)
        headers = _build_headers(role, response.content_type, response.headers)
        return web.Response(status=response.status, body=response.body, headers=headers)

    async def _send_stream(
        self,
        request: web.BaseRequest,
        connection: _Connection,
        stream: StreamedResponse,
        role: Role | None,
    ) -> web.StreamResponse:
        """Send a stream to its end, or until the client disconnects or reads nothing."""
        response = web.StreamResponse(headers=_build_headers(role, stream.content_type))
        response.force_close()
        size = 0
        connection.reading_task = asyncio.current_task()
        try:
            async with aclosing(stream.chunks) as chunks:
                await response.prepare(request)
                async for chunk in chunks:
                    async with asyncio.timeout(connection.limits.stall_s):
                        await response.write(chunk)
                    size += len(chunk)
        except (TimeoutError, OSError):
            connection.abort()
        finally:
            connection.reading_task = None
            connection.mark_used()
            self._log(request, 200, size, role)
        return response

    async def _answer(
        self, request: web.BaseRequest, head: RequestHead, role: Role | None
    ) -> Answer:
        check_host(head, self.hosts)
        _check_origin(head)
        if request.method in READING_METHODS and head.path in self.page:
            return self.page[head.path].choose(head.headers.get("accept-encoding", ""))
        if role is None:
            hint = "send the token of the server's URL: Authorization: Bearer TOKEN"
            raise RequestError(401, "no_token", "wanted a valid token", hint)
        is_reading = self._is_reading(head)
        if role != "owner" and not is_reading:
            raise RequestError(403, "read_only", "this token may only look, and change nothing")
        body = parse_body(head, await self._read_body(request))
        if is_reading:
            connection = request.protocol
            assert isinstance(connection, _Connection)
            connection.reading_task = asyncio.current_task()
        route, values = find_route(self.routes, request.method, head.path)
        return await route.handler(
            Request(request.method, head.path, head.query, body, values, head.headers)
        )

    def _is_reading(self, head: RequestHead) -> bool:
        """Whether a request changes nothing."""
        if head.method in READING_METHODS:
            return True
        with suppress(RequestError):
            return find_route(self.routes, head.method, head.path)[0].is_reading
        return False

    async def _read_body(self, request: web.BaseRequest) -> bytes:
        """Read the body of a request, within the limits. Raises RequestError."""
        try:
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"wanted a body of at most {MAX_BODY} bytes"
            raise RequestError(413, "too_large", message) from None
        except TimeoutError:
            raise RequestError(408, "slow", "the body has not come in time") from None

    def _log(self, request: web.BaseRequest, status: int, size: int, role: Role | None) -> None:
        line = {
            "time": format_now(),
            "peer": request.remote,
            "method": request.method,
            "path": request.raw_path[:MAX_LOGGED_PATH],
            "status": status,
            "bytes": size,
            "role": role,
        }
        text = orjson.dumps(line).decode()
        self.access_log.handle(logging.LogRecord("", 0, "", 0, text, None, None))


class _Connection(RequestHandler):
    """A connection that is closed when its client is slow, or when there are too many."""

    def __init__(self, manager: web.Server, limits: TcpLimits, **options: Any) -> None:
        super().__init__(manager, **options)
        self.is_busy = False
        self.reading_task: asyncio.Task[Any] | None = None
        """The task of a request that changes nothing, which ends with the connection."""
        self.limits = limits
        self._clock = options["loop"]
        self._used_s = self._clock.time()
        self._timer: asyncio.TimerHandle | None = None
        self._server = manager

    def mark_used(self) -> None:
        """Note that a request has been answered."""
        self.is_busy, self._used_s = False, self._clock.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection."""
        super().connection_made(transport)
        if len(self._server.connections) > self.limits.connections:
            self.abort()
        self._timer = self._clock.call_later(self.limits.idle_s, self._close_if_idle)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self.reading_task is not None:
            self.reading_task.cancel()
        super().connection_lost(exc)

    def _close_if_idle(self) -> None:
        idle_s = self._clock.time() - self._used_s
        if not self.is_busy and idle_s >= self.limits.idle_s:
            self.abort()
        else:
            rest_s = self.limits.idle_s - (0 if self.is_busy else idle_s)
            self._timer = self._clock.call_later(rest_s, self._close_if_idle)

    def abort(self) -> None:
        """End the connection at once."""
        if self.transport is not None:
            self.transport.abort()


def load_page(folder: str = PAGE) -> dict[str, PageFile]:
    """Load the files of the page; index.html is the file of `/`."""
    files = {}
    for name in os.listdir(folder):
        kind = CONTENT_TYPES.get(os.path.splitext(name)[1])
        if kind is not None:
            with open(os.path.join(folder, name), "rb") as file:
                files[f"/{name}"] = PageFile.build(file.read(), kind)
    return {**files, "/": files["/index.html"]}


def open_access_log(path: str) -> logging.Handler:
    """Open the log of requests, which is rotated; a line that cannot be written is lost."""
    handler = RotatingFileHandler(path, maxBytes=MAX_ACCESS_LOG, backupCount=ROTATED_LOGS)
    handler.handleError = lambda record: None  # type: ignore[method-assign]
    return handler


@asynccontextmanager
async def run_tcp_server(
    server: TcpServer, listener: socket.socket, limits: TcpLimits | None = None
) -> AsyncIterator[None]:
    """Serve on a listening socket, which is closed at the end."""
    loop = asyncio.get_running_loop()

    manager = web.Server(server.handle_request)
    options: dict[str, Any] = {"loop": loop, "access_log": None, "keepalive_timeout": 3600.0}

    def build_connection() -> _Connection:
        return _Connection(manager, limits or TcpLimits(), **options)

    listening = await loop.create_server(build_connection, sock=listener)
    try:
        yield
    finally:
        listening.close()
        await manager.shutdown(1.0)
        server.access_log.close()


def _build_headers(
    role: Role | None, content_type: str, own: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return the headers of an answer."""
    role_headers = {} if role is None else {ROLE_HEADER: role}
    return {**SECURITY_HEADERS, **role_headers, **own, "Content-Type": content_type}


def _build_head(request: web.BaseRequest) -> RequestHead:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return RequestHead(request.method, request.path, dict(request.query), headers, 0)


def _check_origin(head: RequestHead) -> None:
    """Check that a request is not from the page of another origin. Raises RequestError."""
    origin, host = head.headers.get("origin"), head.headers.get("host", "")
    site = head.headers.get("sec-fetch-site", "same-origin")
    is_own = origin is None or origin in (f"http://{host}", f"https://{host}")
    is_navigation = head.method in READING_METHODS and head.path == "/"
    if not is_own or (site not in ("same-origin", "none") and not is_navigation):
        raise RequestError(403, "cross_site", "requests of other sites are not answered")
