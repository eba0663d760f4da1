"""The head of a source's subtask: chunks become rows with their event time, or are told as bad."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from headrace.core import dead_letters
from headrace.core.blame import blamed
from headrace.core.channel import Bounds
from headrace.core.contracts import Chunk, ConnectorError, Reading
from headrace.core.elements import EVENT_TIME, FOREVER_US, End, Watermark
from headrace.core.plan import nodes
from headrace.core.task import Flow

if TYPE_CHECKING:
    import polars as pl

GATHERING_S = 0.001
"""Rows that are there wait so long at most while others that are there too are taken to them."""


@dataclass(slots=True)
class Intake:
    """Reads one source's splits into a flow; counts what it read and what was bad.

    Chunks of few rows that are there at once go on as one batch: a source that is ahead must not be
    slowed down by how little it gives at a time. With `linger_s`, they wait so long for more.
    """

    source: nodes.Source
    flow: Flow
    now_us: Callable[[], int]
    bounds: Bounds = field(default_factory=Bounds)
    rows_in: int = 0
    bad: int = 0
    _kept: list[pl.DataFrame] = field(default_factory=list)
    _kept_rows: int = 0

    async def pump(self, reading: Reading, stop: asyncio.Event) -> None:
        """Read to the end, or until somebody asks to stop; then say that nothing comes any more."""
        arrivals = Arrivals(reading, asyncio.create_task(stop.wait()))
        try:
            while (chunk := await self._next(arrivals)) is not None:
                await self._take(chunk)
                await self._gather(arrivals)
        finally:
            await arrivals.close()
            await reading.close()
        await self.flow.mark(Watermark(FOREVER_US))
        await self.flow.mark(End())

    async def _gather(self, arrivals: Arrivals) -> None:
        """Take what is there, or comes in time, to the rows that are kept; then send them."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.bounds.linger_s
        enough = max(until, loop.time() + GATHERING_S)
        while 0 < self._kept_rows < self.bounds.rows and loop.time() <= enough:
            if not await arrivals.comes_before(until):
                break
            chunk = await self._next(arrivals)
            if chunk is None:
                break
            await self._take(chunk)
        await self._send()

    async def _next(self, arrivals: Arrivals) -> Chunk | None:
        with blamed(self.source.name):
            return await arrivals.next()

    async def _take(self, chunk: Chunk) -> None:
        self.rows_in += chunk.frame.height
        if chunk.bad:
            with blamed(self.source.name):
                await self._bad(chunk)
        if chunk.frame.height:
            self._kept.append(chunk.frame)
            self._kept_rows += chunk.frame.height

    async def _send(self) -> None:
        import polars as pl

        frames, self._kept, self._kept_rows = self._kept, [], 0
        if frames:
            frame = frames[0] if len(frames) == 1 else pl.concat(frames, rechunk=True)
            await self.flow.rows(self.source.name, self._timed(frame))

    def _timed(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self.source.event_time is None:
            return frame
        return frame.with_columns(frame[self.source.event_time].alias(EVENT_TIME))

    async def _bad(self, chunk: Chunk) -> None:
        first = chunk.bad[0]
        if self.source.on_error == "fail":
            raise ConnectorError(
                f"bad record: {first.error}: {_shortened(first.raw)}",
                "on_error: skip leaves such records out, on_error: {to: NAME} collects them",
                split=chunk.split.name,
                position=first.position,
            )
        self.bad += len(chunk.bad)
        if self.source.on_error != "skip":
            letters = dead_letters.of_records(
                self.source.name, chunk.split, chunk.bad, self.now_us()
            )
            await self.flow.side(self.source.on_error, letters)


class Arrivals:
    """The chunks of a reading, until somebody asks to stop.

    Waiting for one can be given up and taken up again: what is being read meanwhile is not lost.
    """

    def __init__(self, reading: Reading, stopping: asyncio.Task[Literal[True]]) -> None:
        self._reading = reading
        self._stopping = stopping
        self._getting: asyncio.Task[Chunk | None] | None = None
        self._ended = False

    async def next(self) -> Chunk | None:
        """The next chunk, or None at the end and when somebody asks to stop first."""
        if self._ended or not await self.comes_before(None):
            return None
        assert self._getting is not None
        getting, self._getting = self._getting, None
        chunk = getting.result()
        self._ended = chunk is None
        return chunk

    async def comes_before(self, until: float | None) -> bool:
        """Whether a chunk (or the end) is there before this time of the loop, and before a stop."""
        if self._stopping.done() or self._ended:
            return False
        loop = asyncio.get_running_loop()
        if self._getting is None:
            self._getting = loop.create_task(_next(self._reading))
        left_s = None if until is None else max(0.0, until - loop.time())
        either = (self._getting, self._stopping)
        await asyncio.wait(either, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        return self._getting.done()

    async def close(self) -> None:
        """Give up whatever is awaited."""
        self._stopping.cancel()
        if self._getting is not None:
            self._getting.cancel()
            await asyncio.gather(self._getting, return_exceptions=True)


async def _next(reading: Reading) -> Chunk | None:
    return await reading.next()


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
