"""Metrics and spans of a job in OpenTelemetry's form, and the exporters that send them.

Loaded only for a run with `--otlp`, because it imports OpenTelemetry's SDK.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from headrace.cli.metrics import metric_table
from headrace.cli.metrics.job_spans import JobSpan
from headrace.cli.metrics.samples import JobSample

TIMEOUT_S = 5.0
"""The longest time that an export takes, with all its retries."""
LOGGER = "opentelemetry"


class ExportSender:
    """Sends metrics and spans to a receiver; each call waits for the answer."""

    def __init__(self, url: str, job: str, job_id: str, version: str, started_us: int) -> None:
        self._resource = Resource(
            {"service.name": job, "service.instance.id": job_id, "service.version": version}
        )
        self._scope = InstrumentationScope("headrace", version)
        self._started_ns = started_us * 1000
        self._metrics = OTLPMetricExporter(endpoint=f"{url}/v1/metrics", timeout=TIMEOUT_S)
        self._spans = OTLPSpanExporter(endpoint=f"{url}/v1/traces", timeout=TIMEOUT_S)
        self._messages = _capture_messages()

    def send(self, sample: JobSample, spans: Sequence[JobSpan], now_us: int) -> str:
        """Send a sample of now, and spans; return why one of them was not taken, or nothing."""
        self._messages.first = ""
        sent = (
            self._metrics.export(self.build_metrics(sample, now_us)) is MetricExportResult.SUCCESS
        )
        if sent and spans:
            built = [self.build_span(each) for each in spans]
            sent = self._spans.export(built) is SpanExportResult.SUCCESS
        return "" if sent else self._messages.first or "it was not taken"

    def build_metrics(self, sample: JobSample, now_us: int) -> MetricsData:
        """Return all metrics of the table with their values; the resource has the job's name."""
        metrics = [
            each for row in metric_table.METRICS for each in self._build_rows(row, sample, now_us)
        ]
        scope = ScopeMetrics(self._scope, metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def build_span(self, span: JobSpan) -> ReadableSpan:
        """Return a span, which is a trace of its own."""
        context = SpanContext(
            random.getrandbits(128) or 1,
            random.getrandbits(64) or 1,
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
        return ReadableSpan(
            span.name,
            context,
            resource=self._resource,
            attributes=dict(span.attributes),
            status=Status(StatusCode.ERROR, span.failure) if span.failure else Status(),
            start_time=span.start_us * 1000,
            end_time=span.end_us * 1000,
            instrumentation_scope=self._scope,
        )

    def _build_rows(
        self, row: metric_table.Metric, sample: JobSample, now_us: int
    ) -> Iterator[Metric]:
        """Yield a metric; a summary is two of them, its count and its sum."""
        read = list(row.read(sample))
        values = [read]
        if row.count is not None:
            values.insert(0, [(labels, row.count(sample)) for labels, _ in read])
        for name, each in zip(row.sample_names, values, strict=True):
            points = [
                # The first label is the job's name, which the resource has.
                NumberDataPoint(
                    dict(zip(row.labels[1:], labels[1:], strict=True)),
                    self._started_ns,
                    now_us * 1000,
                    value,
                )
                for labels, value in each
            ]
            if row.kind == "gauge":
                yield Metric(name, row.help, "", Gauge(points))
            else:
                total = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
                yield Metric(name, row.help, "", total)


class _FirstMessage(logging.Handler):
    """Keeps the first message of an export, and prints none."""

    first = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.first = self.first or record.getMessage()


def _capture_messages() -> _FirstMessage:
    """Take the messages of the SDK, which would be printed again and again."""
    handler, logger = _FirstMessage(), logging.getLogger(LOGGER)
    logger.handlers, logger.propagate = [handler], False
    return handler
