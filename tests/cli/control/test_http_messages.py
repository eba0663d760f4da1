"""Requests are read as they are written, or refused; answers are what another library reads."""

import http.client
import io
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.control.http_messages import (
    MAX_BODY,
    Request,
    RequestError,
    RequestHead,
    Response,
    check_host,
    encode_response,
    make_error_response,
    make_response,
    parse_body,
    parse_head,
)
from headrace.cli.control.http_server import HttpRoute, MethodNotAllowed, find_route, match_path

END = b"\r\n\r\n"


def head_of(*lines: str) -> RequestHead:
    return parse_head("\r\n".join(lines).encode() + END)


def refused(data: bytes) -> RequestError:
    with pytest.raises(RequestError) as caught:
        parse_head(data)
    return caught.value


def test_a_head_is_read() -> None:
    head = head_of("POST /v1/stop?a=1&b=x%20y HTTP/1.1", "Host: job", "CONTENT-LENGTH:  12 ")
    assert (head.method, head.path, head.length) == ("POST", "/v1/stop", 12)
    assert head.query == {"a": "1", "b": "x y"}
    assert head.headers == {"host": "job", "content-length": "12"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET",
        b"GET /",
        b"GET / HTTP/2",
        b"GET  / HTTP/1.1",
        b"G\x00T / HTTP/1.1",
        b"GET job HTTP/1.1",
        b"GET / HTTP/1.1 x",
        b"GET /\xff HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/1.1\r\nno colon",
        b"GET / HTTP/1.1\r\n: no name",
        b"GET / HTTP/1.1\r\n folded: line",
        b"GET / HTTP/1.1\r\nContent-Length: -1",
        b"GET / HTTP/1.1\r\nContent-Length: 0x10",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
    ],
)
def test_what_is_no_request_is_malformed(data: bytes) -> None:
    bad = refused(data + END)
    assert (bad.status, bad.code) == (400, "malformed")


@given(st.binary(max_size=300))
def test_garbage_is_a_request_or_a_refusal(data: bytes) -> None:
    try:
        head = parse_head(data + END)
    except RequestError as bad:
        assert bad.status in (400, 413)
    else:
        assert head.path and head.method


def test_a_body_has_a_limit() -> None:
    assert head_of("POST / HTTP/1.1", f"Content-Length: {MAX_BODY}").length == MAX_BODY
    bad = refused(f"POST / HTTP/1.1\r\nContent-Length: {MAX_BODY + 1}".encode() + END)
    assert (bad.status, bad.code) == (413, "too_large")


@pytest.mark.parametrize(
    ("kind", "data", "status"),
    [
        ("text/plain", b"{}", 415),
        ("", b"{}", 415),
        ("application/json", b"{", 400),
        ("application/json", b"[1]", 400),
        ("application/json", b"\xff", 400),
    ],
)
def test_a_body_is_an_object_of_json(kind: str, data: bytes, status: int) -> None:
    head = RequestHead("POST", "/", {}, {"content-type": kind}, len(data))
    with pytest.raises(RequestError) as caught:
        parse_body(head, data)
    assert caught.value.status == status


def test_a_body_may_be_missing_and_its_type_may_have_parameters() -> None:
    assert parse_body(RequestHead("POST", "/", {}, {}, 0), b"") == {}
    head = RequestHead("POST", "/", {}, {"content-type": "Application/JSON; charset=utf-8"}, 9)
    assert parse_body(head, b'{"a": 1}') == {"a": 1}


class Wire(socket.socket):
    """A connection that has only this to say."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, *_: object, **__: object) -> io.BytesIO:  # type: ignore[override]
        return io.BytesIO(self.data)

    def __del__(self) -> None:
        pass


@pytest.mark.parametrize(
    "response",
    [
        make_response(202, {"id": "7"}),
        make_error_response(RequestError(409, "stopping", "no"), {"Allow": "GET"}),
    ],
)
def test_an_answer_is_what_the_standard_library_reads(response: Response) -> None:
    read = http.client.HTTPResponse(Wire(encode_response(response)))
    read.begin()
    assert (read.status, read.read()) == (response.status, response.body)
    assert read.getheader("content-type") == "application/json"
    assert read.will_close
    assert (
        encode_response(response, with_body=False)
        == encode_response(response)[: -len(response.body)]
    )


async def nothing(_: Request) -> Response:
    raise NotImplementedError


ROUTES = [
    HttpRoute("GET", "/v1/operations/{id}", nothing),
    HttpRoute("GET", "/v1/job", nothing),
    HttpRoute("POST", "/v1/job", nothing),
]


def test_a_route_is_found_by_method_and_path() -> None:
    assert find_route(ROUTES, "GET", "/v1/operations/7") == (ROUTES[0], {"id": "7"})
    assert find_route(ROUTES, "HEAD", "/v1/job")[0] is ROUTES[1]
    assert find_route(ROUTES, "POST", "/v1/job")[0] is ROUTES[2]


def test_another_method_is_not_allowed_and_another_path_is_not_there() -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        find_route(ROUTES, "DELETE", "/v1/job")
    assert caught.value.methods == ["GET", "POST"]
    with pytest.raises(RequestError) as missing:
        find_route(ROUTES, "GET", "/v2/job")
    assert (missing.value.status, missing.value.code) == (404, "no_such_path")


@pytest.mark.parametrize(
    "path", ["", "/", "/v1/operations", "/v1/operations/", "/v1/operations/7/"]
)
def test_a_word_stands_for_one_word(path: str) -> None:
    assert match_path("/v1/operations/{id}", path) is None


@pytest.mark.parametrize(
    "host", ["", "localhost", "LOCALHOST:9100", "127.0.0.1:9100", "[::1]:9100", "metrics:80"]
)
def test_a_request_by_address_or_by_a_name_of_this_host_is_answered(host: str) -> None:
    check_host(RequestHead("GET", "/metrics", {}, {"host": host}, 0), ("metrics",))


@pytest.mark.parametrize(("host", "named"), [("evil.example:9100", "evil.example"), ("a", "a")])
def test_a_request_by_another_name_is_refused(host: str, named: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_host(RequestHead("GET", "/metrics", {}, {"host": host}, 0), ("metrics",))
    assert refused.value.status == 421
    message = f"wanted an address, localhost or a host of --http-host, got {named}"
    assert refused.value.message == message
    assert f"--http-host {named}" in refused.value.hint


def test_a_host_that_is_none_is_malformed() -> None:
    with pytest.raises(RequestError, match="wanted a header such as Host"):
        check_host(RequestHead("GET", "/metrics", {}, {"host": "[::1"}, 0), ())
