"""The task at the head of a loop over a table, which goes on to the next round when one has ended.

A round has ended when the loop is empty and no input from outside of it can bring more rows. The
head holds the number of the round as if it were a watermark, so the coordinator finds that out by
waves and releases it (`coordination/loop_waves`).

If tables are sent as a whole, all inputs from outside have ended when the first round begins. Then
the head ends each round by itself: it sends a marker after the rows of the round, upon which the
steps inside process them, and which comes back after their results.

Barriers. The rows that come back are part of the state at once, so the snapshot is that of the
state when the barrier is back. Until then no round ends, and no new rows are taken. A barrier waits
for the end of a round whose marker is on its way, so the steps inside hold no rows of a round then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.api.state import FrozenState
from headrace.core.coordination.messages import HeldTime, ReleaseLoopTime
from headrace.core.dataflow.loop_task import LoopTask, ReturningBarrier
from headrace.core.dataflow.snapshotter import Snapshotter
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.operator import Output
from headrace.core.operators.table_rounds import DeltaRoundsHead, TableRoundsHead
from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    Barrier,
    Batch,
    Element,
    EndOfStream,
    LatencyMarker,
    LoopMarker,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class TableRoundsTask(LoopTask):
    """Runs the head of a loop over a table."""

    _has_end_arrived: bool = False
    _is_round_due: bool = False
    """Whether the end of the round was found."""
    _is_in_round: bool = False
    """Whether a round over whole tables has begun, and has not been ended."""
    _is_marker_back: bool = False
    """Whether the marker that ends this round is back."""

    @property
    def _rounds(self) -> TableRoundsHead:
        assert isinstance(self.head, TableRoundsHead)
        return self.head

    async def _send_restored_rows(self) -> None:
        """Rows that had come back are in the state."""

    @property
    def _has_input_ended(self) -> bool:
        return self._has_end_arrived

    def _takes_forward(self) -> bool:
        return self._pending_barrier is None and LoopTask._takes_forward(self)

    async def _obey(self) -> None:
        if self._is_marker_back:
            self._is_in_round = self._is_marker_back = False
            await self._end_round()
        await LoopTask._obey(self)
        if self._is_round_due and self._pending_barrier is None:
            self._is_round_due = False
            await (self._begin_round() if self._rounds.sends_tables else self._end_round())

    async def _receive_barrier(self, barrier: Barrier) -> None:
        if not self._is_in_round:  # otherwise it is due again at the end of the round
            await LoopTask._receive_barrier(self, barrier)

    def _report_wave(self, marker: LoopMarker) -> None:
        if marker.ends_round:
            self._is_marker_back = True
        else:
            LoopTask._report_wave(self, marker)

    async def _process_forward(self, at: int, element: Element) -> None:
        match element:
            case Batch(frame):
                if self._rounds.is_done:
                    message = "new rows came after the last round, whose table was emitted"
                    hint = "a table needs all of its rows before the first round: run with --fresh"
                    with attribute_errors_to(self.step.name):
                        raise ConnectorError(message, hint, final=True)
                await self._enter(self.inputs[at][0], frame)
            case Barrier():
                await self._receive_barrier(element)
            case LatencyMarker():
                await self.operator_task.output.send_marker(element, self._exit_streams)
            case EndOfStream(is_drained):
                self.operator_task.is_drained = is_drained
                self._has_end_arrived = True
                self._hold_round()

    def _hold_round(self) -> None:
        """Hold the number of the round that goes on, or the end after the last one."""
        if self._rounds.is_done:
            self._hold(HeldTime(MAX_WATERMARK_US, has_ended=True))
        else:
            self._hold(HeldTime(self._rounds.round, is_round=True))

    async def _enter(self, stream: str, frame: pl.DataFrame) -> None:
        """Add rows to the first round."""
        delta = None if self.loop.table is None else self.loop.table.delta
        if delta is None or stream == delta.solution:
            await self._process_rows(frame, 0)
        else:
            assert isinstance(self.head, DeltaRoundsHead)
            self.operator_task.rows_in += frame.height
            await self._send(self.head.add_to_workset(frame))

    async def _begin_round(self) -> None:
        """Send a whole table into the loop, and the marker that ends its round."""
        self._is_in_round = True
        await self._send(self._rounds.begin_round())
        marker = LoopMarker(self.step.name, self._rounds.round, ends_round=True)
        await self.operator_task.output.send_control(marker, self._loop_streams)

    async def _end_round(self) -> None:
        """Send the changes of the next round into the loop, or the last table out of it."""
        executor = self.operator_task.kernel_executor
        with attribute_errors_to(self.step.name):
            rows = self._rounds.table_rows
            outputs = await executor.run(rows, lambda: [*self._rounds.end_round()])
        await self._send(outputs)
        if self._rounds.sends_tables and not self._rounds.is_done:
            self._is_round_due = True
        else:
            self._hold_round()

    async def _send(self, outputs: Iterable[Output]) -> None:
        chain = self.operator_task.chain
        assert chain is not None
        for stream, frame in outputs:
            chain.emitted_rows[stream] += frame.height
            if frame.height:
                await self.operator_task.send_side_rows(stream, frame)

    def _log_for_barrier(self, batch: Batch) -> None:
        """Rows that come back are in the state."""

    def _freeze_states(
        self, snapshotter: Snapshotter, pending: ReturningBarrier
    ) -> Mapping[str, tuple[FrozenState, ...]]:
        self._rounds.flush_to_state()
        return snapshotter.freeze_states()

    async def _release(self, released: ReleaseLoopTime) -> None:
        if released.is_end:
            await LoopTask._release(self, released)
        elif self._held.is_round and released.watermark_us == self._rounds.round:
            self._is_round_due = True
