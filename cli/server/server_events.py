"""The stream of events of the server: its jobs, the figures of one job, and rows that pass in it.

The server reads each job's own stream once for all viewers of the same figures or rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import aclosing
from functools import partial
from typing import Any

from headrace.cli.control.event_streams import StreamEvent, build_error_event
from headrace.cli.control.http_messages import RequestError, StreamedResponse
from headrace.cli.control.shared_feeds import Feed, Publish, SharedFeeds
from headrace.cli.control.stream_request import StreamRequest
from headrace.cli.server.job_forwarding import stream_events
from headrace.core.api.taps import TapRequest
from headrace.core.types.lazy_dataclass import dataclass

JOBS_INTERVAL_S = 2.0
RETRY_INTERVAL_S = 1.0
"""The time after which a job that has not answered is asked again."""

MAX_FEEDS = 80
"""The most jobs and taps of all streams: each is a stream of a job, which may have more of them."""


@dataclass(frozen=True, slots=True)
class ServerEvents:
    """The feeds of a server."""

    describe_jobs: Callable[[], Awaitable[dict[str, Any]]]
    """Returns all jobs, as `GET /v1/jobs` does."""
    find_folder: Callable[[str], str]
    """Returns the folder of a job's home. Raises RequestError."""
    feeds: SharedFeeds

    def open_stream(self, wanted: StreamRequest) -> StreamedResponse:
        """Return the stream of the events that a viewer wants. Raises RequestError."""
        feeds: dict[Hashable, Feed] = {}
        if wanted.has_jobs:
            feeds["jobs"] = self._publish_jobs
        if wanted.job is not None:
            folder = self.find_folder(wanted.job)
            body: dict[str, Any] = {"job": wanted.job}
            feeds["job", wanted.job] = partial(self._follow_job, folder, body, None)
            for tap in wanted.taps:
                body = {"taps": [tap.build_document()]}
                feeds["tap", wanted.job, tap] = partial(self._follow_job, folder, body, tap)
        elif wanted.taps:
            raise RequestError(400, "malformed", "taps: wanted the name of their job in job")
        return self.feeds.open_stream(feeds)

    async def _publish_jobs(self, publish: Publish) -> None:
        last: dict[str, Any] | None = None
        while True:
            found = await self.describe_jobs()
            if found != last:
                publish(StreamEvent("jobs", found))
            last = found
            await asyncio.sleep(JOBS_INTERVAL_S)

    async def _follow_job(
        self, folder: str, body: dict[str, Any], tap: TapRequest | None, publish: Publish
    ) -> None:
        """Publish the events of a job's own stream, as often as the job runs."""
        failed = ""
        while True:
            try:
                async with aclosing(stream_events(folder, "/v1/events", body)) as events:
                    async for kind, data in events:
                        if kind != "error":
                            failed = ""
                        elif failed == data["message"]:
                            continue
                        else:
                            failed = data["message"]
                        publish(StreamEvent(kind, data, tap.key if tap else ""))
            except RequestError as error:
                if failed != error.message:
                    publish(build_error_event(error.code, error.message, error.hint, tap))
                failed = error.message
            await asyncio.sleep(RETRY_INTERVAL_S)
