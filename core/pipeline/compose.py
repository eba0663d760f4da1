"""Composition of nodes from PyYAML's events, with an explicit stack and with limits.

Events are read one at a time and only as needed, so that a document that is too deep or too large,
also by aliases of aliases, is rejected while it is read. An alias is the same node as its anchor:
problems with an alias point at the anchor's value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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

from headrace.core.pipeline import lost
from headrace.core.pipeline.file import File
from headrace.core.pipeline.nodes import Entry, Mapping, Node, Refused, Scalar, Sequence
from headrace.core.pipeline.quoting import quote_hint
from headrace.core.problems import Problem, did_you_mean

MAX_DEPTH = 50
MAX_NODES = 100_000
TOO_MANY = f"more than {MAX_NODES:,} values in one file"
ALIASES = "an alias (*name) counts as everything it refers to"
SECTIONS = {"sources": "source", "steps": "step", "sinks": "sink"}
BRACES = "in YAML braces are a mapping; a value with braces in it needs quotes"
CORE = "tag:yaml.org,2002:"
TEXT_TAGS = ("!", f"{CORE}str")
SCALAR_TAGS = {*TEXT_TAGS, *(f"{CORE}{name}" for name in ("int", "float", "bool", "null"))}

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Stop(Exception):
    """An error after which reading cannot continue."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Sized(NamedTuple):
    """A node with its size and height when its aliases are expanded."""

    node: Node
    size: int = 1
    height: int = 1


@dataclass(slots=True)
class Open:
    """A mapping or a sequence whose end has not been read yet."""

    event: CollectionStartEvent
    items: list[Node] = field(default_factory=list)
    size: int = 1
    height: int = 1

    def add(self, sized: Sized) -> None:
        """Add a node; the keys and values of a mapping alternate."""
        self.items.append(sized.node)
        self.size += sized.size
        self.height = max(self.height, sized.height + 1)


def compose(file: File) -> tuple[Node | None, list[Problem]]:
    """Return the document's root, if all of it could be read, and its problems as YAML."""
    composer = Composer(file)
    try:
        composer.run(_events(file))
    except Stop as stop:
        # An earlier problem on the line where YAML stopped is part of the same error.
        line = stop.problem.place.line if stop.problem.place else 0
        before = [p for p in composer.problems if p.place is None or p.place.line != line]
        return None, [*before, stop.problem]
    return composer.root, composer.problems


def _events(file: File) -> Iterator[Event]:
    try:
        yield from yaml.parse(file.text, Loader=_Loader)
    except yaml.YAMLError as error:
        from headrace.core.pipeline.syntax import explained

        raise Stop(explained(file, error)) from None


class Composer:
    """A builder of the node tree; it holds the collections that are still open, outermost first."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._open: list[Open] = []
        self._anchors: dict[str, Sized | None] = {}
        self._total = 0
        self._documents = 0

    def run(self, events: Iterator[Event]) -> None:
        """Build the tree from all events."""
        for event in events:
            match event:
                case DocumentStartEvent():
                    self._document(event)
                case ScalarEvent():
                    self._count(event, 1, 1)
                    self._close(event, Sized(self._scalar(event)))
                case AliasEvent():
                    self._alias(event)
                case CollectionStartEvent():
                    self._begin(event)
                case CollectionEndEvent():
                    self._end(event)

    def _document(self, event: DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._stop(
                event,
                "a pipeline is one YAML document, and a second one starts here",
                'remove the line "---", or put the second pipeline into a file of its own',
            )

    def _begin(self, event: CollectionStartEvent) -> None:
        self._count(event, 1, 1)
        if event.anchor:
            self._anchors[event.anchor] = None
        self._open.append(Open(event))

    def _end(self, event: CollectionEndEvent) -> None:
        done = self._open.pop()
        self._close(done.event, Sized(self._collection(done, event), done.size, done.height))

    def _close(self, event: NodeEvent, sized: Sized) -> None:
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
            known = did_you_mean(name, self._anchors) or self._quoting(span(event)[0])
            raise self._stop(
                event, f'"*{name}" refers to an anchor "&{name}" that is not above', known
            )
        sized = self._anchors[name]
        if sized is None:
            raise self._stop(event, f'"*{name}" is inside "&{name}" itself: it would never end')
        self._count(event, sized.size, sized.height)
        self._close(event, sized)

    def _count(self, event: Event, size: int, height: int) -> None:
        if len(self._open) + height > MAX_DEPTH:
            raise self._stop(event, f"nested deeper than {MAX_DEPTH} levels")
        self._total += size
        if self._total > MAX_NODES:
            raise self._stop(event, TOO_MANY, ALIASES if size > 1 else "")

    def _scalar(self, event: ScalarEvent) -> Node:
        (start, end), tag = span(event), event.tag
        if tag and tag not in SCALAR_TAGS:
            return self._refused(tag, start, end)
        is_text = bool(tag) and tag in TEXT_TAGS
        scalar = Scalar(self.file, start, end, event.value, event.style or "", is_text)
        problem = lost.to_comment(scalar) if "'" in event.value else None
        return self._refuse(problem, scalar) or scalar

    def _collection(self, done: Open, event: CollectionEndEvent) -> Node:
        start, end = span(done.event)[0], span(event)[1]
        is_mapping = isinstance(done.event, MappingStartEvent)
        tag = done.event.tag
        flow = bool(done.event.flow_style)
        rejoined = lost.to_commas(done.items, mapping=is_mapping) if flow else None
        items = done.items
        if rejoined:
            subject = self._subject()
            self.problems += (replace(problem, subject=subject) for problem in rejoined.problems)
            items = done.items if rejoined.lost else rejoined.nodes
        whole: Node
        if is_mapping:
            before = len(self.problems)
            entries = tuple(self._entries(items))
            refused = any(isinstance(key, Refused) for key in items[::2])
            more = refused or len(self.problems) > before
            whole = Mapping(self.file, start, end, entries, flow, more)
        else:
            whole = Sequence(self.file, start, end, tuple(items), flow)
        if tag and tag not in ("!", f"{CORE}{'map' if is_mapping else 'seq'}"):
            return self._refused(tag, start, end, whole)
        return Refused(self.file, start, end, whole) if rejoined and rejoined.lost else whole

    def _refuse(self, problem: Problem | None, node: Node) -> Node | None:
        """Report the problem of a node, if there is one, and return a rejected node instead."""
        if problem is None:
            return None
        self.problems.append(replace(problem, subject=self._subject()))
        return Refused(self.file, node.start, node.end, node)

    def _subject(self) -> str:
        """Return the part of the pipeline that is being read: `step "totals"`."""
        keys = [top.items[-1] for top in self._open[:2] if len(top.items) % 2]
        names = [key.value for key in keys if isinstance(key, Scalar)]
        if len(names) < 2 or names[0] not in SECTIONS:
            return ""
        return f'{SECTIONS[names[0]]} "{names[1]}"'

    def _entries(self, items: list[Node]) -> Iterator[Entry]:
        """Yield the entries of a mapping, then those that its `<<` add and it does not define."""
        merged: list[Node] = []
        names = set()
        for key, value in zip(items[::2], items[1::2], strict=True):
            if isinstance(key, Scalar) and key.value == "<<" and not key.style:
                merged.append(value)
            elif isinstance(key, Scalar):
                names.add(key.value)
                yield Entry(key, value)
            elif not isinstance(key, Refused):
                kind = "a list" if isinstance(key, Sequence) else "a mapping"
                self._complain(key, f"wanted a key, got {kind}", BRACES)
        for source in merged:
            for entry in self._merged(source):
                if entry.key.value not in names:
                    names.add(entry.key.value)
                    yield entry

    def _merged(self, source: Node) -> Iterator[Entry]:
        for node in source.items if isinstance(source, Sequence) else (source,):
            if isinstance(node, Mapping):
                self._total += len(node.entries)
                if self._total > MAX_NODES:
                    raise Stop(self._problem(node, TOO_MANY, ALIASES))
                yield from node.entries
            elif not isinstance(node, Refused):
                self._complain(node, '"<<" takes a mapping, or a list of mappings')

    def _complain(self, node: Node, message: str, hint: str = "") -> None:
        self.problems.append(self._problem(node, message, hint))

    def _problem(self, node: Node, message: str, hint: str = "") -> Problem:
        return Problem(message, self.file.place(node.start, node.end), hint, self._subject())

    def _quoting(self, start: int) -> str:
        """Return the hint for an expression that begins with a special character of YAML."""
        line = self.file.text[start:].split("\n", 1)[0]
        return quote_hint(re.split(r"\s+#|[\r,\]}]", line, maxsplit=1)[0])

    def _refused(self, tag: str, start: int, end: int, inner: Node | None = None) -> Node:
        shown = f"!!{tag.removeprefix(CORE)}" if tag.startswith(CORE) else tag
        message = f'the tag "{shown}" is not allowed'
        hint = "" if tag.startswith(CORE) else self._quoting(start)
        place = self.file.place(start, start + len(shown))
        self.problems.append(Problem(message, place, hint, self._subject()))
        return Refused(self.file, start, end, inner)

    def _stop(self, event: Event, message: str, hint: str = "") -> Stop:
        return Stop(Problem(message, self.file.place(*span(event)), hint, self._subject()))


def span(event: Event) -> tuple[int, int]:
    """Return the offsets at which an event begins and ends."""
    assert event.start_mark and event.end_mark
    return event.start_mark.index, event.end_mark.index
