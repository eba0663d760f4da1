"""The head of a source's subtask: chunks become rows with their event time, or are told as bad."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core import dead_letters
from headrace.core.contracts import Chunk, ConnectorError, Reading
from headrace.core.elements import EVENT_TIME, FOREVER_US, End, Watermark
from headrace.core.plan import nodes
from headrace.core.task import Flow

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class Intake:
    """Reads one source's splits into a flow; counts what it read and what was bad."""

    source: nodes.Source
    flow: Flow
    now_us: Callable[[], int]
    rows_in: int = 0
    bad: int = 0

    async def pump(self, reading: Reading, stop: asyncio.Event) -> None:
        """Read to the end, or until somebody asks to stop; then say that nothing comes any more."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while (chunk := await _unless(stopping, reading)) is not None:
                await self._take(chunk)
        finally:
            stopping.cancel()
            await reading.close()
        await self.flow.mark(Watermark(FOREVER_US))
        await self.flow.mark(End())

    async def _take(self, chunk: Chunk) -> None:
        self.rows_in += chunk.frame.height
        if chunk.bad:
            await self._bad(chunk)
        if chunk.frame.height:
            await self.flow.rows(self.source.name, self._timed(chunk.frame))

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


async def _unless(stopping: asyncio.Task[object], reading: Reading) -> Chunk | None:
    """The next chunk, or None when somebody asks to stop first."""
    if stopping.done():
        return None
    getting = asyncio.ensure_future(reading.next())
    try:
        await asyncio.wait((getting, stopping), return_when=asyncio.FIRST_COMPLETED)
        return getting.result() if getting.done() else None
    finally:
        if not getting.done():
            getting.cancel()
            await asyncio.wait([getting])


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
