"""One subtask as one asyncio task: it takes elements, runs operators, and emits elements.

A subtask runs the parts of its plan task as a chain: the input is a source's reader or a gate, then
come operators, and the output is a sink's writer or output edges. Rows pass between parts by calls;
only the input and the output wait.
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
"""A result with fewer than one in this number of the input rows is copied, so that the memory of
the others is released."""


@dataclass(slots=True)
class Foot:
    """The output of a subtask: the edges of each stream, and the writer of a sink, if any."""

    outlets: Mapping[str, Sequence[Outlet]]
    writer: Writer | None
    writes: str = ""
    """The stream that the writer takes."""
    sink: str = ""
    """The name of the writer's sink."""
    rows_out: dict[str, int] = field(default_factory=dict)
    writing: Waiting = field(default_factory=Waiting)
    """The time in which the parts before the sink waited for its writer."""

    async def rows(self, stream: str, frame: pl.DataFrame) -> None:
        """Send rows of a stream to its writer and edges."""
        self.rows_out[stream] = self.rows_out.get(stream, 0) + frame.height
        if self.writer is not None and stream == self.writes:
            with blamed(self.sink), self.writing:
                await self.writer.write(frame)
        for outlet in self.outlets.get(stream, ()):
            await outlet.rows(frame)

    async def mark(self, mark: Mark) -> None:
        """Send a control element on all edges, after all rows before it."""
        for outlets in self.outlets.values():
            for outlet in outlets:
                await outlet.mark(mark)

    async def prepared(self) -> Handle | None:
        """Prepare the written rows, and return the handle to commit them, if there is any."""
        if self.writer is None:
            return None
        with blamed(self.sink):
            return await self.writer.prepare()

    def kept(self) -> Document | None:
        """Return the state that the writers of the next attempt start with."""
        return None if self.writer is None else self.writer.kept()


@dataclass(slots=True)
class Flow:
    """The operators and the output of a subtask; its input passes elements here."""

    chain: Chain | None
    foot: Foot
    bench: Bench
    rows_in: int = 0
    watermark_us: int | None = None
    """The watermark sent last; None: none yet."""
    freezer: Freezer | None = None
    """Takes the snapshots at barriers; None: the job takes no checkpoints."""
    counts: Callable[[], Document] = dict
    """Returns the counters of the subtask for its snapshot."""
    life: Waiting = field(default_factory=Waiting)
    """The time for which the subtask has run."""
    standing: Waiting = field(default_factory=Waiting)
    """The time for which barriers have blocked the subtask."""
    _clock_us: int = BEGINNING_US
    _by_rows: Pace = field(default_factory=Pace)
    _by_time: Pace = field(default_factory=Pace)

    async def rows(self, stream: str, frame: pl.DataFrame, side: int = 0) -> None:
        """Process rows of the stream that the first operator reads, on one of its sides."""
        self.rows_in += frame.height
        await self.onward(stream, frame, side)

    async def onward(self, stream: str, frame: pl.DataFrame, side: int = 0) -> None:
        """Process rows that were counted before, when they reached the subtask."""
        if self.chain is None:
            await self.foot.rows(stream, frame)
        else:
            await self._drain(self._by_rows, frame.height, self.chain.process(frame, side))

    async def side(self, stream: str, frame: pl.DataFrame) -> None:
        """Emit rows of another stream, which no operator of this subtask reads."""
        await self.foot.rows(stream, frame)

    async def mark(self, mark: Mark) -> None:
        """Process a control element; rows that a watermark triggers are emitted before it.

        Operators receive each watermark once; a repeated one only ends idleness.
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
        """Take a snapshot of the effect of all rows before the barrier; store it in the background.

        `splits` has the progress of a source.
        """
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
        """Make the operators flush everything they have buffered into their states."""
        if self.chain is not None:
            await self.bench.run(self.chain.held, self.chain.settle)

    async def snapshot(self, splits: Mapping[Split, Progress] | None = None) -> Snapshot:
        """Prepare the written output, and return the snapshot of the subtask without its states."""
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
        """Return the wall-clock time of the operators' next timer, if there is any."""
        return None if self.chain is None else self.chain.due_us()

    async def tick(self, now_us: int) -> None:
        """Advance the wall clock, and fire the timers that are due."""
        if self.chain is not None:
            await self._drain(self._by_time, self.chain.held, self.chain.tick(now_us))

    async def _drain(self, pace: Pace, rows: int, outputs: Iterator[Output]) -> None:
        """Pull an operator's output batch by batch: at most one batch is in memory."""
        pull = partial(self._pull, rows, outputs)
        longest_s, is_long, was_announced = 0.0, pace.is_long(rows), False
        while True:
            output, took_s = await self.bench.blocking(pull) if is_long else pull()
            longest_s = max(longest_s, took_s)
            if output is None:
                break
            if output[0] == ASIDE:
                is_long = was_announced = True
            else:
                await self.foot.rows(*output)
        if not was_announced:  # otherwise earlier rows made it long
            pace.learn(rows, longest_s)

    def _pull(self, rows: int, outputs: Iterator[Output]) -> tuple[Output | None, float]:
        """Return the next batch, without the memory of dropped rows, and how long it took."""
        start = perf_counter()
        output = next(outputs, None)
        if output is not None and output[0] in self.foot.outlets:
            stream, frame = output
            output = stream, compacted(frame) if frame.height * FEW_OF < rows else frame
        return output, perf_counter() - start


async def relay(
    gate: Gate, inputs: Sequence[tuple[str, int]], flow: Flow, now_us: Callable[[], int]
) -> None:
    """Run a subtask that reads from a gate; `inputs` has the stream and side of each input."""
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
    """Return the next element; until it arrives, fire the wall-clock timers that are due."""
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
