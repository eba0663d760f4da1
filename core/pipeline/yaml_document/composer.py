"""Composition of nodes from PyYAML's events, with an explicit stack and with limits.

Events are read one at a time and only as needed, so that a document that is too deep or too large,
also by aliases of aliases, is rejected while it is read. An alias is the same node as its anchor:
problems with an alias point at the anchor's value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, replace
from typing import NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from headrace.core.errors.problems import Problem, suggest_name
from headrace.core.pipeline.yaml_document import truncated_values
from headrace.core.pipeline.yaml_document.error_context import suggest_quotes
from headrace.core.pipeline.yaml_document.nodes import (
    PART_KIND_BY_SECTION,
    RejectedNode,
    YamlEntry,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)
from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.types.lazy_dataclass import dataclass

MAX_DEPTH = 50
MAX_NODES = 100_000
TOO_MANY_VALUES = f"more than {MAX_NODES:,} values in one file"
ALIASES_HINT = "an alias (*name) counts as everything it refers to"
BRACES_HINT = "in YAML braces are a mapping; a value with braces in it needs quotes"
TESTS_SECTION = "tests"
CORE_TAG_PREFIX = "tag:yaml.org,2002:"
TEXT_TAGS = ("!", f"{CORE_TAG_PREFIX}str")
SCALAR_TAGS = {
    *TEXT_TAGS,
    *(f"{CORE_TAG_PREFIX}{name}" for name in ("int", "float", "bool", "null")),
}

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlReadingStopped(Exception):
    """An error after which reading cannot continue."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class SizedNode(NamedTuple):
    """A node with its size and height when its aliases are expanded."""

    node: YamlNode
    size: int = 1
    height: int = 1


@dataclass(slots=True)
class OpenCollection:
    """A mapping or a sequence whose end has not been read yet."""

    event: CollectionStartEvent
    items: list[YamlNode] = field(default_factory=list)
    size: int = 1
    height: int = 1

    def add(self, sized: SizedNode) -> None:
        """Add a node; the keys and values of a mapping alternate."""
        self.items.append(sized.node)
        self.size += sized.size
        self.height = max(self.height, sized.height + 1)


def compose_document(file: SourceText) -> tuple[YamlNode | None, list[Problem]]:
    """Return the document's root, if all of it could be read, and its problems as YAML."""
    composer = Composer(file)
    try:
        composer.build_tree(_events(file))
    except YamlReadingStopped as stop:
        # An earlier problem on the line where YAML stopped is part of the same error.
        line = stop.problem.location.line if stop.problem.location else 0
        before = [p for p in composer.problems if p.location is None or p.location.line != line]
        return None, [*before, stop.problem]
    return composer.root, composer.problems


def _events(file: SourceText) -> Iterator[Event]:
    try:
        yield from yaml.parse(file.text, Loader=_Loader)
    except yaml.YAMLError as error:
        from headrace.core.pipeline.yaml_document.syntax_errors import explain_error

        raise YamlReadingStopped(explain_error(file, error)) from None


class Composer:
    """A builder of the node tree; it holds the collections that are still open, outermost first."""

    def __init__(self, file: SourceText) -> None:
        self.file = file
        self.root: YamlNode | None = None
        self.problems: list[Problem] = []
        self._open: list[OpenCollection] = []
        self._anchors: dict[str, SizedNode | None] = {}
        self._totals = {"": 0, TESTS_SECTION: 0}
        """The number of values in the pipeline, and in its tests: each has the limit."""
        self._documents = 0

    def build_tree(self, events: Iterator[Event]) -> None:
        """Build the tree from all events."""
        for event in events:
            match event:
                case DocumentStartEvent():
                    self._document(event)
                case ScalarEvent():
                    self._count(event, 1, 1)
                    self._close(event, SizedNode(self._scalar(event)))
                case AliasEvent():
                    self._alias(event)
                case CollectionStartEvent():
                    self._begin(event)
                case CollectionEndEvent():
                    self._end(event)

    def _document(self, event: DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._make_stop(
                event,
                "a pipeline is one YAML document, and a second one starts here",
                'remove the line "---", or put the second pipeline into a file of its own',
            )

    def _begin(self, event: CollectionStartEvent) -> None:
        self._count(event, 1, 1)
        if event.anchor:
            self._anchors[event.anchor] = None
        self._open.append(OpenCollection(event))

    def _end(self, event: CollectionEndEvent) -> None:
        done = self._open.pop()
        self._close(done.event, SizedNode(self._collection(done, event), done.size, done.height))

    def _close(self, event: NodeEvent, sized: SizedNode) -> None:
        """Register a finished node under its anchor, and add it to its parent."""
        anchor = getattr(event, "anchor", None)
        if anchor and not isinstance(event, AliasEvent):
            self._anchors[anchor] = sized
        if self._open:
            self._open[-1].add(sized)
        else:
            self.root = sized.node

    def _alias(self, event: AliasEvent) -> None:
        name = str(event.anchor)
        if name not in self._anchors:
            known = suggest_name(name, self._anchors) or self._suggest_quotes(
                get_event_span(event)[0]
            )
            raise self._make_stop(
                event, f'"*{name}" refers to an anchor "&{name}" that is not above', known
            )
        sized = self._anchors[name]
        if sized is None:
            raise self._make_stop(
                event, f'"*{name}" is inside "&{name}" itself: it would never end'
            )
        self._count(event, sized.size, sized.height)
        self._close(event, sized)

    def _count(self, event: Event, size: int, height: int) -> None:
        if len(self._open) + height > MAX_DEPTH:
            raise self._make_stop(event, f"nested deeper than {MAX_DEPTH} levels")
        if self._add_to_total(size) > MAX_NODES:
            raise self._make_stop(event, TOO_MANY_VALUES, ALIASES_HINT if size > 1 else "")

    def _add_to_total(self, size: int) -> int:
        """Count values of the section that is being read; return how many it has."""
        top = self._open[0].items if self._open else []
        key = top[-1] if len(top) % 2 else None
        is_test = isinstance(key, YamlScalar) and key.value == TESTS_SECTION
        section = TESTS_SECTION if is_test else ""
        self._totals[section] += size
        return self._totals[section]

    def _scalar(self, event: ScalarEvent) -> YamlNode:
        (start, end), tag = get_event_span(event), event.tag
        if tag and tag not in SCALAR_TAGS:
            return self._reject_tag(tag, start, end)
        is_text = bool(tag) and tag in TEXT_TAGS
        scalar = YamlScalar(self.file, start, end, event.value, event.style or "", is_text)
        problem = truncated_values.find_comment_cut(scalar) if "'" in event.value else None
        return self._reject_if_problem(problem, scalar) or scalar

    def _collection(self, done: OpenCollection, event: CollectionEndEvent) -> YamlNode:
        start, end = get_event_span(done.event)[0], get_event_span(event)[1]
        is_mapping = isinstance(done.event, MappingStartEvent)
        tag = done.event.tag
        flow = bool(done.event.flow_style)
        rejoined = (
            truncated_values.rejoin_comma_cuts(done.items, mapping=is_mapping) if flow else None
        )
        items = done.items
        if rejoined:
            subject = self._subject()
            self.problems += (replace(problem, subject=subject) for problem in rejoined.problems)
            items = done.items if rejoined.has_fragments else rejoined.nodes
        whole: YamlNode
        if is_mapping:
            before = len(self.problems)
            entries = tuple(self._entries(items))
            refused = any(isinstance(key, RejectedNode) for key in items[::2])
            more = refused or len(self.problems) > before
            whole = YamlMapping(self.file, start, end, entries, flow, more)
        else:
            whole = YamlSequence(self.file, start, end, tuple(items), flow)
        if tag and tag not in ("!", f"{CORE_TAG_PREFIX}{'map' if is_mapping else 'seq'}"):
            return self._reject_tag(tag, start, end, whole)
        return (
            RejectedNode(self.file, start, end, whole)
            if rejoined and rejoined.has_fragments
            else whole
        )

    def _reject_if_problem(self, problem: Problem | None, node: YamlNode) -> YamlNode | None:
        """Report the problem of a node, if there is one, and return a rejected node instead."""
        if problem is None:
            return None
        self.problems.append(replace(problem, subject=self._subject()))
        return RejectedNode(self.file, node.start, node.end, node)

    def _subject(self) -> str:
        """Return the part of the pipeline that is being read: `step "totals"`."""
        keys = [top.items[-1] for top in self._open[:2] if len(top.items) % 2]
        names = [key.value for key in keys if isinstance(key, YamlScalar)]
        if len(names) < 2 or names[0] not in PART_KIND_BY_SECTION:
            return ""
        return f'{PART_KIND_BY_SECTION[names[0]]} "{names[1]}"'

    def _entries(self, items: list[YamlNode]) -> Iterator[YamlEntry]:
        """Yield the entries of a mapping, then those that its `<<` add and it does not define."""
        merged: list[YamlNode] = []
        names = set()
        for key, value in zip(items[::2], items[1::2], strict=True):
            if isinstance(key, YamlScalar) and key.value == "<<" and not key.style:
                merged.append(value)
            elif isinstance(key, YamlScalar):
                names.add(key.value)
                yield YamlEntry(key, value)
            elif not isinstance(key, RejectedNode):
                kind = "a list" if isinstance(key, YamlSequence) else "a mapping"
                self._report(key, f"wanted a key, got {kind}", BRACES_HINT)
        for source in merged:
            for entry in self._merged_entries(source):
                if entry.key.value not in names:
                    names.add(entry.key.value)
                    yield entry

    def _merged_entries(self, source: YamlNode) -> Iterator[YamlEntry]:
        for node in source.items if isinstance(source, YamlSequence) else (source,):
            if isinstance(node, YamlMapping):
                if self._add_to_total(len(node.entries)) > MAX_NODES:
                    raise YamlReadingStopped(
                        self._make_problem(node, TOO_MANY_VALUES, ALIASES_HINT)
                    )
                yield from node.entries
            elif not isinstance(node, RejectedNode):
                self._report(node, '"<<" takes a mapping, or a list of mappings')

    def _report(self, node: YamlNode, message: str, hint: str = "") -> None:
        self.problems.append(self._make_problem(node, message, hint))

    def _make_problem(self, node: YamlNode, message: str, hint: str = "") -> Problem:
        return Problem(message, self.file.locate(node.start, node.end), hint, self._subject())

    def _suggest_quotes(self, start: int) -> str:
        """Return the hint for an expression that begins with a special character of YAML."""
        line = self.file.text[start:].split("\n", 1)[0]
        return suggest_quotes(re.split(r"\s+#|[\r,\]}]", line, maxsplit=1)[0])

    def _reject_tag(
        self, tag: str, start: int, end: int, inner: YamlNode | None = None
    ) -> YamlNode:
        shown = f"!!{tag.removeprefix(CORE_TAG_PREFIX)}" if tag.startswith(CORE_TAG_PREFIX) else tag
        message = f'the tag "{shown}" is not allowed'
        hint = "" if tag.startswith(CORE_TAG_PREFIX) else self._suggest_quotes(start)
        place = self.file.locate(start, start + len(shown))
        self.problems.append(Problem(message, place, hint, self._subject()))
        return RejectedNode(self.file, start, end, inner)

    def _make_stop(self, event: Event, message: str, hint: str = "") -> YamlReadingStopped:
        return YamlReadingStopped(
            Problem(message, self.file.locate(*get_event_span(event)), hint, self._subject())
        )


def get_event_span(event: Event) -> tuple[int, int]:
    """Return the offsets at which an event begins and ends."""
    assert event.start_mark and event.end_mark
    return event.start_mark.index, event.end_mark.index
