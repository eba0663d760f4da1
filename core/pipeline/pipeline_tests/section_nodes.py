"""Nodes of a test as plain values; every mistake is reported at its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from headrace.core.errors.problems import Location, find_nearest_name
from headrace.core.pipeline.diagnostics import InvalidValue
from headrace.core.pipeline.node_resolver import NodeResolver, quote_key
from headrace.core.pipeline.pipeline_tests.model import GivenRow
from headrace.core.pipeline.pipeline_tests.row_files import (
    WrongRowFile,
    is_row_file,
    read_row_file,
)
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.text import BROKEN, Text, describe_value
from headrace.core.pipeline.values import ScalarReading
from headrace.core.pipeline.yaml_document.nodes import (
    RejectedNode,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)


def locate_node(node: YamlNode) -> Location:
    """Return the position of a node; of a block, its first line."""
    return node.file.locate(node.start, node.end)


class SectionNodes:
    """A reader of nodes with the subject of problems; reading returns None after a mistake."""

    def __init__(self, resolver: NodeResolver) -> None:
        self.resolver = resolver
        self.subject = ""

    def report(self, message: str, location: Location, hint: str = "") -> None:
        """Report a mistake."""
        self.resolver.findings.add(message, location, hint, self.subject)

    def read_entries(self, spot: KeyedNode, wanted: str) -> dict[Text, KeyedNode] | None:
        """Return the entries of a mapping by key."""
        if not isinstance(spot.node, YamlMapping):
            self._report_wrong(spot, wanted)
            return None
        entries = self.resolver.resolve_entries(spot.node, self.subject)
        return {key: KeyedNode(key, entry.value) for key, entry in entries.items()}

    def read_known(
        self, spot: KeyedNode, wanted: str, keys: Iterable[str]
    ) -> dict[str, KeyedNode] | None:
        """Return the entries of a mapping by their keys; a misspelt one under the key it means."""
        entries, known = self.read_entries(spot, wanted), tuple(keys)
        if entries is None:
            return None
        found = {str(key): node for key, node in entries.items() if key in known}
        for key, node in entries.items():
            if key not in known:
                near = find_nearest_name(key, known)
                hint = f'did you mean "{near}"?' if near else f"the keys are {', '.join(known)}"
                self.report(f"unknown key {quote_key(key)}", key.locate(), hint)
                found.setdefault(near, node)
        return found

    def read_items(self, spot: KeyedNode, wanted: str) -> tuple[KeyedNode, ...] | None:
        """Return the items of a list, each with the key of the list."""
        if not isinstance(spot.node, YamlSequence):
            self._report_wrong(spot, wanted)
            return None
        return tuple(KeyedNode(spot.key, item) for item in spot.node.items)

    def read_scalar(self, spot: KeyedNode, reading: ScalarReading) -> Any:
        """Return the value of a scalar, converted."""
        value = self.resolver.resolve_value(spot.node, self.subject)
        if value is BROKEN:
            return None
        try:
            return reading.read(value)
        except InvalidValue as invalid:
            for each in invalid.problems:
                message = each.message or f"wanted {each.wanted}, got {describe_value(value)}"
                place = self._locate(spot)
                self.report(f"{spot.key}: {message}", place, each.hint)
        return None

    def read_rows(self, spot: KeyedNode) -> tuple[GivenRow, ...] | None:
        """Return the rows of a list of mappings, or of the file that is named in its place."""
        if (path := self._read_path(spot)) is not None:
            return self._read_row_file(path)
        items = self.read_items(spot, "a list of rows, such as [{id: 1, name: a}]")
        rows = [row for item in items or () if (row := self.read_row(item)) is not None]
        return tuple(rows) if items is not None and len(rows) == len(items) else None

    def read_row(self, spot: KeyedNode) -> GivenRow | None:
        """Return a row."""
        entries = self.read_entries(spot, "a row, such as {id: 1, name: a}")
        if entries is None:
            return None
        values = {k: self.resolver.resolve_value(e.node, self.subject) for k, e in entries.items()}
        if any(_is_broken(value) for value in values.values()):
            return None
        return GivenRow(locate_node(spot.node), values)

    def is_row_file(self, spot: KeyedNode) -> bool:
        """Whether a file of rows is named in the place of a list."""
        return self._read_path(spot) is not None

    def _read_path(self, spot: KeyedNode) -> Text | None:
        if not isinstance(spot.node, YamlScalar):
            return None
        path = self.resolver.resolve_value(spot.node, self.subject)
        return path if isinstance(path, Text) and is_row_file(path.reveal()) else None

    def _read_row_file(self, path: Text) -> tuple[GivenRow, ...] | None:
        assert path.scalar is not None
        try:
            return read_row_file(Path(path.scalar.file.name).parent / path.reveal(), path)
        except WrongRowFile as wrong:
            self.report(wrong.message, wrong.location or path.locate(), wrong.hint)
        return None

    def _report_wrong(self, spot: KeyedNode, wanted: str) -> None:
        if isinstance(spot.node, RejectedNode):
            return
        got = describe_value(self.resolver.resolve_value(spot.node, self.subject))
        self.report(f"{spot.key}: wanted {wanted}, got {got}", self._locate(spot))

    def _locate(self, spot: KeyedNode) -> Location:
        """Return the position of a value: that of its key, if there is none."""
        return spot.locate() if spot.node.start == spot.node.end else locate_node(spot.node)


def _is_broken(value: object) -> bool:
    return any(each is BROKEN for each in _walk(value))


def _walk(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _walk(inner)
