"""`--otlp URL`: sends the metrics and spans of a job to a receiver of OpenTelemetry, over HTTP.

A sample is taken on the loop of the job, and sent by a thread of its own: one at a time, so that a
receiver that is slow or down neither stops nor slows the job. Its failure is reported once, as is
its return.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import field
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headrace.cli.metrics.job_spans import JobSpan, SpanCollector
from headrace.cli.metrics.samples import JobSample
from headrace.core.api.failures import ConnectorError
from headrace.core.job.job import Job
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.cli.metrics.otlp.export_sender import ExportSender

TICK_S = 1.0
INTERVAL_S = 10.0
"""The time between two exports."""
LAST_S = 1.0
"""The longest time that the end of a job waits for its last export."""
POLL_S = 0.02
SDK_MODULES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def check_receiver(url: str) -> str:
    """Return the URL of a receiver without a slash at its end.

    Raises ConnectorError if it is none, or if OpenTelemetry is not installed.

    >>> check_receiver("http://127.0.0.1:4318/")
    'http://127.0.0.1:4318'
    """
    _check_url(url)
    for module in SDK_MODULES:
        if not _is_installed(module):
            message = f"--otlp needs OpenTelemetry, and {module} is not installed"
            hint = 'pip install "headrace[otlp]" installs it'
            raise ConnectorError(message, hint, exit_status=2)
    return url.rstrip("/")


def _is_installed(module: str) -> bool:
    """Whether a module can be imported; it is not, since it takes as much memory as a server."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        hint = "as in http://127.0.0.1:4318, to which /v1/metrics and /v1/traces are added"
        raise ConnectorError("--otlp: wanted the URL of a receiver", hint, exit_status=2)
    if parts.username is not None or parts.query or parts.fragment:
        hint = "OTEL_EXPORTER_OTLP_HEADERS has the headers to send, such as Authorization"
        message = "--otlp: wanted a URL without a user, a query and a fragment"
        raise ConnectorError(message, hint, exit_status=2)


@dataclass(slots=True)
class OtlpExport:
    """The export of one job."""

    url: str
    version: str
    report_warning: Callable[[str], None]
    interval_s: float = INTERVAL_S
    spans: SpanCollector = field(default_factory=SpanCollector)
    export_count: int = 0
    """The number of exports that were begun."""
    _sending: tuple[JobSpan, ...] = ()
    """The spans of the export that is running; they are pending until they are sent."""
    _thread: threading.Thread | None = None
    """The thread of the export that is running, or whose result was not looked at yet."""
    _failure: str = ""
    """Why the last export failed."""
    _reported: bool = False
    """Whether the user knows of the failure."""

    async def watch(self, job: Job) -> None:
        """Export until cancelled; then export what there is at the end."""
        from headrace.cli.metrics.otlp.export_sender import ExportSender

        now_us = time.time_ns() // 1000
        name, id = str(job.plan.name), job.spec.run_context.job_id
        sender = ExportSender(self.url, name, id, self.version, now_us)
        loop = asyncio.get_running_loop()
        due = loop.time()
        try:
            while True:
                await asyncio.sleep(min(TICK_S, self.interval_s))
                self.spans.watch_restarts(job, time.time_ns() // 1000)
                if self._finish() and loop.time() >= due:
                    due = loop.time() + self.interval_s
                    self._start(sender, job)
        finally:
            await self._export_last(sender, job)

    def _start(self, sender: ExportSender, job: Job) -> None:
        """Take a sample, and send it in a thread."""
        sample = JobSample.take(job, self.version)
        self.spans.collect(sample)
        self._sending = tuple(self.spans.pending)
        # The end of the process does not wait for a daemon.
        self._thread = threading.Thread(
            target=self._send, args=(sender, sample), name="otlp", daemon=True
        )
        self._thread.start()
        self.export_count += 1

    def _send(self, sender: ExportSender, sample: JobSample) -> None:
        try:
            self._failure = sender.send(sample, self._sending, time.time_ns() // 1000)
        except Exception as error:  # whatever it is, the next export may do without it
            self._failure = f"{type(error).__name__}: {error}"

    def _finish(self) -> bool:
        """Report the result of the export that has ended; return whether none is running."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self._thread = None
        if not self._failure:
            self.spans.drop_sent(self._sending)
        self._sending = ()
        if self._failure and not self._reported:
            self.report_warning(
                f"OTLP: {self.url} does not take metrics and traces: {self._failure}; the job "
                f"continues, and tries again every {self.interval_s:.0f} s"
            )
        elif self._reported and not self._failure:
            self.report_warning(f"OTLP: {self.url} takes metrics and traces again")
        self._reported = bool(self._failure)
        return True

    async def _export_last(self, sender: ExportSender, job: Job) -> None:
        """Export the last sample, unless the receiver is down or slow."""
        until = time.monotonic() + LAST_S
        if await self._wait(until) and self._finish() and not self._failure:
            self._start(sender, job)
            if await self._wait(until):
                self._finish()

    async def _wait(self, until: float) -> bool:
        """Wait until no export is running; return whether that is so in time."""
        while self._thread is not None and self._thread.is_alive():
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(POLL_S)
        return True
