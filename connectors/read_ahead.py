"""Reading that begins before the job that reads is built.

While the job of a query is built, a processor is idle. Meanwhile a thread makes
the first chunks of a split. The reader of the job takes them, and continues after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

from headrace.core.api.sources import Chunk, RecordReader
from headrace.core.api.splits import Position, Split

CHUNKS = 3
"""The most chunks that wait for the job."""


class ReadAhead:
    """The first chunks of a split, made in a thread from now on."""

    def __init__(self, reader: RecordReader, split: Split) -> None:
        self.reader, self.split = reader, split
        self._chunks = reader.read(split, None)
        executor = ThreadPoolExecutor(1, thread_name_prefix="headrace-read-ahead")
        self._futures = [executor.submit(next, self._chunks, None) for _ in range(CHUNKS)]
        executor.shutdown(wait=False)

    def read(self, split: Split) -> Iterator[Chunk]:
        """Yield all chunks of the split; an error is raised where it came."""
        try:
            while self._futures:
                # Not held while the consumer has it: its memory is freed for the next one.
                chunk = self._futures.pop(0).result()
                if chunk is None:
                    return
                yield replace(chunk, split=split)
                del chunk
            for chunk in self._chunks:
                yield replace(chunk, split=split)
                del chunk
        finally:
            self.close()

    def close(self) -> None:
        """End the thread, and close the files that are open."""
        for future in self._futures:
            future.cancel()
        wait(self._futures)
        self._futures = []
        self._chunks.close()  # type: ignore[attr-defined]


class ReadAheadReader:
    """A `RecordReader` that continues a read-ahead where its split is read from the start."""

    def __init__(self, reader: RecordReader, read_ahead: ReadAhead) -> None:
        self._reader = reader
        self._read_ahead: ReadAhead | None = read_ahead

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """Yield the chunks in order."""
        read_ahead = self._read_ahead
        if read_ahead is None or split != read_ahead.split or position is not None:
            return self._reader.read(split, position)
        self._read_ahead = None
        return read_ahead.read(split)
