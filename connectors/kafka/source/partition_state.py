"""The state of one partition being read: the next fetch, waiting batches, and its end.

A pure state machine: responses and times are passed in.

| offsets | state of the records |
|---|---|
| before `position` | emitted |
| `position` to `loading_offset` | being made into a chunk |
| `loading_offset` to `fetch_offset` | fetched, and waiting |
| from `fetch_offset` | fetched next, unless others wait |
"""

from __future__ import annotations

from collections import deque
from dataclasses import field

from headrace.connectors.kafka.source.chunk_maker import ChunkInput, MadeChunk
from headrace.connectors.kafka.source.fetched_batches import (
    AbortedTransactions,
    FetchedBatch,
    filter_visible,
    parse_batches,
)
from headrace.connectors.kafka.source.positions import (
    LastRecord,
    Partition,
    PartitionPosition,
    parse_partition,
)
from headrace.core.api.splits import Split
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """A partition's part of a successful fetch response."""

    high_watermark: int
    """The end of the replicated records."""
    last_stable_offset: int
    """The end of the records before the first open transaction (last stable offset)."""
    aborted_transactions: AbortedTransactions | None
    """The aborted transactions; None if uncommitted records are wanted too."""
    data: bytes

    @property
    def end_offset(self) -> int:
        """The end of the readable records."""
        return self.high_watermark if self.aborted_transactions is None else self.last_stable_offset


class RecordChanged(Exception):
    """A record differs from the one that was read at its offset before."""

    def __init__(self, previous: LastRecord, timestamp: int) -> None:
        super().__init__(str(previous.offset))
        self.previous = previous
        self.timestamp = timestamp


@dataclass(slots=True)
class PartitionState:
    """The state of reading one partition."""

    split: Split
    position: PartitionPosition
    partition: Partition = field(init=False)
    loading_offset: int = field(init=False)
    fetch_offset: int = field(init=False)
    end_offset: int | None = None
    """The end of the readable records according to the last response."""
    leader: int | None = None
    checks_last_record: bool = field(init=False)
    """Whether to fetch the last read record again, to check that it is unchanged."""
    _waiting: deque[FetchedBatch] = field(default_factory=deque)
    _has_open_transaction: bool = False
    """Whether there are records after an open transaction."""
    _answered_at_s: float | None = None
    """The time of the broker's last relevant answer; None: it does not answer."""
    _emitted_at_s: float = 0.0
    turn_number: int = 0
    """The number of the last response with records; the lowest number is served first."""

    def __post_init__(self) -> None:
        self.partition = parse_partition(self.split.name)
        self.loading_offset = self.fetch_offset = self.position.offset
        self.checks_last_record = self.position.last_record is not None

    @property
    def next_fetch_offset(self) -> int:
        """The offset of the next fetch."""
        last = self.position.last_record
        return last.offset if self.checks_last_record and last is not None else self.fetch_offset

    @property
    def has_waiting(self) -> bool:
        """Whether fetched records wait to be made into a chunk."""
        return bool(self._waiting) or self.loading_offset < self.fetch_offset

    @property
    def is_fetched(self) -> bool:
        """Whether all records before the stop offset were fetched."""
        return self.position.stop is not None and self.fetch_offset >= self.position.stop

    @property
    def has_ended(self) -> bool:
        """Whether all records before the stop offset were emitted."""
        return self.position.stop is not None and self.position.offset >= self.position.stop

    @property
    def lag(self) -> int | None:
        """The number of readable records that were not emitted yet."""
        if self.end_offset is None:
            return None
        end = (
            self.end_offset
            if self.position.stop is None
            else min(self.end_offset, self.position.stop)
        )
        return max(0, end - self.position.offset)

    def idle_since(self) -> float | None:
        """Return the time since when the partition has been idle, as far as known; None if not."""
        at_end = (
            self.end_offset is not None
            and self.position.offset >= self.end_offset
            and not self._has_open_transaction
        )
        if not at_end or self._answered_at_s is None:
            return None
        return max(self._answered_at_s, self._emitted_at_s)

    def add_response(self, answer: FetchedPartition, now: float) -> bool:
        """Add a fetch response; return whether it had new records. Raises RecordChanged."""
        batches = parse_batches(answer.data)
        if self.checks_last_record:
            self._check_last_record(batches)
        self.end_offset = answer.end_offset
        self._has_open_transaction = (
            answer.last_stable_offset < answer.high_watermark
            and answer.aborted_transactions is not None
        )
        if self._answered_at_s is None or self.position.offset < self.end_offset:
            self._answered_at_s = now
        if not batches or batches[-1].next_offset <= self.fetch_offset:
            return False
        stop = self.position.stop
        self._waiting += [
            batch
            for batch in filter_visible(batches, answer.aborted_transactions)
            if batch.next_offset > self.fetch_offset and (stop is None or batch.base_offset < stop)
        ]
        self.fetch_offset = batches[-1].next_offset
        return True

    def _check_last_record(self, found: list[FetchedBatch]) -> None:
        """Raise RecordChanged if the last read record has changed; it may be missing."""
        last = self.position.last_record
        self.checks_last_record = False
        for batch in found:
            if last is None or batch.base_offset > last.offset or batch.is_control:
                continue
            for record in batch.open_records():
                if record.offset == last.offset and (record.timestamp or 0) != last.timestamp:
                    raise RecordChanged(last, record.timestamp or 0)

    def lose_leader(self) -> None:
        """Note that the broker is lost: it is unknown whether there are more records.

        The next answer may come from a topic recreated under the same name.
        """
        self._answered_at_s = None
        self.checks_last_record = self.position.last_record is not None and not self.has_waiting

    @property
    def is_settled(self) -> bool:
        """Whether all chunks made were emitted."""
        return self.position.offset == self.loading_offset

    def move_to(self, offset: int) -> None:
        """Resume at another offset, as the records between are missing. Requires `is_settled`."""
        self.checks_last_record = False
        if offset >= self.fetch_offset:
            self.fetch_offset = offset  # A chunk of no rows will carry the position.
        else:
            self.position = PartitionPosition(offset, None, self.position.stop)
            self.rewind_to(offset)

    def rewind_to(self, offset: int) -> None:
        """Drop the fetched records from an offset on."""
        self._waiting.clear()
        self.loading_offset = self.fetch_offset = offset

    def take_input(self, records: int, size: int) -> ChunkInput:
        """Take waiting batches, about up to that many records or bytes, and at least one if any."""
        batches: list[FetchedBatch] = []
        while self._waiting and (not batches or (records > 0 and size > 0)):
            batch = self._waiting.popleft()
            batches.append(batch)
            records -= batch.record_count
            size -= len(batch.data)
        # Hidden batches after the last record are skipped with it.
        to = batches[-1].next_offset if self._waiting else self.fetch_offset
        self.loading_offset = to
        return ChunkInput(self.split, self.partition, self.position, batches, to)

    def record_emitted(self, made: MadeChunk, now: float) -> None:
        """Record that a chunk was emitted."""
        self.position = made.position
        self._emitted_at_s = now
