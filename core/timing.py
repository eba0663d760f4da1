"""Watermark generation in a source's subtask.

The generator extracts watermarks from rows, detects idle splits, and pauses splits that are too far
ahead of others (watermark alignment). The loop's times are passed in; it never waits, and returns
the time of its next update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.core.contracts import Reading
from headrace.core.drift import Reports
from headrace.core.event_time import TimeOf, time_of
from headrace.core.idleness import Looks
from headrace.core.messages import Split
from headrace.core.pipeline.model import Watermark
from headrace.core.plan import nodes
from headrace.core.watermarks import Watermarks


@dataclass(slots=True)
class Timing:
    """Tracks the event time of a reader's splits.

    `report` sends the watermark of the slowest split to the coordinator, if drift is limited.
    """

    reading: Reading
    time_of: TimeOf
    watermarks: Watermarks
    looks: Looks | None = None
    reports: Reports | None = None
    report: Callable[[int | None], None] = lambda at_us: None
    _held: frozenset[Split] = frozenset()

    def mind(self, now: float) -> None:
        """Update idleness and paused splits to the current time."""
        if self.looks is not None and now >= self.looks.at:
            self.watermarks.idle(self.looks.idle(now, self.reading.exhausted()))
        if self.reports is not None:
            self._keep_together(self.reports, now)

    def again_at(self) -> float | None:
        """Return the time of the next update that is due even if no rows arrive; None: none."""
        look = None if self.looks is None else self.looks.at
        report = None if self.reports is None else self.reports.due(self.watermarks.slowest_us)
        return min((at for at in (look, report) if at is not None), default=None)

    def hold(self, until_us: int) -> None:
        """Pause the splits whose watermark is past this time."""
        if self.reports is not None:
            self.reports.until_us = until_us

    def _keep_together(self, reports: Reports, now: float) -> None:
        """Pause the splits that are too far ahead, and report the slowest split if that is due."""
        held = self.watermarks.beyond(reports.until_us)
        if held != self._held:
            self._held = held
            self.reading.hold(held)
        at_us = self.watermarks.slowest_us
        due = reports.due(at_us)
        if due is not None and due <= now:
            self.report(at_us)
            reports.told(at_us, now)


def timing(
    source: nodes.Source,
    reading: Reading,
    folder: Path,
    report: Callable[[int | None], None],
    *,
    ordered: bool,
) -> Timing:
    """Build the watermark generator of a source of the pipeline in that folder.

    `ordered`: later splits hold no earlier rows.
    """
    wanted = source.watermark or Watermark()
    return Timing(
        reading,
        time_of(source, folder),
        Watermarks(ordered),
        None if wanted.idle is None else Looks(wanted.idle.total_seconds()),
        None if wanted.max_drift is None else Reports(),
        report,
    )
