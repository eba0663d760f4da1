"""One partition as it is read: what is to be fetched, what waits, and whether it is at its end.

It does nothing by itself: answers and times are handed in.

| where | what |
|---|---|
| `place` | the records before it were given |
| `place` to `loading` | are just made into a chunk |
| `loading` to `fetch_at` | were fetched and wait |
| `fetch_at` | is asked for next, unless something waits |
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
    """What a fetch brought of a partition, if there was no error."""

    high_watermark: int
    """The end of what is replicated."""
    stable: int
    """The end of what stands before the first open transaction."""
    aborted: Aborted | None
    """None: uncommitted records are wanted too."""
    data: bytes

    @property
    def end(self) -> int:
        """The end of what can be read."""
        return self.high_watermark if self.aborted is None else self.stable


class OtherRecord(Exception):
    """A record that was read before is another one now."""

    def __init__(self, was: Seen, timestamp: int) -> None:
        super().__init__(str(was.offset))
        self.was = was
        self.timestamp = timestamp


@dataclass(slots=True)
class Track:
    """A partition, from a place on."""

    split: Split
    place: Place
    partition: Partition = field(init=False)
    loading: int = field(init=False)
    fetch_at: int = field(init=False)
    end: int | None = None
    """Where what can be read ended when a broker last told."""
    leader: int | None = None
    asks_for_last: bool = field(init=False)
    """Whether the record that was read last is fetched again, to see whether it still is that."""
    _waiting: deque[Batch] = field(default_factory=deque)
    _open: bool = False
    """Whether records stand behind an open transaction."""
    _heard_at: float | None = None
    """When a broker last answered; None: it does not."""
    _given_at: float = 0.0
    turn: int = 0
    """Of the last answer that brought something: who has waited for longer is asked for first."""

    def __post_init__(self) -> None:
        self.partition = partition_of(self.split.name)
        self.loading = self.fetch_at = self.place.offset
        self.asks_for_last = self.place.last is not None

    @property
    def next_fetch(self) -> int:
        """The offset to fetch from."""
        last = self.place.last
        return last.offset if self.asks_for_last and last is not None else self.fetch_at

    @property
    def waits(self) -> bool:
        """Whether something was fetched that is to be made into a chunk."""
        return bool(self._waiting) or self.loading < self.fetch_at

    @property
    def is_through(self) -> bool:
        """Whether all up to where reading stops was fetched."""
        return self.place.stop is not None and self.fetch_at >= self.place.stop

    @property
    def has_ended(self) -> bool:
        """Whether all up to where reading stops was given."""
        return self.place.stop is not None and self.place.offset >= self.place.stop

    @property
    def lag(self) -> int | None:
        """How many records can be read that were not given."""
        if self.end is None:
            return None
        end = self.end if self.place.stop is None else min(self.end, self.place.stop)
        return max(0, end - self.place.offset)

    def exhausted_since(self) -> float | None:
        """Since when there is nothing to give, as far as was heard; None: there is."""
        at_end = self.end is not None and self.place.offset >= self.end and not self._open
        if not at_end or self._heard_at is None:
            return None
        return max(self._heard_at, self._given_at)

    def came(self, answer: Answer, now: float) -> bool:
        """Take what was fetched; whether something is to be done with it. Raises OtherRecord."""
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
        """Whether the record that was read last is still the same, if it is still there."""
        last = self.place.last
        self.asks_for_last = False
        for batch in found:
            if last is None or batch.base_offset > last.offset or batch.is_control:
                continue
            for record in batch.opened():
                if record.offset == last.offset and (record.timestamp or 0) != last.timestamp:
                    raise OtherRecord(last, record.timestamp or 0)

    def lost(self) -> None:
        """No broker answers for it any more: nobody knows whether there is something to give.

        What answers next may be a topic of the same name that was made anew.
        """
        self._heard_at = None
        self.asks_for_last = self.place.last is not None and not self.waits

    @property
    def is_settled(self) -> bool:
        """Whether all that was made into chunks was given."""
        return self.place.offset == self.loading

    def move(self, offset: int) -> None:
        """Go on at another offset: what stood between is not there any more. It is settled."""
        self.asks_for_last = False
        if offset >= self.fetch_at:
            self.fetch_at = offset  # A chunk of no rows tells how far it is.
        else:
            self.place = Place(offset, None, self.place.stop)
            self.rewind(offset)

    def rewind(self, offset: int) -> None:
        """Forget what was fetched from there on."""
        self._waiting.clear()
        self.loading = self.fetch_at = offset

    def load(self, records: int, size: int) -> Load:
        """Take so many records out of what waits, or bytes: at least a batch, if there is one."""
        taken: list[Batch] = []
        while self._waiting and (not taken or (records > 0 and size > 0)):
            batch = self._waiting.popleft()
            taken.append(batch)
            records -= batch.count
            size -= len(batch.data)
        # What is hidden behind the last record is passed over with it.
        to = taken[-1].next_offset if self._waiting else self.fetch_at
        self.loading = to
        return Load(self.split, self.partition, self.place, taken, to)

    def gave(self, made: Made, now: float) -> None:
        """A chunk was given."""
        self.place = made.place
        self._given_at = now
