"""The dashboard of deploy/ asks for metrics and labels that a scrape has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from docs.snippets import ROOT
from headrace.cli.metrics.metric_table import METRICS

LABELS = {name: set(metric.labels) for metric in METRICS for name in metric.sample_names}
DASHBOARD: Any = json.loads((ROOT / "deploy" / "grafana.json").read_text("utf-8"))
VARIABLES = {each["name"] for each in DASHBOARD["templating"]["list"]}
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"]}
BUILT_IN = {"__rate_interval"}


def list_queries(panel: Any) -> Iterator[tuple[str, str]]:
    """Yield the expression and the legend of each query of a panel."""
    for target in panel["targets"]:
        assert (
            target["datasource"]
            == panel["datasource"]
            == {
                "type": "prometheus",
                "uid": "${datasource}",
            }
        )
        yield target["expr"], target["legendFormat"]


@pytest.mark.parametrize("title", PANELS)
def test_a_panel_asks_for_metrics_and_labels_that_are_exported(title: str) -> None:
    queries = [*list_queries(PANELS[title])]
    assert queries
    for query, legend in queries:
        names = re.findall(r"\bheadrace_\w+", query)
        assert names and set(names) <= LABELS.keys()
        for name, matchers in re.findall(r"\b(headrace_\w+)\{(.*?)\}", query):
            assert "job" in re.findall(r"(\w+)=", matchers)
            assert set(re.findall(r"(\w+)=", matchers)) <= LABELS[name]
        grouped = re.search(r"by \((.*?)\)", query)
        kept = (
            set(grouped[1].split(", "))
            if grouped
            else set.intersection(*(LABELS[name] for name in names))
        )
        for name in names:
            assert kept <= LABELS[name]
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= kept
        assert set(re.findall(r"\$(\w+)", query)) <= VARIABLES | BUILT_IN


@pytest.mark.parametrize("title", PANELS)
def test_a_rate_is_of_a_counter_and_nothing_else_is(title: str) -> None:
    kinds = {name: metric.kind for metric in METRICS for name in metric.sample_names}
    for query, _ in list_queries(PANELS[title]):
        rated = set(re.findall(r"(?:rate|increase)\((headrace_\w+)", query))
        for name in set(re.findall(r"\bheadrace_\w+", query)):
            assert (kinds[name] == "counter") == (name in rated)


def test_the_variable_lists_the_jobs() -> None:
    (job,) = (each for each in DASHBOARD["templating"]["list"] if each["name"] == "job")
    name, label = re.findall(r"label_values\((\w+), (\w+)\)", job["query"]["query"])[0]
    assert label in LABELS[name]


def test_no_two_panels_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(PANELS)
