"""A scrape: the figures of a job as the text that Prometheus reads."""

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

from headrace.cli.metrics import table
from headrace.cli.metrics.figures import Figures

__all__ = ["CONTENT_TYPE", "Scrapes"]


class Scrapes(Collector):
    """Reads all figures when it is asked, and nothing before. `look` gives them."""

    def __init__(self, look: Callable[[], Figures]) -> None:
        self._look = look
        self._registry = CollectorRegistry()
        # Not that of prometheus_client, which is of whoever else lives in this process.
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def text(self) -> bytes:
        """All metrics now."""
        return generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """The names; nothing is read for that."""
        return (_family(metric) for metric in table.METRICS)

    def collect(self) -> Iterator[Metric]:
        """All that is in the table."""
        figures = self._look()
        for metric in table.METRICS:
            family = _family(metric)
            for labels, value in metric.read(figures):
                if isinstance(family, SummaryMetricFamily):
                    assert metric.count is not None, metric
                    family.add_metric(labels, metric.count(figures), value)
                else:
                    family.add_metric(labels, value)
            yield family


def _family(metric: table.Metric) -> CounterMetricFamily | GaugeMetricFamily | SummaryMetricFamily:
    match metric.kind:
        case "counter":
            return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        case "gauge":
            return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        case "summary":
            return SummaryMetricFamily(metric.name, metric.help, labels=metric.labels)
