"""Requests to the jobs' own sockets, on the server's event loop: whole answers, and streams."""

from __future__ import annotations

import asyncio
import http.client
import io
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from headrace.cli.control import job_socket
from headrace.cli.control.event_parser import EventParser
from headrace.cli.control.http_messages import END_OF_HEAD, JSON_TYPE, RequestError, Response
from headrace.core.types.lazy_dataclass import dataclass

ANSWER_TIMEOUT_S = 70.0
"""The time that a job may take to answer; a client may wait 60 seconds for an operation."""

SILENCE_TIMEOUT_S = 60.0
"""The time after which a stream without even a comment has ended; a job sends one in 15 seconds."""

CONNECT_TIMEOUT_S = 2.0
MAX_ANSWER = 64 * 2**20
MAX_EVENT = 16 * 2**20
READ_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class _OpenAnswer:
    """An answer whose body has not been read."""

    status: int
    content_type: str
    length: int | None
    """The length of the body; None: it ends with the connection."""
    body: asyncio.StreamReader

    async def read(self) -> Response:
        """Read the body. Raises OSError if it is too large, or incomplete."""
        received = bytearray()
        while piece := await self.body.read(READ_BYTES):
            received += piece
            if len(received) > MAX_ANSWER:
                raise OSError(f"its answer has more than {MAX_ANSWER} bytes")
        if self.length not in (None, len(received)):
            raise OSError("its answer has been cut off")
        return Response(self.status, bytes(received), self.content_type)


async def forward_request(
    folder: str, method: str, target: str, body: dict[str, Any] | None = None
) -> Response:
    """Send a request to the job of a home, and return its answer. Raises RequestError."""
    async with _open_answer(folder, method, target, body) as answer:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await answer.read()


async def stream_events(
    folder: str, target: str, body: dict[str, Any]
) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    """Yield the kind and the data of each event of a job's stream. Raises RequestError."""
    async with _open_answer(folder, "POST", target, body) as answer:
        if answer.status != 200:
            error = orjson.loads((await answer.read()).body)["error"]
            raise RequestError(answer.status, error["code"], error["message"], error["hint"])
        parser = EventParser()
        while line := await _read_line(answer.body):
            if (event := parser.feed(line)) is not None:
                yield event


async def _read_line(body: asyncio.StreamReader) -> bytes:
    """Read a line; empty at the end. Raises TimeoutError, OSError."""
    async with asyncio.timeout(SILENCE_TIMEOUT_S):
        try:
            return await body.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return b""
        except asyncio.LimitOverrunError:
            raise OSError(f"an event has more than {MAX_EVENT} bytes") from None


@asynccontextmanager
async def _open_answer(
    folder: str, method: str, target: str, body: dict[str, Any] | None
) -> AsyncIterator[_OpenAnswer]:
    """Send a request, and open its answer. Raises RequestError, also for errors in the body."""
    try:
        connection = job_socket.connect_to_job(folder, CONNECT_TIMEOUT_S)
        connection.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_EVENT)
        try:
            data = b"" if body is None else orjson.dumps(body)
            head = f"{method} {target} HTTP/1.1\r\nHost: job\r\nContent-Type: {JSON_TYPE}\r\n"
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode("ascii") + data)
            await writer.drain()
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer_head = await reader.readuntil(END_OF_HEAD)
            yield _OpenAnswer(*_parse_head(answer_head), reader)
        finally:
            writer.close()
    except (FileNotFoundError, ConnectionRefusedError):
        raise RequestError(409, "not_running", "the job is not running") from None
    except (OSError, EOFError, TimeoutError, http.client.HTTPException) as error:
        why = str(error) or "it takes too long"
        hint = "a slow user function may be blocking it"
        raise RequestError(503, "silent", f"the job does not answer: {why}", hint) from None


class _ReceivedBytes(io.BytesIO):
    """Received bytes, as the standard library's parser expects them."""

    def makefile(self, mode: str) -> _ReceivedBytes:
        return self


def _parse_head(data: bytes) -> tuple[int, str, int | None]:
    """Parse the status, the type and the length of an answer. Raises HTTPException."""
    response: Any = http.client.HTTPResponse(_ReceivedBytes(data))  # type: ignore[arg-type]
    response.begin()
    return response.status, response.getheader("Content-Type", JSON_TYPE), response.length
