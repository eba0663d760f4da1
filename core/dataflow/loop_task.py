"""The task at the head of a loop: new rows from a gate, rows that come back from another one.

Rows that came back go first. New rows have their turn after each batch of them, and only seldom
while more than a channelful waits: the loop does not grow faster than it empties, and a barrier
among the new rows comes through all the same.

Barriers. The head sends a barrier once it has come on all forward inputs. Until it has come back,
each row that does belongs to the snapshot: it was in the loop when the head sent the barrier. No
further forward input is taken before the next one, so only one barrier is on its way.
After the end of its forward inputs the head begins barriers itself, as a source does.

Event time and the end. The head holds watermarks, idleness and the end of its forward inputs until
the coordinator releases them (`coordination/loop_waves`). It sends a marker into the loop when the
coordinator begins a wave, and reports the marker's return. The end goes into the loop first, and
out of it when it has come back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import SubtaskId
from headrace.core.api.state import Document, FrozenState
from headrace.core.api.stopwatch import Stopwatch
from headrace.core.coordination.messages import (
    CoordinatorEvent,
    HeldTime,
    LoopTimeHeld,
    LoopWaveReturned,
    ReleaseLoopTime,
    Snapshot,
)
from headrace.core.dataflow.feedback_channel import FeedbackChannel
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.dataflow.operator_task import OperatorTask
from headrace.core.dataflow.snapshotter import Snapshotter
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.loop_head import LoopHead
from headrace.core.operators.table_rounds import TableRoundsHead
from headrace.core.plan import nodes
from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    MIN_WATERMARK_US,
    Barrier,
    Batch,
    Element,
    EndOfStream,
    IdleMarker,
    LatencyMarker,
    LoopMarker,
    WatermarkElement,
)
from headrace.core.types.frames import concat_contiguous
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

CROWDED_TURNS = 8
"""The turns of rows that came back, for each turn of new rows, while many of them wait."""


@dataclass(slots=True)
class ReturningBarrier:
    """A barrier on its way round, with what the snapshot has of the time before it."""

    barrier: Barrier
    counts: Document
    loop_counts: Mapping[str, int]
    """The rows that the head had counted."""
    rows: list[pl.DataFrame] = field(default_factory=list)
    """The rows that have come back since."""
    bytes: int = 0
    """Their size, which counts into `max_in_loop`."""


@dataclass(slots=True)
class LoopTask:
    """Runs the head of a loop. `send` sends events to the coordinator."""

    id: SubtaskId
    step: nodes.Step
    loop: nodes.Loop
    gate: InputGate
    inputs: Sequence[tuple[str, int]]
    """The stream and the side of each input of `gate`."""
    feedback_gate: InputGate
    head: LoopHead | TableRoundsHead
    operator_task: OperatorTask
    send: Callable[[CoordinatorEvent], None]
    idle_time: Stopwatch = field(default_factory=Stopwatch)
    """The time in which there was nothing to take."""
    _held: HeldTime = field(default_factory=HeldTime)
    _held_in_wave: HeldTime = field(default_factory=HeldTime)
    """The time that was held when the marker of the wave was sent."""
    _is_in_wave: bool = False
    _rows_in_wave: int = 0
    _is_released_idle: bool = False
    _is_ending: bool = False
    """Whether the end was sent into the loop."""
    _is_over: bool = False
    _pending_barrier: ReturningBarrier | None = None
    _next_barrier: Barrier | None = None
    """A barrier that came before the one on its way round was back."""
    _last_barrier: int = -1
    _triggered_barrier: int = -1
    _waves: deque[int] = field(default_factory=deque)
    _released: deque[ReleaseLoopTime] = field(default_factory=deque)
    _feedback_turns: int = 0
    _wake_event: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        for channel in (*self.gate.channels, *self.feedback_gate.channels):
            channel.on_arrival = self._wake_event.set

    @property
    def feedback_channels(self) -> Sequence[FeedbackChannel]:
        """The channels on which rows come back."""
        return [each for each in self.feedback_gate.channels if isinstance(each, FeedbackChannel)]

    def trigger_checkpoint(self, checkpoint: int) -> None:
        """Send the barrier of a checkpoint, if no source can any more."""
        self._triggered_barrier = checkpoint
        self._wake_event.set()

    def begin_wave(self, wave: int) -> None:
        """Send the marker of a wave into the loop."""
        self._waves.append(wave)
        self._wake_event.set()

    def release_time(self, released: ReleaseLoopTime) -> None:
        """Pass on the watermark, the idleness or the end that is held."""
        self._released.append(released)
        self._wake_event.set()

    async def run(self) -> None:
        """Process all elements, from the first to the end."""
        with self.operator_task.run_time:
            await self._send_restored_rows()
            while not self._is_over:
                await self._take_turn()

    async def _send_restored_rows(self) -> None:
        """Send rows on that were on their way back at the checkpoint."""
        assert isinstance(self.head, LoopHead)
        rows, self.head.returning_rows.rows = self.head.returning_rows.rows, None
        if rows is not None:
            await self.operator_task.process_rows(self.loop.feedback, rows, 1)

    @property
    def _has_input_ended(self) -> bool:
        """Whether no new rows come any more."""
        return self._held.has_ended

    async def _take_turn(self) -> None:
        """Do what is due, else wait for it."""
        await self._obey()
        taken = self.feedback_gate.get_nowait() if not self._is_new_row_due() else None
        if taken is not None:
            self._feedback_turns += 1
            await self._process_feedback(taken[1])
        elif self._takes_forward() and (taken := self.gate.get_nowait()) is not None:
            self._feedback_turns = 0
            await self._process_forward(*taken)
        elif (taken := self.feedback_gate.get_nowait()) is not None:
            await self._process_feedback(taken[1])
        else:
            with self.idle_time:
                await self._wake_event.wait()
            self._wake_event.clear()
            return
        if isinstance(taken[1], Batch):
            with self.idle_time:
                await asyncio.sleep(0)

    def _is_new_row_due(self) -> bool:
        """Whether it is the turn of the forward inputs."""
        is_crowded = any(channel.is_crowded for channel in self.feedback_channels)
        return self._feedback_turns >= (CROWDED_TURNS if is_crowded else 1)

    def _takes_forward(self) -> bool:
        return self._next_barrier is None and not self._has_input_ended

    async def _obey(self) -> None:
        """Execute the commands of the coordinator."""
        is_due = self._triggered_barrier > self._last_barrier and not self._is_ending
        if self._has_input_ended and is_due:
            await self._receive_barrier(Barrier(self._triggered_barrier))
        while self._waves:
            self._is_in_wave, self._rows_in_wave, self._held_in_wave = True, 0, self._held
            marker = LoopMarker(self.step.name, self._waves.popleft())
            await self.operator_task.output.send_control(marker, self._loop_streams)
        while self._released:
            await self._release(self._released.popleft())

    @property
    def _loop_streams(self) -> tuple[str, ...]:
        return self.loop.list_inner_streams(self.step.name)

    @property
    def _exit_streams(self) -> set[str]:
        """The streams of the rows that leave."""
        return {*self.operator_task.output.edges} - {*self._loop_streams}

    async def _process_forward(self, at: int, element: Element) -> None:
        """Process an element of the input `at`."""
        match element:
            case Batch(frame):
                await self._process_rows(frame, 0)
            case Barrier():
                await self._receive_barrier(element)
            case WatermarkElement(at_us):
                await self._receive_watermark(at_us, element)
            case LatencyMarker():  # in the loop it would go round for ever
                await self.operator_task.output.send_marker(element, self._exit_streams)
            case IdleMarker() if self.loop.passes_watermarks:
                await self.operator_task.process_control(element)
            case IdleMarker():
                self._hold(replace(self._held, is_idle=True))
            case EndOfStream(is_drained):
                self.operator_task.is_drained = is_drained
                self._hold(replace(self._held, has_ended=True))

    async def _process_rows(self, frame: pl.DataFrame, side: int) -> None:
        with attribute_errors_to(self.step.name):
            await self.operator_task.process_rows(self.loop.feedback, frame, side)

    async def _receive_watermark(self, at_us: int, element: WatermarkElement) -> None:
        """Hold a watermark, or pass it on."""
        if self.loop.passes_watermarks and at_us < MAX_WATERMARK_US:
            await self.operator_task.process_control(element)
            return
        if self._is_released_idle:
            # Rows are about to come: the time that was passed on before holds again.
            self._is_released_idle = False
            await self.operator_task.process_control(WatermarkElement(MIN_WATERMARK_US))
        self._hold(replace(self._held, watermark_us=at_us, is_idle=False))

    def _hold(self, held: HeldTime) -> None:
        """Hold a time, and tell the coordinator; in a wave, the marker's return tells it."""
        self._held = held
        if not self._is_in_wave:
            self.send(LoopTimeHeld(self.id, held))

    async def _process_feedback(self, element: Element) -> None:
        match element:
            case Batch(frame):
                self._rows_in_wave += frame.height
                self._check_open(frame.height)
                self._log_for_barrier(element)
                await self._process_rows(frame, 1)
            case Barrier():
                await self._complete_barrier()
            case LoopMarker():
                self._report_wave(element)
            case EndOfStream():
                end = EndOfStream(self.operator_task.is_drained)
                await self.operator_task.output.send_control(end, self._exit_streams)
                self._is_over = True

    def _check_open(self, rows: int) -> None:
        """Raise ConnectorError if the end went into the loop: no row can follow it there."""
        if self._is_ending:
            message = f"{rows} rows came back after the loop was found empty and had ended"
            hint = "rows inside may only come of other rows, or of timers by the wall clock"
            with attribute_errors_to(self.step.name):
                raise ConnectorError(message, hint, final=True)

    def _log_for_barrier(self, batch: Batch) -> None:
        """Hold rows that came back before the barrier on its way round does, for its snapshot."""
        if (pending := self._pending_barrier) is not None:
            size = batch.bytes
            self.feedback_channels[0].budget.add(batch.rows, size)
            pending.rows.append(batch.frame)
            pending.bytes += size

    def _report_wave(self, marker: LoopMarker) -> None:
        self._is_in_wave = False
        self.send(
            LoopWaveReturned(
                self.id, marker.wave, self._rows_in_wave, self._held_in_wave, self._held, marker
            )
        )

    async def _receive_barrier(self, barrier: Barrier) -> None:
        """Send a barrier into the loop and out of it, unless another one is on its way round."""
        if self._pending_barrier is not None:
            self._next_barrier = barrier
            return
        self._last_barrier = max(self._last_barrier, barrier.checkpoint)
        counts = self.operator_task.collect_counts()
        loop_counts = self.head.copy_counts() if isinstance(self.head, LoopHead) else {}
        self._pending_barrier = ReturningBarrier(barrier, counts, loop_counts)
        await self.operator_task.output.send_control(barrier)

    async def _complete_barrier(self) -> None:
        """Take the snapshot of a barrier that is back: the rows that came back before it.

        Another subtask may have begun it after this one has sent the end, which stands for it.
        """
        pending, snapshotter = self._pending_barrier, self.operator_task.snapshotter
        if pending is None:
            assert self._is_ending, "the head sent no barrier"
            return
        assert snapshotter is not None, pending.barrier
        self._pending_barrier = None
        held = sum(frame.height for frame in pending.rows)
        self.feedback_channels[0].budget.remove(held, pending.bytes)
        with self.operator_task.barrier_time:
            await snapshotter.wait_for_previous()
            frozen = self._freeze_states(snapshotter, pending)
            snapshot = Snapshot({}, {}, pending.counts)
            snapshotter.start_storing(pending.barrier.checkpoint, frozen, snapshot)
        following, self._next_barrier = self._next_barrier, None
        if following is not None:
            await self._receive_barrier(following)

    def _freeze_states(
        self, snapshotter: Snapshotter, pending: ReturningBarrier
    ) -> Mapping[str, tuple[FrozenState, ...]]:
        """Freeze the state at the barrier, with the rows that came back before it was back."""
        assert isinstance(self.head, LoopHead)
        rows = self.head.returning_rows
        rows.rows = concat_contiguous(pending.rows) if pending.rows else None
        now_counted = self.head.copy_counts()
        self.head.set_counts(pending.loop_counts)
        frozen = snapshotter.freeze_states()
        self.head.set_counts(now_counted)
        rows.rows = None
        return frozen

    async def _release(self, released: ReleaseLoopTime) -> None:
        """Pass on a time that the coordinator has released."""
        if self._held.is_idle and not released.is_end:
            self._is_released_idle = True
            await self.operator_task.process_control(IdleMarker())
        elif released.watermark_us is not None:
            await self.operator_task.process_control(WatermarkElement(released.watermark_us))
        if released.is_end and not self._is_ending:
            self._is_ending = True
            end = EndOfStream(self.operator_task.is_drained)
            await self.operator_task.output.send_control(end, self._loop_streams)

    def close(self) -> None:
        """Remove the rows that wait on disk."""
        for channel in self.feedback_channels:
            channel.close()
