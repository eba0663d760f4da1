"""`--set a.b=value`: values of the document that are set on the command line.

The path goes through mappings by key and through lists by index, from 0; a key with a dot is found
as it is, or is written in quotes. A key may be new. Keys and value are nodes like all others; their
file is the argument, so that their problems point at the argument.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as Items
from dataclasses import replace

from headrace.core.errors.problems import Problem, suggest_name
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

SET_OPTION = "--set "
SEGMENT_PATTERN = re.compile(
    r"""\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^.="']+))\s*"""
)
MAX_SEGMENTS = 50


class InvalidOverride(Exception):
    """An override that cannot be applied, with its problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class PathSegment:
    """One key or index of a path, at `[start, end)` of the argument."""

    file: SourceText
    name: str
    start: int
    end: int
    is_quoted: bool = False

    @property
    def key(self) -> YamlScalar:
        """The segment as a key of the document."""
        return YamlScalar(self.file, self.start, self.end, self.name, "=")

    def make_error(self, message: str, hint: str = "") -> InvalidOverride:
        """Return the error of the segment."""
        return InvalidOverride(Problem(message, self.file.locate(self.start, self.end), hint))


def apply_overrides(root: YamlNode, arguments: Items[str]) -> tuple[YamlNode, list[Problem]]:
    """Return the document with all arguments applied, and the problems of the others."""
    problems = []
    for argument in arguments:
        shown = argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        file = SourceText(SET_OPTION + shown, SET_OPTION + shown, is_argument=True)
        try:
            path, value = _parse_argument(file)
            root = _set_value(root, path, value, ())
        except InvalidOverride as misplaced:
            problems.append(misplaced.problem)
    return root, problems


def _parse_argument(file: SourceText) -> tuple[list[PathSegment], YamlScalar]:
    segments: list[PathSegment] = []
    at = len(SET_OPTION)
    while found := SEGMENT_PATTERN.match(file.text, at):
        name = found[found.lastgroup or 0]
        exact = found.lastgroup != "plain"
        start, end = found.span(found.lastgroup or 0)
        segments.append(PathSegment(file, name if exact else name.strip(), start, end, exact))
        at = found.end()
        if not re.match(r"\.[^=]", file.text[at : at + 2]):
            break
        at += 1
    whole = PathSegment(file, "", at, at + 1)
    if not segments or file.text[at : at + 1] != "=":
        raise whole.make_error("wanted a path and a value", "as in --set settings.parallelism=4")
    if len(segments) > MAX_SEGMENTS:
        raise whole.make_error(f"a path of more than {MAX_SEGMENTS} keys")
    return segments, YamlScalar(file, at + 1, len(file.text), file.text[at + 1 :], "=")


def _set_value(
    node: YamlNode, path: list[PathSegment], value: YamlScalar, above: tuple[str, ...]
) -> YamlNode:
    """Return the node with the value set at the path below it."""
    if not path:
        if isinstance(node, YamlMapping | YamlSequence):
            raise _make_not_scalar_error(node, value, above)
        return node if isinstance(node, RejectedNode) else value
    match node:
        case YamlMapping():
            return _set_in_mapping(node, path, value, above)
        case YamlSequence():
            return _set_in_list(node, path, value, above)
        case YamlScalar(is_null=True):
            return _set_in_mapping(_make_empty_mapping(path[0]), path, value, above)
        case YamlScalar():
            message = f'"{".".join(above)}" is one value, and has no "{path[0].name}"'
            raise path[0].make_error(message)
    return node


def _make_not_scalar_error(
    node: YamlMapping | YamlSequence, value: YamlScalar, above: tuple[str, ...]
) -> InvalidOverride:
    kind = "a mapping" if isinstance(node, YamlMapping) else "a list"
    first = node.entries[0].key.value if isinstance(node, YamlMapping) and node.entries else "0"
    path = ".".join(above)
    place = value.file.locate(len(SET_OPTION), value.start - 1)
    message = f'"{path}" is {kind}, and --set overrides one value'
    return InvalidOverride(Problem(message, place, f"name one in it, as in {path}.{first}"))


def _set_in_mapping(
    node: YamlMapping, path: list[PathSegment], value: YamlScalar, above: tuple[str, ...]
) -> YamlMapping:
    key, used = _find_key(node, path)
    rest = path[used:]
    entries = list(node.entries)
    for at, entry in enumerate(entries):
        if entry.key.value == key.name:
            inner = _set_value(entry.value, rest, value, (*above, key.name))
            entries[at] = YamlEntry(entry.key, inner)
            return replace(node, entries=tuple(entries))
    if above[:1] and above[0] in PART_KIND_BY_SECTION and len(above) == 1:
        names = [entry.key.value for entry in entries]
        hint = suggest_name(key.name, names) or f"there are {', '.join(names[:20]) or 'none'}"
        raise key.make_error(f'there is no {PART_KIND_BY_SECTION[above[0]]} "{key.name}"', hint)
    new = (
        _set_value(_make_empty_mapping(rest[0]), rest, value, (*above, key.name)) if rest else value
    )
    return replace(node, entries=(*entries, YamlEntry(key.key, new)))


def _find_key(node: YamlMapping, path: list[PathSegment]) -> tuple[PathSegment, int]:
    """Return the longest existing key that the path begins with, and its number of segments."""
    known = {entry.key.value for entry in node.entries}
    for used in range(len(path), 1, -1):
        name = ".".join(segment.name for segment in path[:used])
        if name in known and not any(segment.is_quoted for segment in path[:used]):
            return replace(path[0], name=name, end=path[used - 1].end), used
    return path[0], 1


def _set_in_list(
    node: YamlSequence, path: list[PathSegment], value: YamlScalar, above: tuple[str, ...]
) -> YamlSequence:
    segment = path[0]
    count = len(node.items)
    if not re.fullmatch(r"[0-9]{1,6}", segment.name) or int(segment.name) >= count:
        known = (
            f"wanted an index from 0 to {count - 1}" if count else "there is nothing in this list"
        )
        raise segment.make_error(f'{known}, got "{segment.name}"')
    items = list(node.items)
    at = int(segment.name)
    items[at] = _set_value(items[at], path[1:], value, (*above, segment.name))
    return replace(node, items=tuple(items))


def _make_empty_mapping(segment: PathSegment) -> YamlMapping:
    return YamlMapping(segment.file, segment.start, segment.end, ())
