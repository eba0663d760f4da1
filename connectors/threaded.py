"""A synchronous reader as something to wait for: its chunks are made in a thread, one ahead.

The splits of a subtask are read in turn, a chunk of each: none of them waits for another's end. The
next chunk is made while the last one is being worked on, also from one split to the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from headrace.core.contracts import Arrival, Chunk, Ended, Reader, Surroundings
from headrace.core.messages import Position, Split
from headrace.core.waiting import Waiting


class Threaded:
    """`Reading` over a `Reader`. With `in_order`, a split is read to its end before the next."""

    def __init__(
        self, reader: Reader, surroundings: Surroundings, *, in_order: bool = False
    ) -> None:
        self._reader = reader
        self._bench = surroundings.bench
        self._in_order = in_order
        self._last = False
        self._held: Collection[Split] = ()
        self._open: deque[tuple[Split, Iterator[Chunk]]] = deque()
        self._made: deque[Arrival] = deque()
        self._making: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._working = Waiting()

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Read these behind the others."""
        self._open.extend((split, self._reader.read(split, at)) for split, at in splits)
        self._last = last
        self._changed.set()

    def hold(self, splits: Collection[Split]) -> None:
        """Give nothing of these; what was made ahead of them waits."""
        self._held = splits
        self._changed.set()

    def exhausted(self) -> Mapping[Split, float]:
        """None: a reader has more to give until its end."""
        return {}

    def lags(self) -> Mapping[Split, int]:
        """A reader does not count before it reads."""
        return {}

    def worked_s(self) -> float:
        """How long the reader has worked in its thread, or was waited for to get one."""
        return self._working.seconds

    async def next(self) -> Arrival | None:
        """What was made ahead; what comes after it is begun."""
        while True:
            arrival = self._given()
            self._go_on()
            if arrival is not None:
                return arrival
            if self._last and not self._made and not self._open and self._making is None:
                return None
            await self._changed.wait()
            self._changed.clear()

    def _given(self) -> Arrival | None:
        """The first that was made and is not held."""
        for at, arrival in enumerate(self._made):
            if arrival.split not in self._held:
                del self._made[at]
                return arrival
        return None

    def _go_on(self) -> None:
        """Begin the next chunk, unless one waits to be given or is being made already.

        Raises what went wrong with the last.
        """
        if self._making is not None and self._making.done():
            making, self._making = self._making, None
            making.result()
        if self._making is not None or any(a.split not in self._held for a in self._made):
            return
        if self._choose():
            self._making = asyncio.create_task(self._make())
            self._making.add_done_callback(lambda _: self._changed.set())

    def _choose(self) -> bool:
        """Bring the next split that may be read to the front; whether there is one."""
        for _ in range(len(self._open)):
            if self._open[0][0] not in self._held:
                return True
            if self._in_order:
                return False
            self._open.rotate(-1)
        return False

    async def _make(self) -> None:
        """The next chunk, and before it the ends of splits that have no more."""
        while self._choose():
            split, chunks = self._open[0]
            with self._working:
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
