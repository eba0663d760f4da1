"""Exposition of a job's metrics in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.registry import Collector

from headrace.cli.metrics import metric_table
from headrace.cli.metrics.samples import JobSample

__all__ = ["CONTENT_TYPE", "JobCollector"]


class JobCollector(Collector):
    """A collector that reads all metrics at each scrape, from the sample that `look` returns."""

    def __init__(self, look: Callable[[], JobSample]) -> None:
        self._look = look
        self._registry = CollectorRegistry()
        # Not prometheus_client's default registry, which other code in this process may use.
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def render_text(self) -> bytes:
        """Return the text of all metrics now."""
        return generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without values."""
        return (_make_family(metric) for metric in metric_table.METRICS)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the table with their values."""
        figures = self._look()
        for metric in metric_table.METRICS:
            family = _make_family(metric)
            for labels, value in metric.read(figures):
                if isinstance(family, SummaryMetricFamily):
                    assert metric.count is not None, metric
                    family.add_metric(labels, metric.count(figures), value)
                else:
                    family.add_metric(labels, value)
            yield family


def _make_family(
    metric: metric_table.Metric,
) -> CounterMetricFamily | GaugeMetricFamily | SummaryMetricFamily:
    match metric.kind:
        case "counter":
            return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        case "gauge":
            return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        case "summary":
            return SummaryMetricFamily(metric.name, metric.help, labels=metric.labels)
