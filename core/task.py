"""One subtask as one asyncio task: elements in, operators, elements out.

A subtask runs the parts of its plan task in a row: a source's reading or a gate at the head, then
operators, then a sink's writer or outlets at the foot. Rows pass from part to part as calls; only
the head and the foot wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from headrace.core.alignment import BEGINNING_US
from headrace.core.bench import Bench, Pace
from headrace.core.blame import blamed
from headrace.core.contracts import Writer
from headrace.core.elements import Barrier, Batch, Element, End, Mark, Watermark
from headrace.core.frames import compacted
from headrace.core.freezing import Freezer
from headrace.core.gate import Gate
from headrace.core.messages import Handle, Progress, Snapshot, Split
from headrace.core.operators.operator import ASIDE, Chain, Output
from headrace.core.outlets import Outlet
from headrace.core.state import Document
from headrace.core.waiting import Waiting

if TYPE_CHECKING:
    import polars as pl


FEW_OF = 4
"""Rows of which fewer than one in so many are left are copied, to let go of the others."""


@dataclass(slots=True)
class Foot:
    """What the rows that leave a subtask's operators go into."""

    outlets: Mapping[str, Sequence[Outlet]]
    writer: Writer | None
    writes: str = ""
    """The stream that the writer takes."""
    sink: str = ""
    """Whose writer it is."""
    rows_out: dict[str, int] = field(default_factory=dict)
    writing: Waiting = field(default_factory=Waiting)
    """How long the parts before the sink were made to wait for its writer."""

    async def rows(self, stream: str, frame: pl.DataFrame) -> None:
        """Hand rows of a stream on."""
        self.rows_out[stream] = self.rows_out.get(stream, 0) + frame.height
        if self.writer is not None and stream == self.writes:
            with blamed(self.sink), self.writing:
                await self.writer.write(frame)
        for outlet in self.outlets.get(stream, ()):
            await outlet.rows(frame)

    async def mark(self, mark: Mark) -> None:
        """Hand a mark on, behind all rows before it."""
        for outlets in self.outlets.values():
            for outlet in outlets:
                await outlet.mark(mark)

    async def prepared(self) -> Handle | None:
        """What a commit of all that was written needs."""
        if self.writer is None:
            return None
        with blamed(self.sink):
            return await self.writer.prepare()

    def kept(self) -> Document | None:
        """What the writer of the next attempt begins with."""
        return None if self.writer is None else self.writer.kept()


@dataclass(slots=True)
class Flow:
    """The operators of a subtask and its foot: what its head puts rows and marks into."""

    chain: Chain | None
    foot: Foot
    bench: Bench
    rows_in: int = 0
    watermark_us: int | None = None
    """How far event time has come, once it has come anywhere."""
    freezer: Freezer | None = None
    """What barriers are for; without one, none come."""
    counts: Callable[[], Document] = dict
    """What has gone through the subtask."""
    life: Waiting = field(default_factory=Waiting)
    """How long the subtask has run."""
    standing: Waiting = field(default_factory=Waiting)
    """How long it has stood still at barriers."""
    _clock_us: int = BEGINNING_US
    _by_rows: Pace = field(default_factory=Pace)
    _by_time: Pace = field(default_factory=Pace)

    async def rows(self, stream: str, frame: pl.DataFrame, side: int = 0) -> None:
        """Rows of a stream that the first operator reads, on one of its sides."""
        self.rows_in += frame.height
        await self.onward(stream, frame, side)

    async def onward(self, stream: str, frame: pl.DataFrame, side: int = 0) -> None:
        """The same of rows that were counted when they came to the subtask."""
        if self.chain is None:
            await self.foot.rows(stream, frame)
        else:
            await self._drain(self._by_rows, frame.height, self.chain.process(frame, side))

    async def side(self, stream: str, frame: pl.DataFrame) -> None:
        """Rows of another stream, which no operator of this subtask reads."""
        await self.foot.rows(stream, frame)

    async def mark(self, mark: Mark) -> None:
        """A mark: what a watermark triggers goes out before it does.

        Operators hear of a watermark once; one that comes again says that idleness has ended.
        """
        match mark:
            case Barrier():
                await self.barrier(mark)
                return
            case Watermark(at_us):
                if at_us > self._clock_us:
                    await self._advance(at_us)
                mark = Watermark(BEGINNING_US if self.watermark_us is None else self.watermark_us)
        await self.foot.mark(mark)

    async def barrier(
        self, barrier: Barrier, splits: Mapping[Split, Progress] | None = None
    ) -> None:
        """A checkpoint: all that rows before this have come to is kept, while others go on."""
        freezer = self.freezer
        assert freezer is not None, barrier
        with self.standing:
            await freezer.ready()
            await self.settle()
            frozen = freezer.freeze()
            snapshot = await self.snapshot(splits)
            await self.foot.mark(barrier)
            freezer.keep(barrier.checkpoint, frozen, snapshot)

    async def settle(self) -> None:
        """Have all that operators remember in their states."""
        if self.chain is not None:
            await self.bench.run(self.chain.held, self.chain.settle)

    async def snapshot(self, splits: Mapping[Split, Progress] | None = None) -> Snapshot:
        """What the subtask is now, but for its states: all that was written is prepared."""
        counts = self.counts()
        handle = await self.foot.prepared()
        return Snapshot(splits or {}, {}, counts, handle, self.foot.kept())

    async def _advance(self, at_us: int) -> None:
        self._clock_us = at_us
        if self.chain is not None:
            await self._drain(self._by_time, self.chain.held, self.chain.advance(at_us))
            at_us = self.chain.handed_on(at_us)
        self.watermark_us = at_us

    def due_us(self) -> int | None:
        """When, by the wall clock, the operators want to be told of the time."""
        return None if self.chain is None else self.chain.due_us()

    async def tick(self, now_us: int) -> None:
        """The wall clock has come this far."""
        if self.chain is not None:
            await self._drain(self._by_time, self.chain.held, self.chain.tick(now_us))

    async def _drain(self, pace: Pace, rows: int, outputs: Iterator[Output]) -> None:
        """Pull an operator's answer piece by piece: never more than one piece is in memory."""
        pull = partial(self._pull, rows, outputs)
        longest_s, is_long, was_told = 0.0, pace.is_long(rows), False
        while True:
            output, took_s = await self.bench.blocking(pull) if is_long else pull()
            longest_s = max(longest_s, took_s)
            if output is None:
                break
            if output[0] == ASIDE:
                is_long = was_told = True
            else:
                await self.foot.rows(*output)
        if not was_told:  # else it took long because of other rows
            pace.learn(rows, longest_s)

    def _pull(self, rows: int, outputs: Iterator[Output]) -> tuple[Output | None, float]:
        """The next piece, without memory of rows that did not pass; and how long it took."""
        start = perf_counter()
        output = next(outputs, None)
        if output is not None and output[0] in self.foot.outlets:
            stream, frame = output
            output = stream, compacted(frame) if frame.height * FEW_OF < rows else frame
        return output, perf_counter() - start


async def relay(
    gate: Gate, inputs: Sequence[tuple[str, int]], flow: Flow, now_us: Callable[[], int]
) -> None:
    """The life of a subtask behind a gate; `inputs` has the stream and the side of each input."""
    with flow.life:
        while True:
            at, element = await _next(gate, flow, now_us)
            match element:
                case Batch(frame):
                    await flow.rows(inputs[at][0], frame, inputs[at][1])
                case End():
                    await flow.mark(element)
                    return
                case _:
                    await flow.mark(element)


async def _next(gate: Gate, flow: Flow, now_us: Callable[[], int]) -> tuple[int, Element]:
    """The next element; operators that wait for the wall clock are told of it in time."""
    while (due_us := flow.due_us()) is not None:
        left_us = due_us - now_us()
        if left_us > 0:
            try:
                async with asyncio.timeout(left_us / 1e6):
                    return await gate.get()
            except TimeoutError:
                pass
        await flow.tick(max(due_us, now_us()))
    return await gate.get()
