"""One subtask as one asyncio task: it takes elements, runs operators, and emits elements.

A subtask runs the parts of its plan task as a chain: the input is a source's reader or a gate, then
come operators, and the output is a sink's writer or output edges. Rows pass between parts by calls;
only the input and the output wait.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.api.forked_children import call_in_parent
from headrace.core.api.kernel_executor import CostModel, KernelExecutor
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle, Progress, Split
from headrace.core.api.state import Document
from headrace.core.api.stopwatch import Stopwatch
from headrace.core.coordination.messages import Snapshot
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.dataflow.latency import LatencyRecorder
from headrace.core.dataflow.output_edges import OutputEdge
from headrace.core.dataflow.snapshotter import Snapshotter
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.changelog.weighted_rows import expand_weights
from headrace.core.operators.operator import OFFLOAD, OperatorChain, Output
from headrace.core.types.elements import (
    MIN_WATERMARK_US,
    WEIGHT,
    Barrier,
    Batch,
    ControlElement,
    Element,
    EndOfStream,
    LatencyMarker,
    LoopMarker,
    WatermarkElement,
)
from headrace.core.types.frames import COPY_FRACTION, copy_compact
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class TaskOutput:
    """The output of a subtask: the edges of each stream, and the writer of a sink, if any."""

    edges: Mapping[str, Sequence[OutputEdge]]
    writer: SinkWriter | None
    writer_stream: str = ""
    """The stream that the writer takes."""
    sink_name: str = ""
    """The name of the writer's sink."""
    rows_out: dict[str, int] = field(default_factory=dict)
    write_time: Stopwatch = field(default_factory=Stopwatch)
    """The time in which the parts before the sink waited for its writer."""
    tap: Callable[[str, pl.DataFrame], None] | None = None
    """Looks at the rows of each stream; None: nobody looks."""
    latencies: LatencyRecorder | None = None
    """The latencies from sources to the sink, where markers are sent."""

    async def send_rows(self, stream: str, frame: pl.DataFrame) -> None:
        """Send rows of a stream to its writer and edges."""
        self.rows_out[stream] = self.rows_out.get(stream, 0) + frame.height
        if self.tap is not None:
            self.tap(stream, frame)
        if self.writer is not None and stream == self.writer_stream:
            written = frame if WEIGHT not in frame.columns else expand_weights(frame)
            with attribute_errors_to(self.sink_name), self.write_time:
                await self.writer.write(written)
        for edge in self.edges.get(stream, ()):
            await edge.send_rows(frame)

    async def send_control(
        self, mark: ControlElement, streams: Collection[str] | None = None
    ) -> None:
        """Send a control element on all edges, or those of these streams, after all rows."""
        for stream, edges in self.edges.items():
            for edge in edges if streams is None or stream in streams else ():
                await edge.send_control(mark)

    async def send_marker(
        self, marker: LatencyMarker, streams: Collection[str] | None = None
    ) -> None:
        """Record a latency marker at a sink, whose rows before it are written, and send it on.

        It goes along all edges, or those of these streams.
        """
        if self.latencies is not None:
            self.latencies.record(marker)
        for stream, edges in self.edges.items():
            for edge in edges if streams is None or stream in streams else ():
                await edge.send_marker(marker)

    async def prepare(self) -> Handle | None:
        """Prepare the written rows, and return the handle to commit them, if there is any."""
        if self.writer is None:
            return None
        with attribute_errors_to(self.sink_name):
            return await self.writer.prepare()

    def snapshot_writer(self) -> Document | None:
        """Return the state that the writers of the next attempt start with."""
        return None if self.writer is None else self.writer.snapshot_state()


SLOW_KERNEL_S = 1.0
"""The time from which on a kernel is a slow one."""
MAX_SLOW_KERNELS = 16


@dataclass(frozen=True, slots=True)
class SlowKernel:
    """A kernel that ran for long: the work for one output batch, user code included."""

    ended_us: int
    """The wall-clock time of its end."""
    seconds: float
    rows: int
    """The rows that it was given."""


@dataclass(slots=True)
class OperatorTask:
    """The operators and the output of a subtask; its input passes elements here."""

    chain: OperatorChain | None
    output: TaskOutput
    kernel_executor: KernelExecutor
    rows_in: int = 0
    watermark_us: int | None = None
    """The watermark sent last; None: none yet."""
    has_clock_timers: bool = False
    """Whether a class in it may emit rows at a time of the wall clock."""
    is_drained: bool = False
    """Whether the input has ended, and may continue when the job resumes."""
    snapshotter: Snapshotter | None = None
    """Takes the snapshots at barriers; None: the job takes no checkpoints."""
    collect_counts: Callable[[], Document] = dict
    """Returns the counters of the subtask for its snapshot."""
    run_time: Stopwatch = field(default_factory=Stopwatch)
    """The time for which the subtask has run."""
    barrier_time: Stopwatch = field(default_factory=Stopwatch)
    """The time for which barriers have blocked the subtask."""
    slow_kernels: deque[SlowKernel] = field(default_factory=lambda: deque(maxlen=MAX_SLOW_KERNELS))
    """The last kernels that ran for long."""
    _clock_us: int = MIN_WATERMARK_US
    _row_cost: CostModel = field(default_factory=CostModel)
    _timer_cost: CostModel = field(default_factory=CostModel)

    async def process_rows(self, stream: str, frame: pl.DataFrame, side: int = 0) -> None:
        """Process rows of the stream that the first operator reads, on one of its sides."""
        self.rows_in += frame.height
        await self.process_counted_rows(stream, frame, side)

    async def process_counted_rows(self, stream: str, frame: pl.DataFrame, side: int = 0) -> None:
        """Process rows that were counted before, when they reached the subtask."""
        if self.chain is None:
            await self.output.send_rows(stream, frame)
        else:
            await self._drain_outputs(self._row_cost, frame.height, self.chain.process(frame, side))

    async def send_side_rows(self, stream: str, frame: pl.DataFrame) -> None:
        """Emit rows of another stream, which no operator of this subtask reads."""
        await self.output.send_rows(stream, frame)

    async def process_control(self, mark: ControlElement) -> None:
        """Process a control element; rows that a watermark triggers are emitted before it.

        Operators receive each watermark once; a repeated one only ends idleness.
        """
        match mark:
            case Barrier():
                await self.process_barrier(mark)
                return
            case LatencyMarker():
                await self.output.send_marker(mark)
                return
            case WatermarkElement(at_us, is_strict):
                if at_us > self._clock_us:
                    await self._advance_watermark(at_us)
                mark = WatermarkElement(
                    MIN_WATERMARK_US if self.watermark_us is None else self.watermark_us, is_strict
                )
            case EndOfStream(is_drained):
                self.is_drained = is_drained
            case LoopMarker():
                if mark.ends_round:
                    await self._end_round()
                waits = self.has_clock_timers and self.get_next_timer_us() is not None
                mark = replace(mark, is_waiting=mark.is_waiting or waits)
        await self.output.send_control(mark)

    async def process_barrier(
        self, barrier: Barrier, splits: Mapping[Split, Progress] | None = None
    ) -> None:
        """Take a snapshot of the effect of all rows before the barrier; store it in the background.

        `splits` has the progress of a source.
        """
        snapshotter = self.snapshotter
        assert snapshotter is not None, barrier
        with self.barrier_time:
            await snapshotter.wait_for_previous()
            await self.flush_to_state()
            frozen = snapshotter.freeze_states()
            snapshot = await self.build_snapshot(splits)
            await self.output.send_control(barrier)
            snapshotter.start_storing(barrier.checkpoint, frozen, snapshot)

    async def flush_to_state(self) -> None:
        """Make the operators flush everything they have buffered into their states."""
        if self.chain is not None:
            await self.kernel_executor.run(self.chain.pending_rows, self.chain.flush_to_state)

    async def build_snapshot(self, splits: Mapping[Split, Progress] | None = None) -> Snapshot:
        """Prepare the written output, and return the snapshot of the subtask without its states."""
        counts = self.collect_counts()
        handle = await self.output.prepare()
        return Snapshot(splits or {}, {}, counts, handle, self.output.snapshot_writer())

    async def _advance_watermark(self, at_us: int) -> None:
        self._clock_us = at_us
        if self.chain is not None:
            await self._drain_outputs(
                self._timer_cost, self.chain.pending_rows, self.chain.advance(at_us)
            )
            at_us = self.chain.delay_watermark(at_us)
        self.watermark_us = at_us

    async def _end_round(self) -> None:
        """Process the rows of a round of a loop over whole tables."""
        if self.chain is not None:
            rows = self.chain.pending_rows
            await self._drain_outputs(self._row_cost, rows, self.chain.end_round())

    def get_next_timer_us(self) -> int | None:
        """Return the wall-clock time of the operators' next timer, if there is any."""
        return None if self.chain is None else self.chain.next_tick_us()

    async def advance_clock(self, now_us: int) -> None:
        """Advance the wall clock, and fire the timers that are due."""
        if self.chain is not None:
            await self._drain_outputs(
                self._timer_cost, self.chain.pending_rows, self.chain.tick(now_us)
            )

    async def _drain_outputs(self, pace: CostModel, rows: int, outputs: Iterator[Output]) -> None:
        """Pull an operator's output batch by batch: at most one batch is in memory."""
        pull = partial(self._pull_output, rows, outputs)
        longest_s, is_long, was_announced = 0.0, pace.is_long(rows), False
        while True:
            output, took_s = await self.kernel_executor.run_blocking(pull) if is_long else pull()
            longest_s = max(longest_s, took_s)
            if took_s >= SLOW_KERNEL_S:
                self.slow_kernels.append(SlowKernel(time.time_ns() // 1000, took_s, rows))
            if output is None:
                break
            if output[0] == OFFLOAD:
                is_long = was_announced = True
            else:
                await self.output.send_rows(*output)
        if not was_announced:  # otherwise earlier rows made it long
            pace.learn(rows, longest_s)

    def _pull_output(self, rows: int, outputs: Iterator[Output]) -> tuple[Output | None, float]:
        """Return the next batch, without the memory of dropped rows, and how long it took."""
        start = time.perf_counter()
        output = call_in_parent(partial(next, outputs, None))
        if output is not None and output[0] in self.output.edges:
            stream, frame = output
            output = stream, copy_compact(frame) if frame.height * COPY_FRACTION < rows else frame
        return output, time.perf_counter() - start


async def run_task(
    gate: InputGate,
    inputs: Sequence[tuple[str, int]],
    operator_task: OperatorTask,
    now_us: Callable[[], int],
) -> None:
    """Run a subtask that reads from a gate; `inputs` has the stream and side of each input."""
    with operator_task.run_time:
        while True:
            at, element = await _get_next_element(gate, operator_task, now_us)
            match element:
                case Batch(frame):
                    await operator_task.process_rows(inputs[at][0], frame, inputs[at][1])
                case EndOfStream():
                    await operator_task.process_control(element)
                    return
                case _:
                    await operator_task.process_control(element)


async def _get_next_element(
    gate: InputGate, operator_task: OperatorTask, now_us: Callable[[], int]
) -> tuple[int, Element]:
    """Return the next element; until it arrives, fire the wall-clock timers that are due."""
    while (due_us := operator_task.get_next_timer_us()) is not None:
        left_us = due_us - now_us()
        if left_us > 0:
            try:
                async with asyncio.timeout(left_us / 1e6):
                    return await gate.get()
            except TimeoutError:
                pass
        await operator_task.advance_clock(max(due_us, now_us()))
    return await gate.get()
