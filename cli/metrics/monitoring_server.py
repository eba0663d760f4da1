"""`--http PORT`: serves metrics and health of a job over TCP, read-only, to this machine only.

The server runs on the loop of the job: so an answer of `/live` also shows that the loop is alive.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection

from headrace.cli.control.http_messages import Request, Response, make_response
from headrace.cli.control.http_server import HttpRoute, run_server
from headrace.cli.metrics.samples import JobSample
from headrace.core.job.job import Job
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MonitoringServer:
    """The monitoring server of one job."""

    listener: socket.socket
    version: str
    report_bug: Callable[[BaseException], None] = lambda error: None
    """Called with an exception that is a bug in headrace."""
    hosts: Collection[str] = ()
    """The names of this host that requests may have, beside localhost."""

    async def watch(self, job: Job) -> None:
        """Serve until cancelled."""
        routes = build_monitoring_routes(job, self.version)
        async with run_server(routes, self.listener, self.report_bug, hosts=self.hosts):
            await asyncio.get_running_loop().create_future()


def build_monitoring_routes(job: Job, version: str) -> list[HttpRoute]:
    """Return the routes of monitoring."""
    from headrace.cli.metrics.exposition import CONTENT_TYPE, JobCollector

    scrapes = JobCollector(lambda: JobSample.take(job, version))

    async def metrics(request: Request) -> Response:
        return Response(200, scrapes.render_text(), CONTENT_TYPE)

    async def live(request: Request) -> Response:
        return make_response(
            503 if has_failed(job) else 200, {"status": job.status, "pid": os.getpid()}
        )

    async def ready(request: Request) -> Response:
        return make_response(200 if job.status == "running" else 503, {"status": job.status})

    return [
        HttpRoute("GET", "/metrics", metrics),
        HttpRoute("GET", "/live", live),
        HttpRoute("GET", "/ready", ready),
    ]


def has_failed(job: Job) -> bool:
    """Whether the job has failed for good, and its process is about to end."""
    return job.status == "over" and job.failure is not None
