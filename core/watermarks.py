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

from headrace.core.alignment import MIN_WATERMARK_US
from headrace.core.elements import MAX_WATERMARK_US, IdleMarker, WatermarkElement
from headrace.core.messages import Split


@dataclass(slots=True)
class SplitWatermarks:
    """The watermarks of one subtask's splits. `ordered`: unread splits hold no earlier rows."""

    is_ordered: bool = False
    _split_times: dict[Split, int] = field(default_factory=dict)
    """The watermark of each split that is being read."""
    _unread_splits: set[Split] = field(default_factory=set)
    _idle_splits: set[Split] = field(default_factory=set)
    _has_all_splits: bool = False
    _reached_us: int = MIN_WATERMARK_US
    _sent_us: int = MIN_WATERMARK_US
    _sent_idle: bool = False

    def assign(self, splits: Mapping[Split, int | None], *, last: bool) -> None:
        """Add splits, with their restored watermarks; `last`: no more will be assigned."""
        for split, at_us in splits.items():
            if at_us is None:
                self._unread_splits.add(split)
            else:
                self._split_times[split] = at_us
        self._has_all_splits = last

    @property
    def known_times(self) -> Mapping[Split, int]:
        """The watermark of each split that is being read and has one."""
        return {
            split: at_us for split, at_us in self._split_times.items() if at_us > MIN_WATERMARK_US
        }

    def record_rows(self, split: Split, at_us: int | None) -> None:
        """Record that rows of a split arrived, and the watermark that they imply, if any."""
        before = self._split_times.get(split, MIN_WATERMARK_US)
        self._split_times[split] = before if at_us is None else max(before, at_us)
        self._unread_splits.discard(split)
        self._idle_splits.discard(split)
        # The split may finish before the next collection of changes.
        self._advance()

    def finish_split(self, split: Split) -> None:
        """Record that a split has finished."""
        self._split_times.pop(split, None)
        self._unread_splits.discard(split)
        self._idle_splits.discard(split)

    def set_idle(self, splits: Collection[Split]) -> None:
        """Set the idle splits; all others are not idle."""
        self._idle_splits = {
            split for split in splits if split in self._split_times or split in self._unread_splits
        }

    @property
    def idle_splits(self) -> Collection[Split]:
        """The splits that are idle now."""
        return self._idle_splits

    def finish(self) -> None:
        """End all splits: reading has stopped, even if some of them are unfinished."""
        self._split_times.clear()
        self._unread_splits.clear()
        self._has_all_splits = True

    def collect_changes(self) -> list[WatermarkElement | IdleMarker]:
        """Return the watermark and idleness to send now, if they have changed since the last call.

        The end of idleness is sent as a watermark, which may repeat the last one.
        """
        self._advance()
        idle = self._is_idle()
        marks: list[WatermarkElement | IdleMarker] = []
        if self._reached_us > self._sent_us or (self._sent_idle and not idle):
            marks.append(WatermarkElement(self._reached_us))
            self._sent_us, self._sent_idle = self._reached_us, False
        if idle and not self._sent_idle:
            marks.append(IdleMarker())
            self._sent_idle = True
        return marks

    def _advance(self) -> None:
        """Advance the subtask's watermark as far as the splits allow."""
        if not self._split_times and not self._unread_splits:
            if self._has_all_splits:
                self._reached_us = MAX_WATERMARK_US
        elif self.is_ordered or self._unread_splits <= self._idle_splits:
            live = [
                at_us
                for split, at_us in self._split_times.items()
                if split not in self._idle_splits
            ]
            self._reached_us = max(self._reached_us, min(live, default=MIN_WATERMARK_US))

    def _is_idle(self) -> bool:
        """Whether no split holds time back now."""
        if not self._split_times and not self._unread_splits:
            return not self._has_all_splits
        return (
            self._unread_splits <= self._idle_splits
            and self._split_times.keys() <= self._idle_splits
        )

    @property
    def slowest_us(self) -> int | None:
        """The least watermark of the splits that are being read and not idle."""
        return min(
            (
                at_us
                for split, at_us in self._split_times.items()
                if at_us > MIN_WATERMARK_US and split not in self._idle_splits
            ),
            default=None,
        )

    def find_splits_beyond(self, until_us: int) -> frozenset[Split]:
        """Return the splits that are being read, not idle, and past this time."""
        return frozenset(
            split
            for split, at_us in self._split_times.items()
            if at_us > until_us and split not in self._idle_splits
        )
