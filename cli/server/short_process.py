"""Short processes that answer one request, so that the server need not load Polars.

The process runs a module of its own, reads the request from standard input, and prints the answer.
It runs with -P: Python files in the server's working directory must not take the place of modules.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import field

import orjson

from headrace.core.types.lazy_dataclass import dataclass

READ_BYTES = 2**16
MAX_ERROR_TEXT = 2**14


class AnswerTooLarge(Exception):
    """The answer of a process has more bytes than are read."""


@dataclass(frozen=True, slots=True)
class ProcessAnswer:
    """The answer of a process that has ended."""

    status: int
    output: bytes
    failure: str
    """The last line of its standard error, or else its exit status."""


@dataclass(slots=True)
class ShortProcess:
    """The processes of a module: one at a time, as each takes a core and the memory of Polars."""

    module: str
    max_answer: int
    """The largest answer in bytes; a process that prints more is killed."""
    timeout_s: float | None = None
    waiting: int = 0
    """The requests that wait for the process of another one to end."""
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    async def ask(self, request: object) -> ProcessAnswer:
        """Return the answer to a request. Raises AnswerTooLarge, TimeoutError."""
        self.waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self.waiting -= 1
        try:
            return await self._run(orjson.dumps(request))
        finally:
            self._turn.release()

    async def _run(self, request: bytes) -> ProcessAnswer:
        command, pipe = (sys.executable, "-P", "-m", self.module), asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe
        )
        assert process.stdin and process.stdout and process.stderr
        errors = asyncio.create_task(_read_tail(process.stderr))
        try:
            async with asyncio.timeout(self.timeout_s):
                process.stdin.write(request)
                process.stdin.close()
                output = await _read_answer(process.stdout, self.max_answer)
                status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            await _read_tail(process.stdout)  # a full pipe would never be closed
            error_text = await errors
            await process.wait()
        lines = error_text.decode("utf-8", "replace").strip().splitlines()
        failure = lines[-1] if lines else f"it ended with {status}"
        return ProcessAnswer(status, output, failure)


async def _read_answer(stream: asyncio.StreamReader, max_bytes: int) -> bytes:
    """Read to the end. Raises AnswerTooLarge."""
    received = bytearray()
    while piece := await stream.read(READ_BYTES):
        received += piece
        if len(received) > max_bytes:
            raise AnswerTooLarge(f"the answer has more than {max_bytes:,} bytes")
    return bytes(received)


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    """Read to the end, and return the last bytes."""
    tail = b""
    while piece := await stream.read(READ_BYTES):
        tail = (tail + piece)[-MAX_ERROR_TEXT:]
    return tail
