"""The server over TCP: who is answered, and who is not, whatever is sent."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import re
import socket
import stat
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.control.http_messages import (
    Request,
    Response,
    StreamedResponse,
    make_response,
)
from headrace.cli.control.http_server import HttpRoute
from headrace.cli.metrics.tcp_port import open_port
from headrace.cli.server.access_tokens import AccessTokens
from headrace.cli.server.tcp_server import TcpLimits, TcpServer, load_page, run_tcp_server
from tests.support.cli.servers import ServedFolder, served_folder, until

LONGEST_S = 60.0
OWNER, VIEWER = "o" * 43, "v" * 43
MEGABYTES = 64


async def show_request(request: Request) -> Response:
    """Answer with what the handler got."""
    return make_response(200, {"path": request.path, "body": dict(request.body)})


async def send_much(request: Request) -> Response:
    """Answer with more than the system's buffers take."""
    return Response(200, b"x" * MEGABYTES * 2**20)


WAITING: list[str] = []
"""The requests that wait for ever, and have ended."""


async def wait_for_ever(request: Request) -> Response:
    """Never answer."""
    WAITING.append("begins")
    try:
        return await asyncio.Future()
    finally:
        WAITING.append("ends")


STREAMS: list[str] = []
"""The streams that have begun and ended."""


async def send_events(size: int) -> AsyncGenerator[bytes, None]:
    STREAMS.append("begins")
    try:
        while True:
            yield b"event: job\ndata: {}\n\n" * size
            await asyncio.sleep(0 if size > 1 else 0.01)
    finally:
        STREAMS.append("ends")


async def stream(request: Request) -> StreamedResponse:
    """Answer with a stream without end, slowly or as fast as it is read."""
    return StreamedResponse(send_events(2**16 if request.body.get("much") else 1))


ROUTES = [
    HttpRoute("GET", "/v1/jobs", show_request),
    HttpRoute("POST", "/v1/jobs", show_request),
    HttpRoute("POST", "/v1/events", stream, is_reading=True),
    HttpRoute("GET", "/v1/much", send_much),
    HttpRoute("POST", "/v1/query", wait_for_ever, is_reading=True),
    HttpRoute("POST", "/v1/change", wait_for_ever),
]


class Lines(logging.Handler):
    """The lines of an access log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(record.getMessage()))


@contextmanager
def serving(limits: TcpLimits | None = None) -> Iterator[tuple[int, Lines]]:
    """A server in a thread: its port, and its access log."""
    log, bugs, listener = Lines(), list[BaseException](), open_port(0)
    port = listener.getsockname()[1]
    started, over = threading.Event(), list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()

    async def run() -> None:
        end = asyncio.Event()
        tokens = AccessTokens(OWNER, VIEWER)
        server = TcpServer(ROUTES, tokens, ("our.host",), load_page(), log, bugs.append)
        async with run_tcp_server(server, listener, limits):
            over.append((asyncio.get_running_loop(), end))
            started.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert started.wait(LONGEST_S)
    try:
        yield port, log
    finally:
        loop, end = over[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(LONGEST_S)
    assert not thread.is_alive()
    assert bugs == []


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[int, Lines]]:
    with serving() as found:
        yield found


def send(
    port: int,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> tuple[int, bytes, Mapping[str, str]]:
    """Send a request; return the status, the body and the headers of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST_S)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
    finally:
        connection.close()


def bearer(token: str, **more: str) -> dict[str, str]:
    """The headers of a request with a token."""
    return {"Authorization": f"Bearer {token}", **{k.replace("_", "-"): v for k, v in more.items()}}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("o" * 42),
        bearer(OWNER + "o"),
        bearer("ö" * 43),
        bearer(""),
        {"Authorization": f"Basic {OWNER}"},
        {"Authorization": OWNER},
        {"Cookie": f"token={OWNER}"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_without_the_token_nothing_is_answered(
    server: tuple[int, Lines], method: str, headers: dict[str, str]
) -> None:
    headers = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    for path in ("/v1/jobs", f"/v1/jobs?token={OWNER}", "/metrics", "/no/such"):
        status, body, _ = send(server[0], method, path, headers)
        assert (status, json.loads(body)["error"]["code"]) == (401, "no_token")


def test_viewers_look_and_change_nothing(server: tuple[int, Lines]) -> None:
    assert send(server[0], "GET", "/v1/jobs", bearer(VIEWER))[0] == 200
    status, body, _ = send(server[0], "POST", "/v1/jobs", bearer(VIEWER))
    assert (status, json.loads(body)["error"]["code"]) == (403, "read_only")
    posted = bearer(OWNER, Content_Type="application/json")
    status, body, _ = send(server[0], "POST", "/v1/jobs", posted, b'{"file": "a.yaml"}')
    assert (status, json.loads(body)["body"]) == (200, {"file": "a.yaml"})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:PORT"}, 421),
        ({"Host": "localhost:PORT"}, 200),
        ({"Host": "our.host"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://127.0.0.1:PORT"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_sites_are_not_answered_even_with_the_token(
    server: tuple[int, Lines], method: str, headers: dict[str, str], status: int
) -> None:
    named = {name: value.replace("PORT", str(server[0])) for name, value in headers.items()}
    got, _, answered = send(server[0], method, "/v1/jobs", bearer(OWNER) | named)
    assert got == status
    assert not [name for name in answered if name.startswith("access-control")]


def test_a_form_of_another_site_and_its_preflight_are_rejected(server: tuple[int, Lines]) -> None:
    plain = bearer(OWNER, Content_Type="text/plain")
    assert send(server[0], "POST", "/v1/jobs", plain, b'{"file": "a.yaml"}')[0] == 415
    asks = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    status, _, headers = send(server[0], "OPTIONS", "/v1/jobs", asks)
    assert status == 403
    assert "access-control-allow-origin" not in headers


def test_the_page_needs_no_token_and_holds_no_data(server: tuple[int, Lines]) -> None:
    status, body, headers = send(server[0], "GET", "/")
    assert (status, b"Authorization: Bearer" in body) == (200, True)
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["server"] == "headrace"
    assert send(server[0], "POST", "/")[0] == 401
    for path in (
        "/__init__.py",
        "/../access_tokens.py",
        "/%2e%2e/access_tokens.py",
        "//etc/passwd",
    ):
        assert send(server[0], "GET", path)[0] == 401


def test_what_is_too_large_is_rejected(server: tuple[int, Lines]) -> None:
    json_type = bearer(OWNER, Content_Type="application/json")
    with socket.create_connection(("127.0.0.1", server[0]), LONGEST_S) as connection:
        head = "".join(f"{name}: {value}\r\n" for name, value in json_type.items())
        length = 2**21
        connection.sendall(
            f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n{head}"
            f"Content-Length: {length}\r\n\r\n".encode()
        )
        connection.sendall(b'"' + b"x" * (2**20 + 2**19))
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
    assert send(server[0], "GET", "/v1/jobs", bearer(OWNER) | {"X": "x" * 9000})[0] == 400
    assert send(server[0], "GET", "/v1/jobs?" + "x" * 9000, bearer(OWNER))[0] in (400, 414)
    assert send(server[0], "GET", "/v1/jobs", bearer(OWNER))[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /v1/jobs HTTP/9.9\r\n\r\n",
        b"GET /v1/jobs HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nx",
        b"GET /v1/jobs HTTP/1.1\nHost : localhost\n\n",
    ],
)
def test_what_is_no_http_is_rejected(server: tuple[int, Lines], data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server[0]), LONGEST_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    assert answer == b"" or re.match(rb"HTTP/1\.\d 4", answer)
    assert send(server[0], "GET", "/v1/jobs", bearer(OWNER))[0] == 200


def read_to_end(connection: socket.socket) -> bytes:
    """All that is sent until the connection is closed or reset."""
    received = bytearray()
    try:
        while piece := connection.recv(2**20):
            received += piece
    except ConnectionResetError:
        pass
    return bytes(received)


def test_slow_clients_are_disconnected() -> None:
    with serving(TcpLimits(idle_s=0.2)) as (port, _):
        for begun in (b"", b"GET /v1/jobs HTTP/1.1\r\nHost: local", b"GET / HTTP/1.1\r\n"):
            with socket.create_connection(("127.0.0.1", port), LONGEST_S) as connection:
                connection.sendall(begun)
                assert read_to_end(connection) == b""
        with socket.socket() as connection:
            # A small window: the answer waits for its reader, who does not come.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(LONGEST_S)
            connection.connect(("127.0.0.1", port))
            head = f"Host: localhost\r\nAuthorization: Bearer {OWNER}\r\n\r\n"
            connection.sendall(f"GET /v1/much HTTP/1.1\r\n{head}".encode())
            threading.Event().wait(1.0)
            assert len(read_to_end(connection)) < MEGABYTES * 2**20


def request_stream(token: str, body: bytes = b"{}") -> bytes:
    """The bytes of a request for a stream."""
    head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json"
    return (
        f"POST /v1/events HTTP/1.1\r\n{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )


@pytest.mark.parametrize("token", [OWNER, VIEWER])
def test_a_stream_goes_on_until_its_viewer_disconnects(token: str) -> None:
    STREAMS.clear()
    with serving(TcpLimits(idle_s=0.1)) as (port, log):
        with socket.create_connection(("127.0.0.1", port), LONGEST_S) as connection:
            connection.sendall(request_stream(token))
            received = b""
            while received.count(b"event: job\n") < 50:
                received += (piece := connection.recv(65536))
                assert piece
            assert received.startswith(b"HTTP/1.1 200 OK")
            assert b"Content-Type: text/event-stream; charset=utf-8" in received
            assert STREAMS == ["begins"]
        until(lambda: STREAMS == ["begins", "ends"])
        until(lambda: len(log.lines) == 1)
    (line,) = log.lines
    assert (line["path"], line["status"]) == ("/v1/events", 200)
    assert line["bytes"] > 50


def test_a_query_ends_with_its_client_and_a_change_does_not() -> None:
    WAITING.clear()
    with serving() as (port, log):
        for path in ("query", "change"):
            with socket.create_connection(("127.0.0.1", port), LONGEST_S) as connection:
                connection.sendall(
                    request_stream(OWNER).replace(b"/v1/events", b"/v1/" + path.encode())
                )
                until(lambda: WAITING and WAITING[-1] == "begins")
            if path == "query":
                until(lambda: WAITING == ["begins", "ends"])
        until(lambda: len(log.lines) == 1)
        assert send(port, "GET", "/v1/jobs", bearer(OWNER))[0] == 200
        assert WAITING == ["begins", "ends", "begins"]
    assert [(line["path"], line["status"]) for line in log.lines[:1]] == [("/v1/query", 499)]


def test_a_stream_needs_a_token_and_our_own_page(server: tuple[int, Lines]) -> None:
    assert send(server[0], "POST", "/v1/events")[0] == 401
    posted = bearer(VIEWER, Content_Type="application/json", Origin="http://evil.example")
    assert send(server[0], "POST", "/v1/events", posted, b"{}")[0] == 403
    plain = bearer(VIEWER, Content_Type="text/plain")
    assert send(server[0], "POST", "/v1/events", plain, b"{}")[0] == 415


def test_a_viewer_that_reads_nothing_of_a_stream_is_disconnected() -> None:
    STREAMS.clear()
    with (
        serving(TcpLimits(stall_s=0.2)) as (port, _),
        socket.create_connection(("127.0.0.1", port), LONGEST_S) as connection,
    ):
        connection.sendall(request_stream(OWNER, b'{"much": true}'))
        until(lambda: STREAMS == ["begins", "ends"])
        assert read_to_end(connection).startswith(b"HTTP/1.1 200 OK")


def test_there_are_only_so_many_connections() -> None:
    with serving(TcpLimits(connections=2)) as (port, _):
        first, second = (socket.create_connection(("127.0.0.1", port), LONGEST_S) for _ in "12")
        with first, second:
            for connection in (first, second):
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            with socket.create_connection(("127.0.0.1", port), LONGEST_S) as third:
                assert read_to_end(third) == b""
        until(lambda: _is_answered(port))


def _is_answered(port: int) -> bool:
    try:
        return send(port, "GET", "/")[0] == 200
    except (ConnectionError, http.client.HTTPException):
        return False


def test_requests_are_logged_without_tokens() -> None:
    with serving() as (port, log):
        send(port, "GET", "/v1/jobs", bearer(VIEWER))
        send(port, "POST", "/v1/a%0d%0ab?x=%22", bearer(OWNER))
        send(port, "GET", "/v1/jobs", {"Host": "evil.example"})
    shown = [(line["method"], line["path"], line["status"], line["role"]) for line in log.lines]
    assert shown == [
        ("GET", "/v1/jobs", 200, "viewer"),
        ("POST", "/v1/a%0d%0ab?x=%22", 404, "owner"),
        ("GET", "/v1/jobs", 421, None),
    ]
    assert OWNER not in str(log.lines)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ServedFolder]:
    with served_folder(tmp_path) as folder:
        yield folder


def printed_urls(home: ServedFolder) -> list[tuple[int, str]]:
    """The ports and tokens that servers have printed."""
    found = re.findall(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", home.printed())
    return [(int(port), token) for port, token in found]


@pytest.mark.slow
def test_jobs_are_seen_and_stopped_over_tcp(home: ServedFolder) -> None:
    home.write("a")
    first = home.start("--http", "0", "--read-only-token")
    home.until_checkpoint("a")
    (port, owner), (_, viewer) = until(lambda: len(u := printed_urls(home)) == 2 and u)
    for name in ("serve.token", "serve.read-only-token"):
        file = home.path / ".headrace" / name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text().strip() in (owner, viewer)
    job = json.loads(send(port, "GET", "/v1/jobs/a", bearer(viewer))[1])
    assert (job["status"], job["served"]) == ("running", True)
    own = json.loads(send(port, "GET", "/v1/jobs/a/job", bearer(viewer))[1])
    assert own["pid"] == job["pid"]
    for path in ("/v1/jobs/..%2f..%2fa/job", "/v1/jobs/%40server/jobs", "/v1/jobs/no/job"):
        assert send(port, "GET", path, bearer(owner))[0] in (404, 409)
    metrics = send(port, "GET", "/metrics", bearer(viewer))[1].decode()
    assert 'headrace_served_job_running{job="a"} 1.0' in metrics
    assert 'process_resident_memory_bytes{job="a"}' in metrics
    assert metrics.count("# TYPE headrace_status gauge") <= 1
    seen = bearer(owner, If_Match=f'"{job["generation"]}"')
    assert send(port, "POST", "/v1/jobs/a/stop", bearer(viewer) | seen | bearer(viewer))[0] == 403
    assert send(port, "POST", "/v1/jobs/a/stop", seen)[0] == 202
    home.until_status("a", "stopped")
    log = (home.path / ".headrace" / "@server" / "access.log").read_text()
    assert '"path":"/v1/jobs/a/stop"' in log
    assert owner not in log
    home.end(first)
    # The token is the same as before, until it is renewed; there are no viewers without the flag.
    second = home.start("--http", "0")
    port, again = until(lambda: len(u := printed_urls(home)) == 3 and u)[-1]
    assert again == owner
    assert send(port, "GET", "/v1/jobs", bearer(viewer))[0] == 401
    home.end(second)
    home.start("--http", "0", "--new-token")
    port, renewed = until(lambda: len(u := printed_urls(home)) == 4 and u)[-1]
    assert send(port, "GET", "/v1/jobs", bearer(owner))[0] == 401
    assert send(port, "GET", "/v1/jobs", bearer(renewed))[0] == 200
