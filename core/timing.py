"""What a source's subtask does about time beside reading rows.

It asks rows for their time, looks for idle splits, and lets splits wait that are too far ahead. It
is handed the loop's times, waits for nothing, and says when it wants to be asked again.
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
    """`report` takes how far the slowest split has come, where splits are to keep together."""

    reading: Reading
    time_of: TimeOf
    watermarks: Watermarks
    looks: Looks | None = None
    reports: Reports | None = None
    report: Callable[[int | None], None] = lambda at_us: None
    _held: frozenset[Split] = frozenset()

    def mind(self, now: float) -> None:
        """Do what there is to do at this time, or has come to be since the last."""
        if self.looks is not None and now >= self.looks.at:
            self.watermarks.idle(self.looks.idle(now, self.reading.exhausted()))
        if self.reports is not None:
            self._keep_together(self.reports, now)

    def again_at(self) -> float | None:
        """When there is something to do next, though nothing may have come."""
        look = None if self.looks is None else self.looks.at
        report = None if self.reports is None else self.reports.due(self.watermarks.slowest_us)
        return min((at for at in (look, report) if at is not None), default=None)

    def hold(self, until_us: int) -> None:
        """Splits that have come further than this are to wait."""
        if self.reports is not None:
            self.reports.until_us = until_us

    def _keep_together(self, reports: Reports, now: float) -> None:
        """Let splits wait that are too far ahead of others, and tell how far the others are."""
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
    """As the pipeline in that folder wants it; `ordered`: later splits hold no earlier rows."""
    wanted = source.watermark or Watermark()
    return Timing(
        reading,
        time_of(source, folder),
        Watermarks(ordered),
        None if wanted.idle is None else Looks(wanted.idle.total_seconds()),
        None if wanted.max_drift is None else Reports(),
        report,
    )
