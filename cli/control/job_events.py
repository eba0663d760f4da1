"""The stream of events of one job: its figures, and rows that pass in it."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import TYPE_CHECKING

from headrace.cli.control.event_streams import StreamEvent
from headrace.cli.control.http_messages import Request, StreamedResponse
from headrace.cli.control.shared_feeds import Feed, Publish
from headrace.cli.control.stream_request import parse_stream_request
from headrace.cli.control.tap_rows import TapFeed
from headrace.cli.job_diagnosis import build_findings_document
from headrace.core.job.statistics import collect_job_statistics
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.cli.control.job_control import JobControl

FIGURES_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class JobEvents:
    """The feeds of a job, and the handler that streams them."""

    control: JobControl

    async def open_stream(self, request: Request) -> StreamedResponse:
        """Answer with the events of a job that the body names."""
        wanted = parse_stream_request(request.body)
        feeds: dict[Hashable, Feed] = {}
        if wanted.job is not None:
            feeds["job"] = self._publish_figures
        for tap in wanted.taps:
            feeds["tap", tap] = TapFeed(self.control.job, tap).run
        return self.control.feeds.open_stream(feeds)

    async def _publish_figures(self, publish: Publish) -> None:
        job, diagnosis = self.control.job, self.control.summary.diagnosis
        while True:
            data = {
                "name": str(job.plan.name),
                "statistics": collect_job_statistics(job),
                "findings": build_findings_document(job, diagnosis),
            }
            publish(StreamEvent("job", data))
            await asyncio.sleep(FIGURES_INTERVAL_S)
