"""The split reader of partitions: fetches ahead, and makes chunks one group of loads at a time.

While a load is decoded in a thread, the next fetch is in flight; while chunks wait to be emitted,
or batches to be decoded, no more of their partitions is fetched. So the memory of each partition
is bounded: the load being decoded, and two fetches.

With `--limit N`, the subtasks of a source share the limit. Before making a chunk, a subtask takes
as many records from it as it may need, and puts back those that became no rows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial

from headrace.connectors.kafka.source.chunk_maker import ChunkInput, ChunkMaker, MadeChunk
from headrace.connectors.kafka.source.fetched_batches import DamagedBatch
from headrace.connectors.kafka.source.fetcher import Fetcher
from headrace.connectors.kafka.source.partition_state import PartitionState
from headrace.connectors.kafka.source.positions import parse_position
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.sources import SourceEvent, SplitFinished
from headrace.core.api.splits import Position, Split
from headrace.core.api.stopwatch import Stopwatch
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class RowLimit:
    """The rows that are still wanted; None: all."""

    rows_left: int | None
    _records_taken: int = 0
    """Records taken whose number of rows is not known yet."""
    _watchers: list[asyncio.Event] = field(default_factory=list)

    @property
    def is_reached(self) -> bool:
        """Whether no more rows are wanted."""
        return self.rows_left is not None and self.rows_left <= 0 and not self._records_taken

    def take_records(self, records: int) -> int | None:
        """Take up to `records` from the limit; return how many, or None if there is no limit."""
        if self.rows_left is None:
            return None
        count = min(records, self.rows_left)
        self.rows_left -= count
        self._records_taken += count
        return count

    def put_back(self, records: int | None, rows: int) -> None:
        """Return to the limit the taken records that became no rows, and wake the watchers."""
        if records is None or self.rows_left is None:
            return
        self._records_taken -= records
        self.rows_left += records - rows
        for event in self._watchers:
            event.set()

    def add_watcher(self, changed: asyncio.Event) -> None:
        """Set this event whenever records are put back."""
        self._watchers.append(changed)


MAX_RECORDS = 65_536


MAX_BYTES = 4 << 20
"""The approximate maximum of records, and of fetched bytes, that are decoded at once."""


ROW_BYTES = 128
"""The size of an average record; a longer one counts as several in cost estimates."""


class PartitionSplitReader:
    """The `SplitReader` of partitions; `skipped` counts records without a value."""

    def __init__(
        self,
        maker: ChunkMaker,
        kernel_executor: KernelExecutor,
        limit: RowLimit,
        fetching: Callable[[PartitionSplitReader], Fetcher],
        skipped: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._maker = maker
        self._kernel_executor = kernel_executor
        self._limit = limit
        self._skipped = skipped
        self._tracks: dict[Split, PartitionState] = {}
        self._held: Collection[Split] = ()
        self._last = False
        self._made: deque[MadeChunk | SplitFinished] = deque()
        self._making: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._asked = False
        self._closed = False
        self._changed = asyncio.Event()
        self._working = Stopwatch()
        self._fetching = fetching(self)
        limit.add_watcher(self._changed)

    @property
    def partition_states(self) -> Collection[PartitionState]:
        """The partitions being read."""
        return self._tracks.values()

    def is_wanted(self, track: PartitionState) -> bool:
        """Whether more of the partition should be fetched."""
        return track.split not in self._held and not self._limit.is_reached

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Add splits to read."""
        for split, position in splits:
            track = PartitionState(split, parse_position(position))
            if track.has_ended:
                self._made.append(SplitFinished(split))
            else:
                self._tracks[split] = track
        self._last = last
        self._changed.set()

    def pause(self, splits: Collection[Split]) -> None:
        """Emit and fetch nothing of these splits until the next call."""
        self._held = frozenset(splits)
        self._changed.set()

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return the splits read to their end, as far as known, each with the time since when."""
        since = {
            split: track.idle_since()
            for split, track in self._tracks.items()
            if split not in self._held
        }
        return {split: at for split, at in since.items() if at is not None}

    def measure_lags(self) -> Mapping[Split, int]:
        """Return the lag of each split whose end is known from a broker."""
        lags = {split: track.lag for split, track in self._tracks.items()}
        return {split: lag for split, lag in lags.items() if lag is not None}

    def measure_busy_s(self) -> float:
        """Return the seconds spent unpacking and decoding."""
        return self._working.seconds

    async def fetch(self) -> SourceEvent | None:
        """Return the next chunk or end of a split, and start making the following ones."""
        self._asked = True
        while True:
            arrival = self._pop_ready()
            self.start_work()
            if arrival is not None:
                return arrival
            if failure := self._failure or self._fetching.failure:
                raise failure
            if self._is_finished:
                return None
            await self._changed.wait()
            self._changed.clear()

    @property
    def _is_finished(self) -> bool:
        if self._made or self._making is not None:
            return False
        return self._limit.is_reached or (self._last and not self._tracks)

    def _pop_ready(self) -> SourceEvent | None:
        """Return the first chunk made whose split is not held, or the end of a split."""
        for at, made in enumerate(self._made):
            if isinstance(made, SplitFinished):
                del self._made[at]
                return made
            if made.chunk.split not in self._held:
                del self._made[at]
                self._record_emitted(made)
                return made.chunk
        return None

    def _record_emitted(self, made: MadeChunk) -> None:
        split = made.chunk.split
        track = self._tracks[split]
        self._skipped(made.skipped_records)
        track.record_emitted(made, asyncio.get_running_loop().time())
        if track.has_ended:
            del self._tracks[split]
            self._made.append(SplitFinished(split))

    def on_change(self) -> None:
        """React to fetched data or an error: start more work, and wake `next`."""
        self.start_work()
        self._changed.set()

    def start_work(self) -> None:
        """Start making chunks, unless some are ready or being made already, and start fetches."""
        if self._closed or not self._asked or self._failure is not None:
            return
        waits = any(
            isinstance(m, SplitFinished) or m.chunk.split not in self._held for m in self._made
        )
        if self._making is None and not waits and (inputs := self._collect_inputs()):
            self._making = asyncio.create_task(self._make_chunks(inputs))
            self._making.add_done_callback(self._on_made)
        if self._tracks and not self._limit.is_reached:
            self._fetching.start_requests()

    def _collect_inputs(self) -> list[ChunkInput]:
        """Collect the inputs of the next chunks, from partitions in turn."""
        inputs: list[ChunkInput] = []
        records, size = MAX_RECORDS, MAX_BYTES
        ready = [
            each for each in self._tracks.values() if each.has_waiting and self._is_loadable(each)
        ]
        for track in sorted(ready, key=lambda each: each.turn_number):
            if inputs and (records <= 0 or size <= 0):
                break
            chunk_input = track.take_input(records, size)
            records -= chunk_input.record_count
            size -= chunk_input.byte_count
            inputs.append(chunk_input)
        return inputs

    def _is_loadable(self, track: PartitionState) -> bool:
        return track.split not in self._held and self._limit.rows_left != 0

    async def _make_chunks(self, inputs: Sequence[ChunkInput]) -> None:
        count = sum(chunk_input.record_count for chunk_input in inputs)
        max_records = self._limit.take_records(count)
        rows = max(count, sum(chunk_input.byte_count for chunk_input in inputs) // ROW_BYTES)
        made: Sequence[MadeChunk] = ()
        try:
            with self._working:
                made = await self._kernel_executor.run(
                    rows, partial(self._maker.make_chunks, inputs, max_records)
                )
        finally:
            self._limit.put_back(max_records, sum(each.chunk.frame.height for each in made))
        done = {each.chunk.split: each for each in made}
        for chunk_input in inputs:
            each = done.get(chunk_input.split)
            if each is None or not each.is_complete:
                offset = chunk_input.position.offset if each is None else each.position.offset
                self._tracks[chunk_input.split].rewind_to(offset)
        self._made.extend(made)

    def _on_made(self, task: asyncio.Task[None]) -> None:
        self._making = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = _translate_error(error)
        self.on_change()

    async def close(self) -> None:
        """Wait for the thread, and close connections."""
        self._closed = True
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
        await self._fetching.close()


def _translate_error(error: BaseException) -> Exception:
    if isinstance(error, DamagedBatch):
        return ConnectorError(str(error), "is the broker's disk damaged?", position=error.offset)
    return error if isinstance(error, Exception) else RuntimeError(repr(error))
