"""A synchronous reader as something to wait for: its chunks are made in a thread, one ahead.

The splits of a subtask are read in turn, a chunk of each: none of them waits for another's end. The
next chunk is made while the last one is being worked on, also from one split to the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

from headrace.core.contracts import Arrival, Chunk, Ended, Reader, Surroundings
from headrace.core.messages import Position, Split


class Threaded:
    """`Reading` over a `Reader`. With `in_order`, a split is read to its end before the next."""

    def __init__(
        self, reader: Reader, surroundings: Surroundings, *, in_order: bool = False
    ) -> None:
        self._reader = reader
        self._bench = surroundings.bench
        self._in_order = in_order
        self._last = False
        self._open: deque[tuple[Split, Iterator[Chunk]]] = deque()
        self._made: deque[Arrival] = deque()
        self._making: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read these behind the others."""
        self._open.extend((split, self._reader.read(split, at)) for split, at in splits)
        self._last = last
        self._changed.set()

    async def next(self) -> Arrival | None:
        """What was made ahead; what comes after it is begun."""
        while True:
            arrival = self._made.popleft() if self._made else None
            self._go_on()
            if arrival is not None:
                return arrival
            if self._making is None and self._last:
                return None
            await self._changed.wait()
            self._changed.clear()

    def _go_on(self) -> None:
        """Begin the next chunk, unless one is waiting or being made; raise why it failed."""
        if self._made:
            return
        if self._making is not None and self._making.done():
            making, self._making = self._making, None
            making.result()
        if self._making is None and self._open:
            self._making = asyncio.create_task(self._make())
            self._making.add_done_callback(lambda _: self._changed.set())

    async def _make(self) -> None:
        """The next chunk, and before it the ends of splits that have no more."""
        while self._open:
            split, chunks = self._open[0]
            chunk: Chunk | None = await self._bench.blocking(partial(next, chunks, None))
            if chunk is not None:
                self._made.append(chunk)
                if not self._in_order:
                    self._open.rotate(-1)
                return
            self._open.popleft()
            self._made.append(Ended(split))

    async def close(self) -> None:
        """Wait for the thread, and close what readers have open."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
        for _, chunks in self._open:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        self._open.clear()
