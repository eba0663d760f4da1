"""A receiver of OpenTelemetry's protocol over HTTP, which keeps what exporters send."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Point = tuple[Mapping[str, str], float]


@dataclass(slots=True)
class Received:
    """The messages that a receiver has got."""

    metrics: list[Any] = field(default_factory=list)
    traces: list[Any] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    def list_points(self, at: int = -1) -> dict[str, list[Point]]:
        """Return the points of one message by their metric."""
        (resource,) = self.metrics[at].resource_metrics
        (scope,) = resource.scope_metrics
        return {
            metric.name: [
                (read_attributes(point), point.as_double or point.as_int)
                for point in getattr(metric, metric.WhichOneof("data")).data_points
            ]
            for metric in scope.metrics
            if metric.WhichOneof("data")  # else it has no points
        }

    def list_spans(self) -> list[Any]:
        """Return all spans."""
        return [
            span
            for message in list(self.traces)
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def read_attributes(element: Any) -> dict[str, Any]:
    """Return the attributes of an element as plain values."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in element.attributes
    }


@contextmanager
def receiving(port: int = 0) -> Iterator[tuple[str, Received]]:
    """Yield the URL of a receiver, and what it receives."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            is_metrics = self.path == "/v1/metrics"
            assert is_metrics or self.path == "/v1/traces"
            message = ExportMetricsServiceRequest() if is_metrics else ExportTraceServiceRequest()
            message.ParseFromString(body)
            received.headers.append({k.lower(): v for k, v in self.headers.items()})
            (received.metrics if is_metrics else received.traces).append(message)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()
