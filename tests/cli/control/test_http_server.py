"""A server over a real socket: whatever clients do, it answers the next one."""

import asyncio
import os
import socket
import stat
import struct
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.cli.control import job_socket
from headrace.cli.control.http_messages import (
    MAX_BODY,
    MAX_HEAD,
    Request,
    RequestError,
    Response,
    StreamedResponse,
    make_response,
)
from headrace.cli.control.http_server import HttpRoute, ServerLimits
from tests.support.cli.http_clients import LONGEST_S, rest, said, served
from tests.support.cli.servers import until

HELLO = b"GET /hello HTTP/1.1\r\n\r\n"


async def hello(request: Request) -> Response:
    return make_response(200, {"hello": True})


async def echo(request: Request) -> Response:
    return make_response(
        200, {"body": request.body, "names": request.path_values, "query": request.query}
    )


async def no(request: Request) -> Response:
    raise RequestError(409, "no", "it cannot be", "ask later")


async def defect(request: Request) -> Response:
    raise ZeroDivisionError("0")


async def forever(request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError


ENDED: list[str] = []
"""The streams that have ended, by what they send."""


async def count_up() -> AsyncGenerator[bytes, None]:
    try:
        for number in range(3):
            yield b"%d\n" % number
    finally:
        ENDED.append("numbers")


async def flood() -> AsyncGenerator[bytes, None]:
    try:
        while True:
            yield b"x" * 2**20
    finally:
        ENDED.append("flood")


async def wait() -> AsyncGenerator[bytes, None]:
    try:
        yield b"first\n"
        await asyncio.Event().wait()
    finally:
        ENDED.append("wait")


async def stream(request: Request) -> StreamedResponse:
    made = {"numbers": count_up, "flood": flood, "wait": wait}[request.path_values["what"]]
    return StreamedResponse(made())


ROUTES = [
    HttpRoute("GET", "/hello", hello),
    HttpRoute("POST", "/stream/{what}", stream),
    HttpRoute("POST", "/echo/{word}", echo),
    HttpRoute("POST", "/no", no),
    HttpRoute("GET", "/defect", defect),
    HttpRoute("GET", "/forever", forever),
]


def status(answered: bytes) -> int:
    return int(answered.split(b" ")[1])


def is_well(folder: Path) -> bool:
    return said(folder, HELLO).endswith(b'{"hello":true}\n')


def test_a_request_is_answered_and_the_connection_closed(tmp_path: Path) -> None:
    body = b'{"a": [1]}'
    head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with served(tmp_path, ROUTES) as defects:
        assert is_well(tmp_path)
        got = said(tmp_path, b"POST /echo/x?y=z HTTP/1.1\r\n" + head + body)
        assert got.endswith(b'{"body":{"a":[1]},"names":{"word":"x"},"query":{"y":"z"}}\n')
        assert not said(tmp_path, b"HEAD /hello HTTP/1.1\r\n\r\n").endswith(b"}\n")
        assert not defects


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"rubbish\r\n\r\n", 400),
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"POST /hello HTTP/1.1\r\n\r\n", 405),
        (b"POST /no HTTP/1.1\r\n\r\n", 409),
        (f"POST /no HTTP/1.1\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n".encode(), 413),
        (b"POST /no HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 415),
        (b"GET /hello HTTP/1.1\r\nx: " + b"x" * MAX_HEAD, 400),
    ],
)
def test_what_cannot_be_is_refused_in_json(tmp_path: Path, data: bytes, wanted: int) -> None:
    with served(tmp_path, ROUTES) as defects:
        got = said(tmp_path, data)
        assert status(got) == wanted
        assert b'{"error":{"code":' in got
        assert is_well(tmp_path)
        assert not defects


def test_allow_header_lists_the_methods_of_a_path(tmp_path: Path) -> None:
    with served(tmp_path, ROUTES):
        assert b"\r\nAllow: GET\r\n" in said(tmp_path, b"PUT /hello HTTP/1.1\r\n\r\n")


def test_a_defect_is_answered_with_500_and_reported(tmp_path: Path) -> None:
    with served(tmp_path, ROUTES) as defects:
        assert status(said(tmp_path, b"GET /defect HTTP/1.1\r\n\r\n")) == 500
        assert [type(each) for each in defects] == [ZeroDivisionError]
        assert is_well(tmp_path)


@pytest.mark.parametrize(
    "data", [b"", HELLO[:7], b"POST /no HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"]
)
def test_half_a_request_is_not_answered(tmp_path: Path, data: bytes) -> None:
    with served(tmp_path, ROUTES) as defects:
        assert said(tmp_path, data, close=True) == b""
        assert is_well(tmp_path)
        assert not defects


def test_a_client_may_go_at_any_byte(tmp_path: Path) -> None:
    asked = b"GET /forever HTTP/1.1\r\n\r\n"
    with served(tmp_path, ROUTES) as defects:
        for length in range(len(asked) + 1):
            with job_socket.connect_to_job(str(tmp_path), LONGEST_S) as connection:
                connection.sendall(asked[:length])
                # Closed with a reset where the system has one.
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        assert is_well(tmp_path)
        assert not defects


def test_a_client_that_sends_nothing_has_its_time(tmp_path: Path) -> None:
    with (
        served(tmp_path, ROUTES, ServerLimits(timeout_s=0.01)),
        job_socket.connect_to_job(str(tmp_path), LONGEST_S) as connection,
    ):
        assert rest(connection) == b""


def test_a_hundred_connections_are_no_trouble_and_too_many_are_refused(tmp_path: Path) -> None:
    with served(tmp_path, ROUTES, ServerLimits(connections=101)), ExitStack() as held:
        open_ = [
            held.enter_context(job_socket.connect_to_job(str(tmp_path), LONGEST_S))
            for _ in range(100)
        ]
        for connection in open_[:50]:
            connection.sendall(b"GET /fore")
        assert is_well(tmp_path)
        over = [
            held.enter_context(job_socket.connect_to_job(str(tmp_path), LONGEST_S))
            for _ in range(2)
        ]
        assert status(rest(over[1])) == 503
        for connection in open_[50:]:
            connection.sendall(HELLO)
            assert status(rest(connection)) == 200


def test_what_is_being_answered_at_the_end_is_not_waited_for_long(tmp_path: Path) -> None:
    with served(tmp_path, ROUTES, ServerLimits(grace_s=0.01)):
        connection = job_socket.connect_to_job(str(tmp_path), LONGEST_S)
        connection.sendall(b"GET /forever HTTP/1.1\r\n\r\n")
        assert is_well(tmp_path)
    with connection:
        assert rest(connection) == b""


def test_the_socket_is_its_owners_and_goes_with_the_server(tmp_path: Path) -> None:
    with served(tmp_path, ROUTES):
        mode = os.lstat(job_socket.socket_path(str(tmp_path))).st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert os.listdir(tmp_path) == ["control.sock"]
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        job_socket.connect_to_job(str(tmp_path), LONGEST_S)


def test_what_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    for name in ("control.sock", "control.new/control.sock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / name))
    with pytest.raises(ConnectionRefusedError):
        job_socket.connect_to_job(str(tmp_path), LONGEST_S)
    with served(tmp_path, ROUTES):
        assert is_well(tmp_path)


def test_folders_may_be_as_deep_as_they_like(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["deep" * 10] * 5)
    folder.mkdir(parents=True)
    with served(folder, ROUTES):
        assert is_well(folder)
    assert os.listdir(folder) == []


def test_too_long_a_socket_name_is_refused_without_descriptor_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_socket, "DESCRIPTOR_FOLDER", str(tmp_path / "none"))
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    with pytest.raises(job_socket.SocketNameTooLong, match="longer than the 100 bytes"):
        job_socket.connect_to_job(str(folder), LONGEST_S)


def test_a_stream_is_sent_to_its_end(tmp_path: Path) -> None:
    ENDED.clear()
    with served(tmp_path, ROUTES) as defects:
        head, _, body = said(tmp_path, b"POST /stream/numbers HTTP/1.1\r\n\r\n").partition(
            b"\r\n\r\n"
        )
        assert b"Content-Type: text/event-stream; charset=utf-8" in head
        assert body == b"0\n1\n2\n"
        assert ENDED == ["numbers"]
        assert not defects


def test_a_stream_ends_with_its_client(tmp_path: Path) -> None:
    ENDED.clear()
    with served(tmp_path, ROUTES) as defects:
        with job_socket.connect_to_job(str(tmp_path), LONGEST_S) as connection:
            connection.sendall(b"POST /stream/wait HTTP/1.1\r\n\r\n")
            received = b""
            while not received.endswith(b"first\n"):
                received += connection.recv(65536)
            assert not ENDED
        until(lambda: ENDED == ["wait"])
        assert is_well(tmp_path)
        assert not defects


def test_a_client_that_reads_nothing_of_a_stream_is_disconnected(tmp_path: Path) -> None:
    ENDED.clear()
    limits = ServerLimits(stall_s=0.1)
    with (
        served(tmp_path, ROUTES, limits) as defects,
        job_socket.connect_to_job(str(tmp_path), LONGEST_S) as connection,
    ):
        connection.sendall(b"POST /stream/flood HTTP/1.1\r\n\r\n")
        until(lambda: ENDED == ["flood"])
        assert rest(connection).startswith(b"HTTP/1.1 200 OK")
        assert is_well(tmp_path)
        assert not defects
