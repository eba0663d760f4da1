"""The source task: reads splits, and sends their rows, watermarks and barriers downstream.

A watermark is sent after the rows that imply it. The reader's next event is fetched in the
background: a wait that reaches its deadline loses nothing, and a later wait picks the fetch up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.api.sources import Chunk, SourceEvent, SplitFinished, SplitReader, SplitTime
from headrace.core.api.splits import Position, Progress, Split
from headrace.core.api.stopwatch import Stopwatch
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.latency import MarkerTimer
from headrace.core.dataflow.operator_task import OperatorTask
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.rejected_rows import RejectedRowSampler
from headrace.core.plan import nodes
from headrace.core.sources import chunk_rows
from headrace.core.sources.event_time import find_late_rows
from headrace.core.sources.row_times import RowTimes
from headrace.core.sources.table_changes import TableRecords
from headrace.core.sources.watermarks import WatermarkGenerator
from headrace.core.types.elements import Barrier, EndOfStream
from headrace.core.types.frames import concat_contiguous, split_frame

if TYPE_CHECKING:
    import polars as pl


class PendingFetch:
    """Fetches one event of a split reader at a time.

    One task alone calls `wait` and `take`; all other methods may be called by any task.
    """

    def __init__(self, reading: SplitReader) -> None:
        self._reader = reading
        self._is_assigned = False
        self._is_finished = False
        self._fetching: asyncio.Task[SourceEvent | None] | None = None
        self._wake_event = asyncio.Event()

    @property
    def is_assigned(self) -> bool:
        """Whether splits have been assigned, perhaps none."""
        return self._is_assigned

    @property
    def is_finished(self) -> bool:
        """Whether no event will follow: all was read, or a stop was requested."""
        return self._is_finished

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Add splits to read; nothing is fetched before the first call."""
        self._is_assigned = True
        self._reader.assign(splits, last=last)
        self._wake_event.set()

    def wake(self) -> None:
        """Make `wait` return."""
        self._wake_event.set()

    def stop(self) -> None:
        """Finish at once; a fetched event that was not taken is dropped."""
        self._is_finished = True
        self._wake_event.set()

    async def wait(self, until: float | None) -> None:
        """Wait for an event, a call of another method, or this time of the loop."""
        if self._is_assigned and self._fetching is None:
            self._fetching = asyncio.create_task(_fetch_next(self._reader))
            # An event that the reader has already needs no timer.
            await asyncio.sleep(0)
            if self._fetching.done():
                return
            self._fetching.add_done_callback(lambda _: self._wake_event.set())
        if until is None:
            await self._wake_event.wait()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._wake_event.wait()
        self._wake_event.clear()

    def take(self) -> SourceEvent | None:
        """Return the fetched event, if there is one. Raises the reader's error."""
        if self._is_finished or self._fetching is None or not self._fetching.done():
            return None
        getting, self._fetching = self._fetching, None
        arrival = getting.result()
        self._is_finished = arrival is None
        return arrival

    async def close(self) -> None:
        """Cancel the fetch, and close the reader."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)
        await self._reader.close()


async def _fetch_next(reading: SplitReader) -> SourceEvent | None:
    return await reading.fetch()


MAX_GATHERING_S = 0.001
"""The longest time that rows wait while further available chunks are added to their batch."""


@dataclass(slots=True)
class SourceTask:
    """Reads the splits of one source's subtask into its operators.

    Small chunks that are available at the same time are sent as one batch: a fast source must not
    be slowed down by small chunks. With `linger_s`, rows wait that long for more.
    """

    source: nodes.Source
    reading: InitVar[SplitReader]
    operator_task: OperatorTask
    now_us: Callable[[], int]
    watermark_generator: WatermarkGenerator
    bounds: ChannelBounds = field(default_factory=ChannelBounds)
    rows_in: int = 0
    bad_records: int = 0
    idle_time: Stopwatch = field(default_factory=Stopwatch)
    """The time in which no chunk arrived and the reader did no work."""
    rejected_rows: RejectedRowSampler = field(init=False)
    """Samples of bad records."""
    _pending_fetch: PendingFetch = field(init=False)
    _row_times: RowTimes = field(init=False)
    _table_records: TableRecords = field(init=False)
    _measure_busy_s: Callable[[], float] = field(init=False)
    measure_lags: Callable[[], Mapping[Split, int]] = field(init=False)
    """Returns the number of records left to read, by split."""
    source_number: int = 0
    """The position of the source among the plan's parts."""
    _progress: dict[Split, Progress] = field(default_factory=dict)
    """The progress of each split, without its current watermark."""
    _triggers: deque[int] = field(default_factory=deque)
    """The checkpoints whose barriers have not been sent yet."""
    _is_halted: bool = False
    _is_drained: bool = False
    _buffer: list[pl.DataFrame] = field(default_factory=list)
    _buffered_rows: int = 0
    _buffered_bytes: int = 0
    _buffered_since: float | None = None
    """The time since which the first of the buffered rows has been waiting."""
    _marker_timer: MarkerTimer | None = field(init=False, default=None)
    """The times of latency markers; None: none are sent."""

    def __post_init__(self, reading: SplitReader) -> None:
        self.rejected_rows = RejectedRowSampler(self.now_us)
        self._pending_fetch = PendingFetch(reading)
        self._row_times = RowTimes(self.source)
        self._table_records = TableRecords(self.source)
        self._measure_busy_s = reading.measure_busy_s
        self.measure_lags = reading.measure_lags
        if (interval_s := self.bounds.marker_interval_s) is not None:
            self._marker_timer = MarkerTimer(self.source_number, interval_s, self.now_us)

    def assign(self, splits: Sequence[tuple[Split, Progress]], *, last: bool) -> None:
        """Add splits to read; `last`: no more will be assigned."""
        self._progress.update(splits)
        unfinished = [(split, progress) for split, progress in splits if not progress.is_finished]
        self.watermark_generator.split_watermarks.assign(
            {s: p.watermark_us for s, p in unfinished}, last=last
        )
        self._pending_fetch.assign([(split, p.position) for split, p in unfinished], last=last)

    def set_drift_limit(self, until_us: int) -> None:
        """Pause the splits whose watermark is past this time."""
        self.watermark_generator.set_drift_limit(until_us)
        self._pending_fetch.wake()

    def stop(self, *, drains: bool = False) -> None:
        """Stop reading, and finish; if the job is drained, it may resume from here."""
        self._is_drained = drains
        self._pending_fetch.stop()

    def halt(self) -> None:
        """Stop reading, but do not finish: a checkpoint will follow."""
        self._is_halted = True
        self._pending_fetch.wake()

    def trigger_checkpoint(self, checkpoint: int) -> None:
        """Send the barrier of a checkpoint after the rows read so far."""
        self._triggers.append(checkpoint)
        self._pending_fetch.wake()

    @property
    def progress_with_watermarks(self) -> dict[Split, Progress]:
        """The progress of each split, with its watermark; it counts rows that are buffered.

        At a barrier nothing is buffered, so it covers exactly the rows sent before.
        """
        times = self.watermark_generator.split_watermarks.known_times
        return {
            s: replace(p, watermark_us=times.get(s, p.watermark_us))
            for s, p in self._progress.items()
        }

    @property
    def progress(self) -> Mapping[Split, Progress]:
        """The same, without the current watermarks."""
        return self._progress

    async def run(self) -> None:
        """Read to the end, or until a stop is requested; then send the end of the stream."""
        with self.operator_task.run_time:
            await self._run()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self.idle_time.clock = lambda: loop.time() - self._measure_busy_s()
        try:
            while not self._pending_fetch.is_finished:
                with self.idle_time:
                    await self._pending_fetch.wait(self._get_wait_deadline())
                if self._marker_timer is not None:
                    self._marker_timer.update(loop.time())
                has_event = await self._take_event(loop.time())
                if self._is_due(loop.time(), has_event):
                    await self._send_buffer()
                await self._send_time(loop.time())
                await self._send_marker()
                await self._send_barriers()
            await self._send_buffer()
            await self._send_marker()
        finally:
            await self._pending_fetch.close()
        self.watermark_generator.split_watermarks.finish()
        await self._send_time(loop.time())
        await self.operator_task.process_control(EndOfStream(self._is_drained))

    async def _send_barriers(self) -> None:
        while self._triggers:
            await self._send_buffer()
            await self.operator_task.process_barrier(
                Barrier(self._triggers.popleft()), self.progress_with_watermarks
            )

    async def _send_time(self, now: float) -> None:
        """Send the watermark, unless the rows that imply it are still buffered."""
        self.watermark_generator.update(now)
        if self._pending_fetch.is_assigned and not self._buffer:
            for element in self.watermark_generator.split_watermarks.collect_changes():
                await self.operator_task.process_control(element)

    async def _send_marker(self) -> None:
        """Send the latency marker that is due, unless rows are still buffered."""
        if self._marker_timer is None or self._buffer:
            return
        if (marker := self._marker_timer.take()) is not None:
            await self.operator_task.process_control(marker)

    async def _take_event(self, now: float) -> bool:
        """Take the next event of the reader, if there is one; return whether there was."""
        if self._is_halted:
            return False
        with attribute_errors_to(self.source.name):
            match arrival := self._pending_fetch.take():
                case Chunk():
                    await self._buffer_chunk(arrival, now)
                case SplitTime(split, watermark_us):
                    await self._send_buffer()
                    self.watermark_generator.split_watermarks.record_time(split, watermark_us)
                case SplitFinished(split):
                    self.watermark_generator.split_watermarks.finish_split(split)
                    self._progress[split] = replace(
                        self._progress[split], is_finished=True, identity=None
                    )
        return arrival is not None

    async def _buffer_chunk(self, chunk: Chunk, now: float) -> None:
        chunk = self._row_times.add_to(self._table_records.convert(chunk))
        self.rows_in += chunk.frame.height
        if chunk.bad_records:
            await self._handle_bad_records(chunk)
        at_us = None
        if chunk.frame.height:
            at_us = await self._extract_watermark(chunk.frame)
            await self._buffer_rows(chunk, now)
        if chunk.frame.height or chunk.bad_records:
            # A chunk of neither only moves the position: the split may be idle all the same.
            self.watermark_generator.split_watermarks.record_rows(chunk.split, at_us)
        self._record_progress(chunk)

    async def _buffer_rows(self, chunk: Chunk, now: float) -> None:
        """Buffer the rows of a chunk; a row behind its split's watermark is sent after it."""
        rows, start = self._number_rows(chunk), 0
        for row, watermark_us in self._find_late_rows(chunk):
            self._add_to_buffer(rows[start:row], now)
            await self._send_buffer()
            watermarks = self.watermark_generator.split_watermarks
            await self.operator_task.process_control(
                watermarks.advance_strictly(chunk.split, watermark_us)
            )
            start = row
        self._add_to_buffer(rows[start:], now)

    def _find_late_rows(self, chunk: Chunk) -> Sequence[tuple[int, int]]:
        """Return the rows to send after a watermark, and that watermark."""
        column, event_time = self.watermark_generator.extractor.column, self.source.event_time
        if column is None or event_time is None:
            return ()
        times = self.watermark_generator.split_watermarks
        reached_us = times.get_watermark(chunk.split)
        announced_us = times.get_strict_watermark(chunk.split)
        return find_late_rows(chunk.frame, event_time, column, reached_us, announced_us)

    def _add_to_buffer(self, rows: pl.DataFrame, now: float) -> None:
        if not rows.height:
            return
        if not self._buffer:
            self._buffered_since = now
        self._buffer.append(rows)
        self._buffered_rows += rows.height
        self._buffered_bytes += int(rows.estimated_size())

    def _record_progress(self, chunk: Chunk) -> None:
        """Record the progress of the chunk's split."""
        before = self._progress[chunk.split]
        rows, bad = before.rows + chunk.frame.height, before.bad_records + len(chunk.bad_records)
        self._progress[chunk.split] = replace(
            before,
            position=chunk.position,
            rows=rows,
            bad_records=bad,
            identity=chunk.identity,
        )

    async def _extract_watermark(self, frame: pl.DataFrame) -> int | None:
        """Return the watermark that rows imply; in a thread if a user's function computes it."""
        time_of = self.watermark_generator.extractor
        rows = frame.height if time_of.calls_user_code else 0
        if time_of.calls_user_code:
            frame = chunk_rows.drop_computed_times(self.source, frame)
        return await self.operator_task.kernel_executor.run(rows, partial(time_of.extract, frame))

    def _number_rows(self, chunk: Chunk) -> pl.DataFrame:
        """Return the rows, with their numbers if a step depends on the order of rows."""
        if not self.source.outputs[0].has_row_order:
            return chunk.frame
        return chunk_rows.number_chunk_rows(
            self.source_number, chunk, self._progress[chunk.split].rows
        )

    def _get_wait_deadline(self) -> float | None:
        """Return the time up to which to wait for the next event; None: without limit."""
        sent_at = (
            None if self._buffered_since is None else self._buffered_since + self.bounds.linger_s
        )
        marker_at = self._marker_timer.next_at if self._marker_timer is not None else None
        deadlines = (sent_at, self.watermark_generator.get_next_update(), marker_at)
        return min((at for at in deadlines if at is not None), default=None)

    def _is_due(self, now: float, has_event: bool) -> bool:
        """Whether the buffered rows have waited long enough for more, or are enough."""
        if self._buffered_since is None:
            return False
        bounds, linger_s = self.bounds, self.bounds.linger_s
        if self._buffered_rows >= bounds.rows or self._buffered_bytes >= bounds.bytes:
            return True
        waits_s = max(linger_s, MAX_GATHERING_S) if has_event else linger_s
        return now >= self._buffered_since + waits_s

    async def _send_buffer(self) -> None:
        frames, self._buffer, self._buffered_since = self._buffer, [], None
        self._buffered_rows = self._buffered_bytes = 0
        if not frames:
            return
        rows = chunk_rows.add_event_time(self.source, concat_contiguous(frames))
        for piece in split_frame(rows, self.bounds.rows, self.bounds.bytes):
            await self.operator_task.process_rows(self.source.name, piece)

    async def _handle_bad_records(self, chunk: Chunk) -> None:
        if self.source.on_error == "fail":
            raise chunk_rows.build_bad_record_error(chunk)
        self.bad_records += len(chunk.bad_records)
        self.rejected_rows.add_bad_records(chunk)
        if self.source.on_error != "skip":
            before = self._progress[chunk.split].bad_records
            letters = chunk_rows.build_dead_letters(
                self.source, self.source_number, chunk, before, self.now_us()
            )
            await self.operator_task.send_side_rows(self.source.on_error, letters)
