"""The task of a subtask whose first step is a lookup: rows wait for answers while more arrive.

Rows and control elements wait in a queue. The keys of rows are requested on arrival; in ordered
mode, the head of the queue is emitted once all its keys are answered. In unordered mode, all rows
before the next control element are emitted as they are answered, also those after a latency marker.
A control element is emitted after all rows before it. After a barrier or the end, no input is taken
until that element is emitted: therefore a checkpoint covers exactly the rows before its barrier,
with none of their calls in flight.

This task alone emits rows, so backpressure blocks only it; calls continue meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import nullcontext
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.stopwatch import Stopwatch
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.dataflow.operator_task import OperatorTask, TaskOutput
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.lookup.answers import ERROR, assemble_answers
from headrace.core.operators.lookup.client import LookupClient, LookupRequest
from headrace.core.operators.lookup.lookup_join import LookupJoin, match_rows
from headrace.core.operators.operator import OperatorChain
from headrace.core.types.elements import (
    Barrier,
    Batch,
    ControlElement,
    Element,
    EndOfStream,
    LatencyMarker,
    WatermarkElement,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class PendingRows:
    """Queued rows, and the index of each row's key in the request."""

    frame: pl.DataFrame
    key_ids: pl.Series
    request: LookupRequest

    @property
    def is_answered(self) -> bool:
        """Whether all keys of the request are answered."""
        return not self.request.keys_left


@dataclass(frozen=True, slots=True)
class SideRows:
    """Rows that are not looked up, because an operator before the lookup failed on them."""

    stream: str
    frame: pl.DataFrame


QueuedElement: TypeAlias = "PendingRows | SideRows | ControlElement"


@dataclass(slots=True)
class BufferedOutput(TaskOutput):
    """Collects the output of the operators before a lookup."""

    frames: list[tuple[str, pl.DataFrame]] = field(default_factory=list)

    async def send_rows(self, stream: str, frame: pl.DataFrame) -> None:
        """Collect rows of a stream."""
        self.frames.append((stream, frame))


@dataclass(slots=True)
class LookupTask:
    """Runs a lookup between a gate and the operators; `chain_before` precedes the lookup."""

    gate: InputGate
    join: LookupJoin
    client: LookupClient
    operator_task: OperatorTask
    chain_before: OperatorChain | None = None
    max_rows: int = 8192
    """The largest number of queued rows, unless one batch has more."""
    queued_rows: int = 0
    idle_time: Stopwatch = field(default_factory=Stopwatch)
    """The time in which the queue was empty and no element arrived."""
    _buffered_output: BufferedOutput = field(default_factory=lambda: BufferedOutput({}, None))
    _task_before: OperatorTask = field(init=False)
    """Runs the operators before the lookup."""
    _queue: deque[QueuedElement] = field(default_factory=deque)
    _is_blocked: bool = False
    """Whether a barrier or the end is queued: no input is taken after it."""
    _change_event: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._task_before = OperatorTask(
            self.chain_before, self._buffered_output, self.operator_task.kernel_executor
        )

    async def run(self) -> None:
        """Process all elements, from the first to the end."""
        with self.operator_task.run_time:
            fetching: asyncio.Task[tuple[int, Element]] | None = None
            try:
                while True:
                    if fetching is None and self._has_room():
                        fetching = asyncio.create_task(self.gate.get())
                        fetching.add_done_callback(lambda _: self._change_event.set())
                    await self._wait_for_change()
                    if fetching is not None and fetching.done():
                        _, element = fetching.result()
                        fetching = None
                        await self._enqueue(element)
                    if await self._emit_ready():
                        return
            finally:
                if fetching is not None:
                    fetching.cancel()
                    await asyncio.gather(fetching, return_exceptions=True)

    async def _wait_for_change(self) -> None:
        """Wait until an element arrives, an answer arrives, or an element is emitted."""
        with nullcontext() if self._queue or self._change_event.is_set() else self.idle_time:
            await self._change_event.wait()
        self._change_event.clear()

    def _has_room(self) -> bool:
        return not self._is_blocked and self.queued_rows < self.max_rows

    async def _enqueue(self, element: Element) -> None:
        """Queue an element, and request the keys of its rows."""
        if not isinstance(element, Batch):
            self._is_blocked = isinstance(element, Barrier | EndOfStream)
            last = self._queue[-1] if self._queue else None
            if isinstance(element, WatermarkElement) and isinstance(last, WatermarkElement):
                self._queue.pop()  # superseded: there are no rows between the two watermarks
                element = WatermarkElement(element.at_us, element.is_strict or last.is_strict)
            self._queue.append(element)
            return
        self.operator_task.rows_in += element.rows
        await self._task_before.process_rows(self.join.input_stream, element.frame)
        buffered, self._buffered_output.frames = self._buffered_output.frames, []
        for name, frame in buffered:
            if name == self.join.input_stream:
                await self._request_keys(frame)
            else:
                self._queue.append(SideRows(name, frame))
        self._change_event.set()

    async def _request_keys(self, frame: pl.DataFrame) -> None:
        with attribute_errors_to(self.join.step):
            keys = await self.operator_task.kernel_executor.run(
                frame.height, lambda: self.join.compute_keys(frame)
            )
            request = self.client.request(keys.keys)
        request.on_change = self._change_event.set
        self.queued_rows += frame.height
        self._queue.append(PendingRows(frame, keys.row_ids, request))
        self._change_event.set()

    async def _emit_ready(self) -> bool:
        """Emit everything that can be emitted now; return whether that included the end."""
        while self._queue:
            head = self._queue[0]
            match head:
                case PendingRows():
                    if not head.is_answered:
                        await self._fail_early(head)
                        break
                    self._queue.popleft()
                    await self._emit_answered(head)
                case SideRows(stream, frame):
                    self._queue.popleft()
                    await self.operator_task.send_side_rows(stream, frame)
                case _:
                    self._queue.popleft()
                    self._is_blocked = False
                    self._change_event.set()
                    await self.operator_task.process_control(head)
                    if isinstance(head, EndOfStream):
                        return True
        if not self.join.lookup.keeps_order:
            await self._emit_partial()
        return False

    async def _fail_early(self, rows: PendingRows) -> None:
        """Fail at once if a call failed for good and failed rows end the job.

        There may be many calls for the other keys of these rows; they are not awaited.
        """
        if rows.request.error is None or not self.join.fails_job:
            return
        for indices, answers in rows.request.parts:
            if answers[ERROR].null_count() < answers.height:
                mask, at = match_rows(rows.frame, rows.key_ids, indices, rows.request.keys)
                await self._emit_rows(rows.frame.filter(mask), answers[at], rows.request)

    async def _emit_answered(self, rows: PendingRows) -> None:
        """Emit the remaining rows of a batch whose keys are all answered."""
        self.queued_rows -= rows.frame.height
        self._change_event.set()
        if not rows.frame.height:
            return
        import polars as pl

        request, answers = rows.request, self.join.no_answers
        if request.parts:  # else no row has a key
            answers = assemble_answers(request.keys, request.parts)
        await self._emit_rows(rows.frame, answers.select(pl.all().gather(rows.key_ids)), request)

    async def _emit_partial(self) -> None:
        """Emit the answered rows before the next control element, even if others still wait."""
        for rows in list(self._queue):
            if isinstance(rows, LatencyMarker):
                continue
            if not isinstance(rows, PendingRows):
                return
            parts, rows.request.parts = rows.request.parts, []
            for indices, answers in parts:
                mask, at = match_rows(rows.frame, rows.key_ids, indices, rows.request.keys)
                frame = rows.frame.filter(mask)
                rows.frame, rows.key_ids = rows.frame.filter(~mask), rows.key_ids.filter(~mask)
                self.queued_rows -= frame.height
                await self._emit_rows(frame, answers[at], rows.request)

    async def _emit_rows(
        self, frame: pl.DataFrame, answers: pl.DataFrame, request: LookupRequest
    ) -> None:
        with attribute_errors_to(self.join.step):
            outputs = await self.operator_task.kernel_executor.run(
                frame.height, lambda: list(self.join.join_rows(frame, answers, request.error))
            )
        for stream, out in outputs:
            if stream == self.join.output_stream:
                await self.operator_task.process_counted_rows(stream, out)
            else:
                await self.operator_task.send_side_rows(stream, out)
