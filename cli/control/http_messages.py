"""The part of HTTP/1.1 that control needs: one request per connection, JSON bodies with a length.

Pure functions between bytes and messages. A library would cost more start-up time in every run
(docs/decisions/0016). A request that is not understood gets a 4xx answer, never a guess:
`RequestError` has its status and a hint.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import field
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson

from headrace.core.types.lazy_dataclass import dataclass

MAX_HEAD = 16 * 1024
MAX_BODY = 1024 * 1024
END_OF_HEAD = b"\r\n\r\n"
JSON_TYPE = "application/json"
EVENT_STREAM_TYPE = "text/event-stream; charset=utf-8"

# The standard library's table takes longer to import than this whole module.
REASON_PHRASES = {
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    412: "Precondition Failed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    428: "Precondition Required",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(r"[0-9]{1,12}")


class RequestError(Exception):
    """A request that is answered with an error: its status, a code for programs, and a hint."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request without its body; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    length: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a route; `path_values` are the values of the path's parameters."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] = field(default_factory=dict)
    path_values: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamedResponse:
    """An answer that goes on until its chunks end, or its client has disconnected."""

    chunks: AsyncGenerator[bytes, None]
    content_type: str = EVENT_STREAM_TYPE


def parse_head(data: bytes) -> RequestHead:
    """Parse the head of a request, which ends with an empty line. Raises RequestError.

    >>> parse_head(b"GET /v1/operations/7?wait_s=10 HTTP/1.1\\r\\nHost: job\\r\\n\\r\\n").query
    {'wait_s': '10'}
    """
    try:
        first, *lines = data.removesuffix(END_OF_HEAD).decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise _malformed_error("the head of the request is not ASCII") from None
    method, target = _parse_request_line(first)
    headers = _parse_headers(lines)
    path, _, query = target.partition("?")
    return RequestHead(
        method, unquote(path), dict(parse_qsl(query)), headers, _parse_length(headers)
    )


def _parse_request_line(line: str) -> tuple[str, str]:
    match line.split(" "):
        case [method, target, "HTTP/1.1" | "HTTP/1.0"]:
            if _TOKEN.fullmatch(method) and target.startswith("/") and target.isprintable():
                return method, target
    raise _malformed_error("wanted a request such as GET /v1/job HTTP/1.1")


def _parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise _malformed_error("wanted headers such as Host: job, each on a line of its own")
        name = name.lower()
        if name in headers and name == "content-length":
            raise _malformed_error("wanted one Content-Length, got two")
        headers[name] = value.strip()
    return headers


def _parse_length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise _malformed_error("a body is read by its Content-Length, not in chunks")
    text = headers.get("content-length", "0")
    if not _LENGTH.fullmatch(text):
        raise _malformed_error("wanted a number of bytes as Content-Length")
    length = int(text)
    if length > MAX_BODY:
        message = f"wanted a body of at most {MAX_BODY} bytes, got {length}"
        raise RequestError(413, "too_large", message)
    return length


def check_keys(document: Mapping[str, object], *keys: str) -> Mapping[str, object]:
    """Return a document, after checking that it has no other keys. Raises RequestError."""
    for key in document:
        if key not in keys:
            there = f"there are {', '.join(keys)}"
            raise RequestError(400, "malformed", f'there is no "{key}"', there)
    return document


def check_host(head: RequestHead, names: Collection[str]) -> None:
    """Raise RequestError unless the host is an address, localhost or one of the names.

    A web page could otherwise have its visitor's browser read from here, under a name of its own
    that resolves to this machine.
    """
    from ipaddress import ip_address

    written = head.headers.get("host", "")
    try:
        host = urlsplit(f"//{written}").hostname
    except ValueError:
        raise _malformed_error("wanted a header such as Host: localhost:9100") from None
    if host is None or host == "localhost" or host in names:
        return
    try:
        ip_address(host)
    except ValueError:
        message = f"wanted an address, localhost or a host of --http-host, got {host}"
        hint = f"start the run with --http-host {host} to answer under that name"
        raise RequestError(421, "wrong_host", message, hint) from None


def parse_body(head: RequestHead, data: bytes) -> Mapping[str, object]:
    """Parse the JSON object of a body; an empty body is an empty object. Raises RequestError.

    >>> head = RequestHead("POST", "/v1/stop", {}, {"content-type": "application/json"}, 15)
    >>> parse_body(head, b'{"drain": true}')
    {'drain': True}
    """
    if not data:
        return {}
    if head.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        hint = f"send the header Content-Type: {JSON_TYPE}"
        raise RequestError(415, "not_json", f"wanted a body of {JSON_TYPE}", hint)
    try:
        document = orjson.loads(data)
    except ValueError as error:
        raise _malformed_error(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise _malformed_error("wanted an object as the body")
    return document


def make_response(status: int, document: object) -> Response:
    """Build an answer from a document."""
    data = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z)
    return Response(status, data)


class CodedError(Protocol):
    """An error of a request, or of what it has begun."""

    @property
    def code(self) -> str:
        """The kind of error, for programs."""

    @property
    def message(self) -> str:
        """The error in words."""

    @property
    def hint(self) -> str:
        """A hint, perhaps empty."""


def describe_error(error: CodedError) -> dict[str, str]:
    """Return an error as plain data."""
    return {"code": error.code, "message": error.message, "hint": error.hint}


def make_error_response(bad: RequestError, headers: Mapping[str, str] | None = None) -> Response:
    """Build an answer from an error."""
    response = make_response(bad.status, {"error": describe_error(bad)})
    return Response(response.status, response.body, headers=headers or {})


def encode_response(response: Response, *, with_body: bool = True) -> bytes:
    """Encode an answer, after which the connection is closed."""
    lines = [
        f"HTTP/1.1 {response.status} {REASON_PHRASES[response.status]}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        *(f"{name}: {value}" for name, value in response.headers.items()),
        "Cache-Control: no-store",
        "Connection: close",
    ]
    head = "\r\n".join(lines).encode("ascii") + END_OF_HEAD
    return head + response.body if with_body else head


def encode_stream_head(response: StreamedResponse) -> bytes:
    """Encode the head of a streamed answer, which ends with its connection."""
    lines = (
        "HTTP/1.1 200 OK",
        f"Content-Type: {response.content_type}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return "\r\n".join(lines).encode("ascii") + END_OF_HEAD


def _malformed_error(message: str) -> RequestError:
    return RequestError(400, "malformed", message)
