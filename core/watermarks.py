"""The watermark of one subtask of a source. No clock, no I/O: times are passed in.

Each split has a watermark of its own, which never decreases. The subtask's watermark is the minimum
over the splits that hold time back, and never decreases either:

| a split that is             | holds time back                                                  |
|-----------------------------|------------------------------------------------------------------|
| unread                      | at the minimum; not at all if splits are ordered by time         |
| being read                  | at its watermark                                                 |
| idle                        | not at all                                                       |
| finished                    | not at all                                                       |

A subtask is idle if all of its splits are, or if it has no split and may be assigned some. When all
are finished and no more will be assigned, the watermark is MAX_WATERMARK_US.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.core.alignment import BEGINNING_US
from headrace.core.elements import FOREVER_US, Idle, Watermark
from headrace.core.messages import Split


@dataclass(slots=True)
class Watermarks:
    """The watermarks of one subtask's splits. `ordered`: unread splits hold no earlier rows."""

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
        """Add splits, with their restored watermarks; `last`: no more will be assigned."""
        for split, at_us in splits.items():
            if at_us is None:
                self._unread.add(split)
            else:
                self._times[split] = at_us
        self._last = last

    @property
    def times(self) -> Mapping[Split, int]:
        """The watermark of each split that is being read and has one."""
        return {split: at_us for split, at_us in self._times.items() if at_us > BEGINNING_US}

    def came(self, split: Split, at_us: int | None) -> None:
        """Record that rows of a split arrived, and the watermark that they imply, if any."""
        before = self._times.get(split, BEGINNING_US)
        self._times[split] = before if at_us is None else max(before, at_us)
        self._unread.discard(split)
        self._idle.discard(split)
        # The split may finish before the next collection of changes.
        self._reach()

    def ended(self, split: Split) -> None:
        """Record that a split has finished."""
        self._times.pop(split, None)
        self._unread.discard(split)
        self._idle.discard(split)

    def idle(self, splits: Collection[Split]) -> None:
        """Set the idle splits; all others are not idle."""
        self._idle = {split for split in splits if split in self._times or split in self._unread}

    @property
    def idle_splits(self) -> Collection[Split]:
        """The splits that are idle now."""
        return self._idle

    def finish(self) -> None:
        """End all splits: reading has stopped, even if some of them are unfinished."""
        self._times.clear()
        self._unread.clear()
        self._last = True

    def news(self) -> list[Watermark | Idle]:
        """Return the watermark and idleness to send now, if they have changed since the last call.

        The end of idleness is sent as a watermark, which may repeat the last one.
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
        """Advance the subtask's watermark as far as the splits allow."""
        if not self._times and not self._unread:
            if self._last:
                self._reached_us = FOREVER_US
        elif self.ordered or self._unread <= self._idle:
            live = [at_us for split, at_us in self._times.items() if split not in self._idle]
            self._reached_us = max(self._reached_us, min(live, default=BEGINNING_US))

    def _is_idle(self) -> bool:
        """Whether no split holds time back now."""
        if not self._times and not self._unread:
            return not self._last
        return self._unread <= self._idle and self._times.keys() <= self._idle

    @property
    def slowest_us(self) -> int | None:
        """The least watermark of the splits that are being read and not idle."""
        return min(
            (
                at_us
                for split, at_us in self._times.items()
                if at_us > BEGINNING_US and split not in self._idle
            ),
            default=None,
        )

    def beyond(self, until_us: int) -> frozenset[Split]:
        """Return the splits that are being read, not idle, and past this time."""
        return frozenset(
            split
            for split, at_us in self._times.items()
            if at_us > until_us and split not in self._idle
        )
