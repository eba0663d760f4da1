"""Forwarding of requests to the jobs' own sockets, on the server's event loop."""

from __future__ import annotations

import asyncio
import http.client
import io
from typing import Any

import orjson

from headrace.cli.control import job_socket
from headrace.cli.control.http_messages import JSON_TYPE, RequestError, Response

ANSWER_TIMEOUT_S = 70.0
"""The time that a job may take to answer; a client may wait 60 seconds for an operation."""

CONNECT_TIMEOUT_S = 2.0
MAX_ANSWER = 64 * 2**20
READ_BYTES = 2**16


async def forward_request(
    folder: str, method: str, target: str, body: dict[str, Any] | None = None
) -> Response:
    """Send a request to the job of a home, and return its answer. Raises RequestError."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await _exchange(folder, method, target, body)
    except (FileNotFoundError, ConnectionRefusedError):
        raise RequestError(409, "not_running", "the job is not running") from None
    except (OSError, TimeoutError, http.client.HTTPException) as error:
        why = str(error) or "it takes too long"
        hint = "a slow user function may be blocking it"
        raise RequestError(503, "silent", f"the job does not answer: {why}", hint) from None


async def _exchange(folder: str, method: str, target: str, body: dict[str, Any] | None) -> Response:
    connection = job_socket.connect_to_job(folder, CONNECT_TIMEOUT_S)
    connection.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    try:
        data = b"" if body is None else orjson.dumps(body)
        head = f"{method} {target} HTTP/1.1\r\nHost: job\r\nContent-Type: {JSON_TYPE}\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode("ascii") + data)
        await writer.drain()
        received = bytearray()
        while piece := await reader.read(READ_BYTES):
            received += piece
            if len(received) > MAX_ANSWER:
                raise OSError(f"its answer has more than {MAX_ANSWER} bytes")
        return _parse_response(bytes(received))
    finally:
        writer.close()


class _ReceivedBytes(io.BytesIO):
    """Received bytes, as the standard library's parser expects them."""

    def makefile(self, mode: str) -> _ReceivedBytes:
        return self


def _parse_response(data: bytes) -> Response:
    """Parse a complete answer. Raises HTTPException."""
    response: Any = http.client.HTTPResponse(_ReceivedBytes(data))  # type: ignore[arg-type]
    response.begin()
    kind = response.getheader("Content-Type", JSON_TYPE)
    return Response(response.status, response.read(), kind)
