"""The reader of tests: from nodes to events and expectations, with all mistakes in their form.

Whether names and values fit the pipeline is checked with its plan (`core/testing/bound_tests`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Literal

from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.node_resolver import quote_key
from headrace.core.pipeline.pipeline_tests.expectations import ExpectationReader
from headrace.core.pipeline.pipeline_tests.model import (
    BadRecords,
    ClockAdvance,
    ControlEvent,
    Event,
    GivenRow,
    GivenRows,
    IdleSplits,
    PipelineTest,
    PlacedEvent,
    RaisedWatermark,
    Rescale,
)
from headrace.core.pipeline.pipeline_tests.section_nodes import SectionNodes, locate_node
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    InvalidScalar,
    ScalarReading,
    flag,
    positive_duration,
    whole_number,
)
from headrace.core.pipeline.yaml_document.nodes import YamlScalar, YamlSequence

TEST_KEYS = ("name", "date", "given", "tables", "end", "expect")
CONTROLS: tuple[Literal["checkpoint", "restart", "savepoint"], ...] = (
    "checkpoint",
    "restart",
    "savepoint",
)
EVENT_HINT = "as in - orders: [{id: 1}], - watermark: {orders: ...}, - checkpoint"
MAX_PARALLELISM = 64
MAX_SPLITS = 1000


def _parse_date(text: Text) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidScalar from None


def _parse_title(text: Text) -> Text:
    if not text.strip():
        raise InvalidScalar
    return text


DAY = ScalarReading("a date such as 2026-01-31", _parse_date)
TITLE = ScalarReading("a name, such as a late order goes aside", _parse_title)
ANY_TEXT = ScalarReading("some text", lambda text: text)
SPLIT_NUMBER = whole_number(0, MAX_SPLITS - 1)


class PipelineTestReader:
    """Reads the tests of one pipeline; `nodes` resolves values and collects the problems."""

    def __init__(self, nodes: SectionNodes) -> None:
        self.nodes = nodes
        self.tests: list[PipelineTest] = []
        self._readers: dict[str, Callable[[KeyedNode], Iterator[Event | None]]] = {
            "rows": lambda spot: self._read_named(spot, self._read_rows),
            "splits": lambda spot: self._read_named(spot, self._read_splits),
            "watermark": lambda spot: self._read_named(spot, self._read_watermark),
            "bad": lambda spot: self._read_named(spot, self._read_bad_records),
            "idle": lambda spot: self._read_named(spot, self._read_idle_splits),
            "advance": self._read_advance,
            "rescale": self._read_rescale,
            "expect": lambda spot: iter([ExpectationReader(self.nodes).read(spot)]),
        }

    def read(self, spot: KeyedNode) -> None:
        """Read a list of tests, and add those without mistakes in their form."""
        self.nodes.subject = ""
        for item in self.nodes.read_items(spot, "a list of tests") or ():
            self.nodes.subject = ""
            self._read_test(item)

    def _read_test(self, spot: KeyedNode) -> None:
        wanted = "a test, such as {name: ..., given: [...], expect: {...}}"
        entries = self.nodes.read_known(spot, wanted, TEST_KEYS)
        if entries is None:
            return
        name = self._read_name(spot, entries)
        if name is None:
            return
        self.nodes.subject = f'test "{name}"'
        day = self.nodes.read_scalar(entries["date"], DAY) if "date" in entries else None
        events = list(self._read_events(entries))
        tables = self.read_tables(entries["tables"]) if "tables" in entries else {}
        self.tests.append(PipelineTest(name, name.locate(), day, tuple(events), tables))

    def _read_name(self, spot: KeyedNode, entries: dict[str, KeyedNode]) -> Text | None:
        """Return the name of a test, which no other test has."""
        if "name" not in entries:
            place = spot.node.file.locate(spot.node.start, spot.node.start + 1)
            self.nodes.report('a test without "name"', place, "as in - name: a late order")
            return None
        name: Text | None = self.nodes.read_scalar(entries["name"], TITLE)
        if name is None:
            return None
        same = next((test for test in self.tests if test.name == name), None)
        if same is not None:
            message = f"a second test {quote_key(name)}, the first is on line {same.location.line}"
            self.nodes.report(message, name.locate())
        return name

    def _read_events(self, entries: dict[str, KeyedNode]) -> Iterator[PlacedEvent]:
        given = entries.get("given")
        for item in self.nodes.read_items(given, "a list of events") or () if given else ():
            for event in self._read_item(item):
                if event is not None:
                    yield PlacedEvent(locate_node(item.node), event)
        if "end" not in entries or self.nodes.read_scalar(entries["end"], flag):
            last = entries.get("expect") or given or entries["name"]
            yield PlacedEvent(last.key.locate(), ControlEvent("end"))
        if "expect" in entries:
            event = ExpectationReader(self.nodes).read(entries["expect"])
            if event is not None:
                yield PlacedEvent(entries["expect"].key.locate(), event)
        elif given is None:
            self.nodes.report("neither given nor expect", entries["name"].key.locate(), EVENT_HINT)

    def _read_item(self, item: KeyedNode) -> Iterator[Event | None]:
        if isinstance(item.node, YamlScalar):
            yield self._read_control(item)
            return
        entries = self.nodes.read_entries(item, f"an event, {EVENT_HINT}")
        if entries is None:
            return
        if len(entries) != 1:
            message = f"wanted one event in an item of the list, got {len(entries)}"
            hint = "each event begins with its own dash" if entries else EVENT_HINT
            self.nodes.report(message, locate_node(item.node), hint)
            return
        ((key, spot),) = entries.items()
        if key in CONTROLS:
            self.nodes.report(f"{key}: has no value", key.locate(), f"write it as - {key}")
        else:
            yield from self.read_event(spot)

    def read_event(self, spot: KeyedNode) -> Iterator[Event | None]:
        """Yield the events of a word and its value, or of a source and its rows."""
        if spot.key in self._readers:
            yield from self._readers[spot.key](spot)
        else:
            yield self._read_rows(spot)

    def _read_control(self, item: KeyedNode) -> ControlEvent | None:
        word: Text | None = self.nodes.read_scalar(item, ANY_TEXT)
        for control in CONTROLS:
            if word == control:
                return ControlEvent(control)
        if word is not None:
            message = f'wanted {", ".join(CONTROLS[:-1])} or {CONTROLS[-1]}, got "{word}"'
            hint = suggest_name(word, CONTROLS) or f"other events have a value, {EVENT_HINT}"
            self.nodes.report(message, word.locate(), hint)
        return None

    def _read_named(
        self, spot: KeyedNode, read: Callable[[KeyedNode], Event | None]
    ) -> Iterator[Event | None]:
        """Yield an event for each source in a mapping."""
        wanted = f"a mapping by source, such as {spot.key}: {{orders: ...}}"
        entries = self.nodes.read_entries(spot, wanted)
        if entries is not None and not entries:
            self.nodes.report(f"{spot.key}: wanted a source, got none", locate_node(spot.node))
        for each in (entries or {}).values():
            yield read(each)

    def _read_rows(self, spot: KeyedNode) -> GivenRows | None:
        rows = self.nodes.read_rows(spot)
        return None if rows is None else GivenRows(spot.key, (rows,))

    def _read_splits(self, spot: KeyedNode) -> GivenRows | None:
        items = self._list_items(spot, "rows of each split")
        splits = [rows for each in items if (rows := self.nodes.read_rows(each)) is not None]
        if len(splits) > MAX_SPLITS:
            self.nodes.report(f"more than {MAX_SPLITS} splits", spot.key.locate())
        return GivenRows(spot.key, tuple(splits)) if splits else None

    def _read_watermark(self, spot: KeyedNode) -> RaisedWatermark | None:
        time: Text | None = self.nodes.read_scalar(spot, ANY_TEXT)
        return None if time is None else RaisedWatermark(spot.key, time)

    def _read_bad_records(self, spot: KeyedNode) -> BadRecords | None:
        items = self._list_items(spot, "a record as text, or several")
        texts = [self.nodes.read_scalar(item, ANY_TEXT) for item in items]
        return BadRecords(spot.key, tuple(text for text in texts if text is not None))

    def _read_idle_splits(self, spot: KeyedNode) -> IdleSplits | None:
        found = [
            (Text(each.node.value, each.node), number)
            for each in self._list_items(spot, "the number of a split, or several")
            if (number := self.nodes.read_scalar(each, SPLIT_NUMBER)) is not None
            and isinstance(each.node, YamlScalar)
        ]
        return IdleSplits(spot.key, tuple(found))

    def _list_items(self, spot: KeyedNode, wanted: str) -> tuple[KeyedNode, ...]:
        """Return the items of a list, which is not empty, or the only item without a list."""
        if not isinstance(spot.node, YamlSequence):
            return (spot,)
        if not spot.node.items:
            self.nodes.report(f"{spot.key}: wanted {wanted}, got none", locate_node(spot.node))
        return self.nodes.read_items(spot, wanted) or ()

    def _read_advance(self, spot: KeyedNode) -> Iterator[Event | None]:
        by: timedelta | None = self.nodes.read_scalar(spot, positive_duration)
        yield None if by is None else ClockAdvance(by)

    def _read_rescale(self, spot: KeyedNode) -> Iterator[Event | None]:
        parallelism: int | None = self.nodes.read_scalar(spot, whole_number(1, MAX_PARALLELISM))
        yield None if parallelism is None else Rescale(parallelism)

    def read_tables(self, spot: KeyedNode) -> dict[Text, tuple[GivenRow, ...]]:
        """Return the rows of lookup tables by step."""
        wanted = "a mapping of steps to rows, such as {enrich: [{id: 1}]}"
        entries = self.nodes.read_entries(spot, wanted) or {}
        return {key: self.nodes.read_rows(each) or () for key, each in entries.items()}
