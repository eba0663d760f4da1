"""Reading from a pipe or a terminal: bytes are buffered until they are requested.

A single line is therefore handed on at once, and under load the buffered bytes make a large
block. The event loop waits, not a thread, so a source that waits for input can be stopped.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial

from headrace.core.bench import KernelExecutor

READ_BYTES = 1 << 18


class PipeReader:
    """Reads a file descriptor and leaves it open at the end: it belongs to the process."""

    def __init__(self, descriptor: int, most: int, bench: KernelExecutor) -> None:
        self._descriptor = descriptor
        self._most = most
        self._bench = bench
        self._waits = True
        self._gathered = bytearray()
        self._ended = False
        self._failed: OSError | None = None
        self._listening = False
        self._something = asyncio.Event()

    async def read(self) -> bytes:
        """Return the buffered bytes, waiting for at least one; no bytes mean the end of input."""
        if not self._gathered:
            self._start_listening()
            if not self._waits:
                return await self._bench.run_blocking(
                    partial(os.read, self._descriptor, self._most)
                )
            await self._something.wait()
        if self._failed and not self._gathered:
            raise self._failed
        data = bytes(self._gathered)
        self._gathered.clear()
        if not self._ended:
            self._something.clear()
            self._start_listening()
        return data

    def close(self) -> None:
        """Stop buffering input."""
        if self._listening:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._listening = False

    def _start_listening(self) -> None:
        if self._waits and not self._listening and not self._ended:
            try:
                asyncio.get_running_loop().add_reader(self._descriptor, self._on_readable)
            except PermissionError:
                # A regular file or /dev/null: the event loop cannot wait for it.
                self._waits = False
            else:
                self._listening = True

    def _on_readable(self) -> None:
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            data, self._failed = b"", error
        self._gathered += data
        self._ended = not data
        if self._ended or len(self._gathered) >= self._most:
            self.close()
        self._something.set()
