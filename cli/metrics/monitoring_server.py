"""`--http PORT`: serves metrics and health of a job over TCP, read-only, to this machine only.

The server runs on the loop of the job: so an answer of `/live` also shows that the loop is alive.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Collection

from headrace.cli.control.http_messages import Request, Response, make_response
from headrace.cli.control.http_server import HttpRoute, run_server
from headrace.cli.metrics.samples import JobSample
from headrace.core.job.job import Job
from headrace.core.types.lazy_dataclass import dataclass

HOST = "127.0.0.1"
LISTEN_BACKLOG = 128
"""Connections that the system queues while the loop is busy."""


class PortUnavailable(Exception):
    """The port cannot be used: the reason, and a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def open_port(port: int) -> socket.socket:
    """Open a socket that listens on the port; 0 is any free port. Raises PortUnavailable."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((HOST, port))
        made.listen(LISTEN_BACKLOG)
    except OSError as error:
        made.close()
        why = (error.strerror or str(error)).lower()
        is_taken = error.errno == errno.EADDRINUSE
        prefix = "another process listens there: " if is_taken else ""
        hint = f"{prefix}choose another port, or 0 for any free port"
        raise PortUnavailable(
            f"--http {port}: cannot listen on {HOST}:{port}: {why}", hint
        ) from None
    return made


def format_url(listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    _, port = listening.getsockname()
    return f"http://{HOST}:{port}"


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
