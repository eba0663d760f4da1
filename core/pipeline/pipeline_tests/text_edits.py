"""Edits of the text of a YAML file at its nodes: all other characters stay as they are.

Tests: tests/core/pipeline/test_text_edits.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from headrace.core.pipeline.interpolation import OPENING_PATTERN
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.yaml_document.composer import compose_document
from headrace.core.pipeline.yaml_document.nodes import (
    RejectedNode,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)
from headrace.core.pipeline.yaml_document.scalar_offsets import NODE_PROPERTIES
from headrace.core.pipeline.yaml_document.source_file import LINE_END, SourceText
from headrace.core.types.lazy_dataclass import dataclass

WIDTH = 100
"""The length of a line that a list does not exceed, if it can be written on several."""
LINE_COMMENT = re.compile(r"[ \t]*(#[^\r\n]*)?")

Entries: TypeAlias = Sequence[str]
"""A mapping as text, by entry: `("user: a", "total: 5")`."""


class EditError(Exception):
    """A node cannot be edited, for this reason."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """The characters `[start, end)` of a file are replaced by a text."""

    file: SourceText
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class ListChange:
    """A change of a list of mappings: of its items by number, and those after the last one."""

    replaced: Mapping[int, Entries]
    removed: Collection[int] = ()
    appended: Sequence[Entries] = ()

    @property
    def is_change(self) -> bool:
        """Whether anything changes."""
        return bool(self.replaced or self.removed or self.appended)


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """Return the text after edits that do not overlap."""
    for edit in sorted(edits, key=lambda each: (each.start, each.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def edit_scalar(node: YamlNode, text: str) -> TextEdit:
    """Return the replacement of a node by a text. Raises EditError."""
    _list_ancestors(node)
    return TextEdit(node.file, node.start, find_content_end(node), text)


def edit_list(spot: KeyedNode, change: ListChange) -> list[TextEdit]:
    """Return the edits of a list under a key. Raises EditError."""
    node = spot.node
    if not isinstance(node, YamlSequence):
        raise EditError("its rows stand in a file of their own")
    is_in_flow = any(each.is_flow for each in _list_ancestors(node))
    if not node.is_flow:
        if len(change.removed) == len(node.items) and not change.appended:
            return [_empty_block_list(spot)]
        return list(_edit_block_list(node, change))
    if not change.removed and not change.appended:
        replaced = ((node.items[at], entries) for at, entries in change.replaced.items())
        return [TextEdit(node.file, i.start, i.end, format_flow(e)) for i, e in replaced]
    return _rewrite_flow_list(spot, change, is_in_flow=is_in_flow)


def append_item(spot: KeyedNode, lines: Sequence[str]) -> list[TextEdit]:
    """Return the edits that append an item of these lines to a list. Raises EditError."""
    node, file, key = spot.node, spot.node.file, _get_key(spot)
    if node.start < key.end:
        raise EditError("the list is an alias (*name)")
    if isinstance(node, YamlSequence) and not node.is_flow:
        column, end = get_column(file, node.start), _find_item_end(node.items[-1])
        edits = list[TextEdit]()
    elif isinstance(node, YamlSequence) and node.items:
        raise EditError("the list is written in brackets")
    else:
        column, end = get_column(file, key.start) + 2, find_line_end(file, node.end)
        edits = [TextEdit(file, _find_colon(key) + 1, node.end, "")]
    text = f"{get_newline(file)}{' ' * (column + 2)}".join(lines)
    return [*edits, TextEdit(file, end, end, f"{get_newline(file)}{' ' * column}- {text}")]


def format_flow(entries: Entries) -> str:
    """Format a mapping in braces."""
    return f"{{{', '.join(entries)}}}"


def find_content_end(node: YamlNode) -> int:
    """Return the end of a node without the comments and empty lines after a block."""
    if isinstance(node, YamlScalar):
        return node.start + len(node.file.text[node.start : node.end].rstrip())
    if isinstance(node, YamlMapping | YamlSequence) and not node.is_flow:
        inner = (find_content_end(each) for each in _list_children(node) if _holds(node, each))
        return max(inner, default=node.end)
    return node.end


def get_newline(file: SourceText) -> str:
    """Return the line break of a file."""
    found = LINE_END.search(file.text)
    return found[0] if found else "\n"


def get_column(file: SourceText, offset: int) -> int:
    """Return the number of characters before an offset in its line."""
    return offset - 1 - max(file.text.rfind("\n", 0, offset), file.text.rfind("\r", 0, offset))


def find_line_end(file: SourceText, offset: int) -> int:
    """Return the end of a line, without its line break."""
    found = re.compile(r"[\r\n]").search(file.text, offset)
    return found.start() if found else len(file.text)


def _list_ancestors(node: YamlNode) -> list[YamlMapping | YamlSequence]:
    """Return the collections around a node, outermost first.

    Raises EditError: other places refer to its text, or its text refers to others.
    """
    text = node.file.text[node.start : node.end]
    root, _ = compose_document(node.file)
    if node.file.is_argument or root is None:
        raise EditError("it does not stand in a file")
    if any(found[0] == "${" for found in OPENING_PATTERN.finditer(text)):
        raise EditError("it has ${...} in it")
    ancestors = list(_find_path(root, node))
    for each in (*ancestors, *_walk(node)):
        is_elsewhere = not _holds(node, each) and not _holds(each, node)
        properties = NODE_PROPERTIES.match(each.file.text, each.start)
        if is_elsewhere or (properties is not None and "&" in properties[0]):
            raise EditError("it has an anchor (&name) or an alias (*name)")
    return ancestors


def _find_path(root: YamlNode, node: YamlNode) -> Iterator[YamlMapping | YamlSequence]:
    here: YamlNode | None = root
    while here is not None and (here.start, here.end) != (node.start, node.end):
        if isinstance(here, YamlMapping | YamlSequence):
            yield here
        here = next((each for each in _list_children(here) if _holds(each, node)), None)


def _holds(outer: YamlNode, inner: YamlNode) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _list_children(node: YamlNode) -> list[YamlNode]:
    match node:
        case YamlMapping(entries=entries):
            return [each for entry in entries for each in (entry.key, entry.value)]
        case YamlSequence(items=items):
            return list(items)
        case RejectedNode(inner=inner) if inner is not None:
            return [inner]
    return []


def _walk(node: YamlNode) -> Iterator[YamlNode]:
    yield node
    for each in _list_children(node):
        yield from _walk(each)


def _find_colon(key: YamlScalar) -> int:
    return key.file.text.index(":", key.end)


def _get_key(spot: KeyedNode) -> YamlScalar:
    assert spot.key.scalar is not None, spot
    return spot.key.scalar


def _empty_block_list(spot: KeyedNode) -> TextEdit:
    """Return the edit that leaves no item: `[]` stands behind the key."""
    start, file = _find_colon(_get_key(spot)) + 1, spot.node.file
    between = file.text[start : spot.node.start].rstrip()
    return TextEdit(file, start, find_content_end(spot.node), f" []{between}")


def _edit_block_list(node: YamlSequence, change: ListChange) -> Iterator[TextEdit]:
    file, newline = node.file, get_newline(node.file)
    for at, entries in change.replaced.items():
        item = node.items[at]
        text = _format_like(item, entries, get_column(file, item.start))
        yield TextEdit(file, item.start, find_content_end(item), text)
    for at in change.removed:
        end = _find_item_end(node.items[at])
        dash = _find_dash(node, at)
        start = dash - get_column(file, dash)
        is_last = end == len(file.text)
        yield TextEdit(file, start, end if is_last else end + len(newline), "")
    if change.appended:
        last, column = node.items[-1], get_column(file, node.start)
        texts = (_format_like(last, entries, column + 2) for entries in change.appended)
        items = (f"{newline}{' ' * column}- {text}" for text in texts)
        end = _find_item_end(last)
        yield TextEdit(file, end, end, "".join(items))


def _find_dash(node: YamlSequence, at: int) -> int:
    """Return the offset of the dash of an item: all of a list are in one column."""
    if at == 0:
        return node.start
    dash = re.compile(rf"[\r\n] {{{get_column(node.file, node.start)}}}-(?=\s)")
    found = dash.search(node.file.text, find_content_end(node.items[at - 1]))
    assert found is not None
    return found.end() - 1


def _find_item_end(item: YamlNode) -> int:
    """Return the end of the last line of an item, with a comment there."""
    found = LINE_COMMENT.match(item.file.text, find_content_end(item))
    assert found is not None
    return found.end()


def _format_like(item: YamlNode, entries: Entries, column: int) -> str:
    """Format a mapping that starts in a column, in the style of an item."""
    if not isinstance(item, YamlMapping) or item.is_flow:
        return format_flow(entries)
    return f"{get_newline(item.file)}{' ' * column}".join(entries)


def _rewrite_flow_list(spot: KeyedNode, change: ListChange, *, is_in_flow: bool) -> list[TextEdit]:
    """Format a list again: on one line if it fits, else with an item a line."""
    node, file = spot.node, spot.node.file
    assert isinstance(node, YamlSequence), node
    items = [
        format_flow(change.replaced[at])
        if at in change.replaced
        else file.text[item.start : item.end]
        for at, item in enumerate(node.items)
        if at not in change.removed
    ]
    items += map(format_flow, change.appended)
    line = f"[{', '.join(items)}]"
    column, rest = get_column(file, node.start), find_line_end(file, node.end) - node.end
    if len(items) < 2 or (column + len(line) + rest <= WIDTH and "\n" not in line):
        return [TextEdit(file, node.start, node.end, line)]
    if is_in_flow:
        lines = f",{get_newline(file)}{' ' * (column + 1)}".join(items)
        return [TextEdit(file, node.start, node.end, f"[{lines}]")]
    indent = " " * (get_column(file, _get_key(spot).start) + 2)
    end = find_line_end(file, node.end)
    lines = "".join(f"{get_newline(file)}{indent}- {item}" for item in items)
    return [
        TextEdit(file, _find_colon(_get_key(spot)) + 1, node.end, ""),
        TextEdit(file, end, end, lines),
    ]
