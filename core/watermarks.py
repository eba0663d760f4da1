"""How far one subtask of a source has come in event time. No clock, no I/O: times are handed in.

Each split has a watermark of its own, that never goes back. The subtask's is the least over the
splits that hold time, and never goes back either:

| a split that                | holds time                                                       |
|-----------------------------|------------------------------------------------------------------|
| nothing was read of yet     | at the beginning; not at all where splits are ordered by time    |
| is being read               | at its watermark                                                 |
| is idle                     | not at all                                                       |
| has come to its end         | not at all                                                       |

A subtask is idle when all its splits are, or when it has none at the time and may get some. When
all have come to their end and no more are assigned, time is at its end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.core.alignment import BEGINNING_US
from headrace.core.elements import FOREVER_US, Idle, Watermark
from headrace.core.messages import Split


@dataclass(slots=True)
class Watermarks:
    """The splits of one subtask in event time. `ordered`: those not read yet hold later rows."""

    ordered: bool = False
    _times: dict[Split, int] = field(default_factory=dict)
    """The watermark of each split that is being read."""
    _unread: set[Split] = field(default_factory=set)
    _idle: set[Split] = field(default_factory=set)
    _last: bool = False
    _reached_us: int = BEGINNING_US
    _told_us: int = BEGINNING_US
    _told_idle: bool = False

    def assign(self, splits: Mapping[Split, int | None], *, last: bool) -> None:
        """These are to be read too, from where they had come to that time; `last`: no more come."""
        for split, at_us in splits.items():
            if at_us is None:
                self._unread.add(split)
            else:
                self._times[split] = at_us
        self._last = last

    @property
    def times(self) -> Mapping[Split, int]:
        """How far each split has come, of those that are being read and have told of the time."""
        return {split: at_us for split, at_us in self._times.items() if at_us > BEGINNING_US}

    def came(self, split: Split, at_us: int | None) -> None:
        """Something came of a split; its watermark after that, if what came says anything of it."""
        before = self._times.get(split, BEGINNING_US)
        self._times[split] = before if at_us is None else max(before, at_us)
        self._unread.discard(split)
        self._idle.discard(split)
        # The split may end before anybody asks for news.
        self._reach()

    def ended(self, split: Split) -> None:
        """A split has come to its end."""
        self._times.pop(split, None)
        self._unread.discard(split)
        self._idle.discard(split)

    def idle(self, splits: Collection[Split]) -> None:
        """These splits are idle, and no others."""
        self._idle = {split for split in splits if split in self._times or split in self._unread}

    @property
    def idle_splits(self) -> Collection[Split]:
        """The splits that hold no time for now."""
        return self._idle

    def finish(self) -> None:
        """Nothing is read any more, whatever is left of the splits."""
        self._times.clear()
        self._unread.clear()
        self._last = True

    def news(self) -> list[Watermark | Idle]:
        """What is to be told now, if it was not told before.

        The end of idleness is told too, by a watermark that may be the same as the last.
        """
        self._reach()
        idle = self._is_idle()
        marks: list[Watermark | Idle] = []
        if self._reached_us > self._told_us or (self._told_idle and not idle):
            marks.append(Watermark(self._reached_us))
            self._told_us, self._told_idle = self._reached_us, False
        if idle and not self._told_idle:
            marks.append(Idle())
            self._told_idle = True
        return marks

    def _reach(self) -> None:
        """Let time come as far as the splits let it."""
        if not self._times and not self._unread:
            if self._last:
                self._reached_us = FOREVER_US
        elif self.ordered or self._unread <= self._idle:
            live = [at_us for split, at_us in self._times.items() if split not in self._idle]
            self._reached_us = max(self._reached_us, min(live, default=BEGINNING_US))

    def _is_idle(self) -> bool:
        """Whether no split holds time for now."""
        if not self._times and not self._unread:
            return not self._last
        return self._unread <= self._idle and self._times.keys() <= self._idle

    @property
    def slowest_us(self) -> int | None:
        """The watermark of the split that is furthest behind, of those that are being read."""
        return min(
            (
                at_us
                for split, at_us in self._times.items()
                if at_us > BEGINNING_US and split not in self._idle
            ),
            default=None,
        )

    def beyond(self, until_us: int) -> frozenset[Split]:
        """The splits that are being read and have come further than this."""
        return frozenset(
            split
            for split, at_us in self._times.items()
            if at_us > until_us and split not in self._idle
        )
