"""The reader of `expect`: the rows of streams, a failure, and counters."""

from __future__ import annotations

from typing import Any

from headrace.core.pipeline.pipeline_tests.model import (
    METRICS,
    Expectation,
    GivenRow,
    StreamExpectation,
)
from headrace.core.pipeline.pipeline_tests.section_nodes import SectionNodes, locate_node
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    ScalarReading,
    choice_of,
    decimal_number,
    expression,
    flag,
    whole_number,
)
from headrace.core.pipeline.yaml_document.nodes import YamlSequence

STREAM_KEYS = ("rows", "contains", "count", "where", "match", "within", "ordered", "changelog")
CHECKS = ("rows", "contains", "count", "where")
MESSAGE_PART = ScalarReading("a part of the message", lambda text: text)
MATCH = choice_of("all", "subset")


class ExpectationReader:
    """Reads the expectations of one time."""

    def __init__(self, nodes: SectionNodes) -> None:
        self.nodes = nodes

    def read(self, spot: KeyedNode) -> Expectation | None:
        """Return the expectations; None if there are none."""
        wanted = "a mapping of streams, such as {totals: [{user: a, total: 5}]}"
        entries = self.nodes.read_entries(spot, wanted)
        if entries is None:
            return None
        if not entries:
            place = locate_node(spot.node)
            hint = "as in expect: {totals: [{user: a, total: 5}]}"
            self.nodes.report("expect: wanted a stream, got none", place, hint)
        streams, failure = list[StreamExpectation](), None
        metrics, spots = dict[Text, int](), dict[Text, KeyedNode]()
        for key, each in entries.items():
            if key == "fails":
                failure = self.nodes.read_scalar(each, MESSAGE_PART)
            elif key == "metrics":
                metrics, spots = self._read_metrics(each)
            elif (stream := self._read_stream(each)) is not None:
                streams.append(stream)
        return Expectation(tuple(streams), failure, metrics, spots)

    def _read_metrics(self, spot: KeyedNode) -> tuple[dict[Text, int], dict[Text, KeyedNode]]:
        wanted = f"a mapping of counters: {', '.join(METRICS)}"
        found = self.nodes.read_known(spot, wanted, METRICS) or {}
        values = {
            each.key: self.nodes.read_scalar(each, whole_number(0)) for each in found.values()
        }
        metrics = {key: value for key, value in values.items() if value is not None}
        return metrics, {each.key: each for each in found.values()}

    def _read_stream(self, spot: KeyedNode) -> StreamExpectation | None:
        if isinstance(spot.node, YamlSequence) or self.nodes.is_row_file(spot):
            rows = self.nodes.read_rows(spot)
            if rows is None:
                return None
            return StreamExpectation(spot.key, spot.key.locate(), rows, spots={"rows": spot})
        wanted = f"a list of rows ([] is none), or a mapping with {', '.join(STREAM_KEYS)}"
        entries = self.nodes.read_known(spot, wanted, STREAM_KEYS)
        if entries is None:
            return None
        if not entries.keys() & {*CHECKS}:
            message = f"{spot.key}: nothing is compared"
            self.nodes.report(message, spot.key.locate(), f"add one of {', '.join(CHECKS)}")
        elif "within" in entries and not entries.keys() & {"rows", "contains"}:
            message = "within: there are no rows to compare"
            self.nodes.report(message, entries["within"].key.locate(), "add rows or contains")
        return StreamExpectation(
            spot.key,
            spot.key.locate(),
            self._read_rows(entries.get("rows")),
            self._read_rows(entries.get("contains")),
            self._read(entries, "count", whole_number(0)),
            self._read(entries, "where", expression),
            self._read(entries, "match", MATCH) == "subset",
            self._read(entries, "within", decimal_number(0)) or 0.0,
            bool(self._read(entries, "ordered", flag)),
            bool(self._read(entries, "changelog", flag)),
            entries,
        )

    def _read_rows(self, spot: KeyedNode | None) -> tuple[GivenRow, ...] | None:
        return None if spot is None else self.nodes.read_rows(spot)

    def _read(self, entries: dict[str, KeyedNode], key: str, reading: ScalarReading) -> Any:
        return self.nodes.read_scalar(entries[key], reading) if key in entries else None
