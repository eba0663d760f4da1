"""The state of one partition being read: the next fetch, waiting batches, and its end.

A pure state machine: responses and times are passed in.

| offsets | state of the records |
|---|---|
| before `place` | emitted |
| `place` to `loading` | being made into a chunk |
| `loading` to `fetch_at` | fetched, and waiting |
| from `fetch_at` | fetched next, unless others wait |
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from headrace.connectors.kafka.source.batches import Batch, batches
from headrace.connectors.kafka.source.chunks import Load, Made
from headrace.connectors.kafka.source.places import Partition, Place, Seen, partition_of
from headrace.connectors.kafka.source.visible import Aborted, visible
from headrace.core.messages import Split


@dataclass(frozen=True, slots=True)
class Answer:
    """A partition's part of a successful fetch response."""

    high_watermark: int
    """The end of the replicated records."""
    stable: int
    """The end of the records before the first open transaction (last stable offset)."""
    aborted: Aborted | None
    """The aborted transactions; None if uncommitted records are wanted too."""
    data: bytes

    @property
    def end(self) -> int:
        """The end of the readable records."""
        return self.high_watermark if self.aborted is None else self.stable


class OtherRecord(Exception):
    """A record differs from the one that was read at its offset before."""

    def __init__(self, previous: Seen, timestamp: int) -> None:
        super().__init__(str(previous.offset))
        self.previous = previous
        self.timestamp = timestamp


@dataclass(slots=True)
class Track:
    """The state of reading one partition."""

    split: Split
    place: Place
    partition: Partition = field(init=False)
    loading: int = field(init=False)
    fetch_at: int = field(init=False)
    end: int | None = None
    """The end of the readable records according to the last response."""
    leader: int | None = None
    asks_for_last: bool = field(init=False)
    """Whether to fetch the last read record again, to check that it is unchanged."""
    _waiting: deque[Batch] = field(default_factory=deque)
    _open: bool = False
    """Whether there are records after an open transaction."""
    _heard_at: float | None = None
    """The time of the broker's last relevant answer; None: it does not answer."""
    _given_at: float = 0.0
    turn: int = 0
    """The number of the last response with records; the lowest number is served first."""

    def __post_init__(self) -> None:
        self.partition = partition_of(self.split.name)
        self.loading = self.fetch_at = self.place.offset
        self.asks_for_last = self.place.last is not None

    @property
    def next_fetch(self) -> int:
        """The offset of the next fetch."""
        last = self.place.last
        return last.offset if self.asks_for_last and last is not None else self.fetch_at

    @property
    def waits(self) -> bool:
        """Whether fetched records wait to be made into a chunk."""
        return bool(self._waiting) or self.loading < self.fetch_at

    @property
    def is_through(self) -> bool:
        """Whether all records before the stop offset were fetched."""
        return self.place.stop is not None and self.fetch_at >= self.place.stop

    @property
    def has_ended(self) -> bool:
        """Whether all records before the stop offset were emitted."""
        return self.place.stop is not None and self.place.offset >= self.place.stop

    @property
    def lag(self) -> int | None:
        """The number of readable records that were not emitted yet."""
        if self.end is None:
            return None
        end = self.end if self.place.stop is None else min(self.end, self.place.stop)
        return max(0, end - self.place.offset)

    def exhausted_since(self) -> float | None:
        """Return the time since when the partition has been idle, as far as known; None if not."""
        at_end = self.end is not None and self.place.offset >= self.end and not self._open
        if not at_end or self._heard_at is None:
            return None
        return max(self._heard_at, self._given_at)

    def came(self, answer: Answer, now: float) -> bool:
        """Add a fetch response; return whether it had new records. Raises OtherRecord."""
        found = batches(answer.data)
        if self.asks_for_last:
            self._look_at_last(found)
        self.end = answer.end
        self._open = answer.stable < answer.high_watermark and answer.aborted is not None
        if self._heard_at is None or self.place.offset < self.end:
            self._heard_at = now
        if not found or found[-1].next_offset <= self.fetch_at:
            return False
        stop = self.place.stop
        self._waiting += [
            batch
            for batch in visible(found, answer.aborted)
            if batch.next_offset > self.fetch_at and (stop is None or batch.base_offset < stop)
        ]
        self.fetch_at = found[-1].next_offset
        return True

    def _look_at_last(self, found: list[Batch]) -> None:
        """Raise OtherRecord if the last read record has changed; it may be missing."""
        last = self.place.last
        self.asks_for_last = False
        for batch in found:
            if last is None or batch.base_offset > last.offset or batch.is_control:
                continue
            for record in batch.opened():
                if record.offset == last.offset and (record.timestamp or 0) != last.timestamp:
                    raise OtherRecord(last, record.timestamp or 0)

    def lost(self) -> None:
        """Note that the broker is lost: it is unknown whether there are more records.

        The next answer may come from a topic recreated under the same name.
        """
        self._heard_at = None
        self.asks_for_last = self.place.last is not None and not self.waits

    @property
    def is_settled(self) -> bool:
        """Whether all chunks made were emitted."""
        return self.place.offset == self.loading

    def move(self, offset: int) -> None:
        """Resume at another offset, as the records between are missing. Requires `is_settled`."""
        self.asks_for_last = False
        if offset >= self.fetch_at:
            self.fetch_at = offset  # A chunk of no rows will carry the position.
        else:
            self.place = Place(offset, None, self.place.stop)
            self.rewind(offset)

    def rewind(self, offset: int) -> None:
        """Drop the fetched records from an offset on."""
        self._waiting.clear()
        self.loading = self.fetch_at = offset

    def load(self, records: int, size: int) -> Load:
        """Take waiting batches, about up to that many records or bytes, and at least one if any."""
        taken: list[Batch] = []
        while self._waiting and (not taken or (records > 0 and size > 0)):
            batch = self._waiting.popleft()
            taken.append(batch)
            records -= batch.count
            size -= len(batch.data)
        # Hidden batches after the last record are skipped with it.
        to = taken[-1].next_offset if self._waiting else self.fetch_at
        self.loading = to
        return Load(self.split, self.partition, self.place, taken, to)

    def gave(self, made: Made, now: float) -> None:
        """Record that a chunk was emitted."""
        self.place = made.place
        self._given_at = now
