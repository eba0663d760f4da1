"""Watermark generation in a source's subtask.

The generator extracts watermarks from rows, detects idle splits, and pauses splits that are too far
ahead of others (watermark alignment). The loop's times are passed in; it never waits, and returns
the time of its next update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.core.contracts import SplitReader
from headrace.core.drift import WatermarkReporter
from headrace.core.event_time import WatermarkExtractor, build_watermark_extractor
from headrace.core.idleness import IdleDetector
from headrace.core.messages import Split
from headrace.core.pipeline.model import Watermark
from headrace.core.plan import nodes
from headrace.core.watermarks import SplitWatermarks


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
    _paused_splits: frozenset[Split] = frozenset()

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
        held = self.split_watermarks.find_splits_beyond(reports.limit_us)
        if held != self._paused_splits:
            self._paused_splits = held
            self.reader.pause(held)
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
