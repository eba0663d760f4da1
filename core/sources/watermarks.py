"""Watermarks of one subtask of a source: per split, combined, idle, and aligned. No clock, no I/O.

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

Idle splits are found by polling, because readers do not announce that a split is exhausted: at
least every `idle:`, and then exactly when the first exhausted split becomes idle. Splits that are
too far ahead of others are paused (watermark alignment). The loop's times are passed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from pathlib import Path

from headrace.core.api.sources import SplitReader
from headrace.core.api.splits import Split
from headrace.core.coordination.watermark_alignment import WatermarkReporter
from headrace.core.pipeline.model import Watermark
from headrace.core.plan import nodes
from headrace.core.sources.event_time import WatermarkExtractor, build_watermark_extractor
from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    MIN_WATERMARK_US,
    IdleMarker,
    WatermarkElement,
)
from headrace.core.types.lazy_dataclass import dataclass

MIN_CHECK_INTERVAL_S = 0.01
"""The shortest interval between checks: for a shorter `idle:`, more checks would only cost time."""


@dataclass(slots=True)
class IdleDetector:
    """Finds the splits that have been exhausted for `timeout_s`."""

    timeout_s: float
    next_check_at: float = 0.0
    """The time of the next check."""

    def find_idle(self, now: float, exhausted: Mapping[Split, float]) -> Collection[Split]:
        """Return the idle splits, given since when each split is exhausted; set the next check."""
        idle_at = {split: since + self.timeout_s for split, since in exhausted.items()}
        later = now + max(self.timeout_s, MIN_CHECK_INTERVAL_S)
        self.next_check_at = min([later, *(at for at in idle_at.values() if at > now)])
        return [split for split, at in idle_at.items() if at <= now]


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
    _strict_times: dict[Split, int] = field(default_factory=dict)
    """The watermark of each split when it was last sent strictly."""

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

    def record_time(self, split: Split, at_us: int | None) -> None:
        """Record a watermark that a split has without rows; None: it is idle until its next row."""
        if at_us is None:
            self.set_idle({*self._idle_splits, split})
        else:
            self.record_rows(split, at_us)

    def get_watermark(self, split: Split) -> int:
        """Return the watermark of a split."""
        return self._split_times.get(split, MIN_WATERMARK_US)

    def get_strict_watermark(self, split: Split) -> int:
        """Return the last watermark of a split that was sent strictly."""
        return self._strict_times.get(split, MIN_WATERMARK_US)

    def advance_strictly(self, split: Split, at_us: int) -> WatermarkElement:
        """Return the strict watermark to send before rows that are behind their split's one."""
        self.record_rows(split, at_us)
        self._strict_times[split] = at_us
        self._sent_us, self._sent_idle = self._reached_us, False
        return WatermarkElement(self._reached_us, is_strict=True)

    def finish_split(self, split: Split) -> None:
        """Record that a split has finished."""
        self._split_times.pop(split, None)
        self._strict_times.pop(split, None)
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


@dataclass(slots=True)
class WatermarkGenerator:
    """Tracks the event time of a reader's splits.

    `report` sends the watermark of the slowest split to the coordinator, if drift is limited.
    """

    reader: SplitReader
    extractor: WatermarkExtractor
    split_watermarks: SplitWatermarks
    idle_detector: IdleDetector | None = None
    drift_reports: WatermarkReporter | None = None
    send_report: Callable[[int | None], None] = lambda at_us: None
    paused_splits: frozenset[Split] = frozenset()
    """The splits that are too far ahead of others."""

    def update(self, now: float) -> None:
        """Update idleness and paused splits to the current time."""
        if self.idle_detector is not None and now >= self.idle_detector.next_check_at:
            self.split_watermarks.set_idle(
                self.idle_detector.find_idle(now, self.reader.list_exhausted())
            )
        if self.drift_reports is not None:
            self._align_splits(self.drift_reports, now)

    def get_next_update(self) -> float | None:
        """Return the time of the next update that is due even if no rows arrive; None: none."""
        look = None if self.idle_detector is None else self.idle_detector.next_check_at
        report = (
            None
            if self.drift_reports is None
            else self.drift_reports.next_report_at(self.split_watermarks.slowest_us)
        )
        return min((at for at in (look, report) if at is not None), default=None)

    def set_drift_limit(self, until_us: int) -> None:
        """Pause the splits whose watermark is past this time."""
        if self.drift_reports is not None:
            self.drift_reports.limit_us = until_us

    def _align_splits(self, reports: WatermarkReporter, now: float) -> None:
        """Pause the splits that are too far ahead, and report the slowest split if that is due."""
        paused = self.split_watermarks.find_splits_beyond(reports.limit_us)
        if paused != self.paused_splits:
            self.paused_splits = paused
            self.reader.pause(paused)
        at_us = self.split_watermarks.slowest_us
        due = reports.next_report_at(at_us)
        if due is not None and due <= now:
            self.send_report(at_us)
            reports.mark_reported(at_us, now)


def build_watermark_generator(
    source: nodes.Source,
    reading: SplitReader,
    folder: Path,
    report: Callable[[int | None], None],
    *,
    ordered: bool,
) -> WatermarkGenerator:
    """Build the watermark generator of a source of the pipeline in that folder.

    `ordered`: later splits hold no earlier rows.
    """
    wanted = source.watermark or Watermark()
    return WatermarkGenerator(
        reading,
        build_watermark_extractor(source, folder),
        SplitWatermarks(ordered),
        None if wanted.idle is None else IdleDetector(wanted.idle.total_seconds()),
        None if wanted.max_drift is None else WatermarkReporter(),
        report,
    )
