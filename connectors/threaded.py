"""A synchronous reader as something to wait for: its chunks are made in a thread, one ahead.

The splits of a subtask are read in turn, a chunk of each: none of them waits for another's end. The
next chunk is made while the last one is being worked on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

from headrace.core.contracts import Chunk, Reader, Surroundings
from headrace.core.messages import Position, Split


class Threaded:
    """`Reading` over a `Reader`. With `in_order`, a split is read to its end before the next."""

    def __init__(
        self,
        reader: Reader,
        assigned: Sequence[tuple[Split, Position]],
        surroundings: Surroundings,
        *,
        in_order: bool = False,
    ) -> None:
        self._bench = surroundings.bench
        self._open: deque[Iterator[Chunk]] = deque(
            reader.read(split, position) for split, position in assigned
        )
        self._in_order = in_order
        self._ahead: asyncio.Task[Chunk | None] | None = None

    async def next(self) -> Chunk | None:
        """The chunk that was made ahead; the one after it is begun."""
        if self._ahead is None:
            self._ahead = asyncio.create_task(self._make())
        chunk: Chunk | None = await asyncio.shield(self._ahead)
        self._ahead = asyncio.create_task(self._make()) if chunk is not None else None
        return chunk

    async def _make(self) -> Chunk | None:
        while self._open:
            chunk: Chunk | None = await self._bench.blocking(partial(next, self._open[0], None))
            if chunk is None:
                self._open.popleft()
                continue
            if not self._in_order:
                self._open.rotate(-1)
            return chunk
        return None

    async def close(self) -> None:
        """Wait for the thread, and close what readers have open."""
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.gather(self._ahead, return_exceptions=True)
        for chunks in self._open:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        self._open.clear()
