"""`--set a.b=value`: values of the document that are set on the command line.

The path goes through mappings by key and through lists by index, from 0; a key with a dot is found
as it is, or is written in quotes. A key may be new. Keys and value are nodes like all others; their
file is the argument, so that their problems point at the argument.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace

from headrace.core.pipeline.file import File
from headrace.core.pipeline.nodes import Entry, Mapping, Node, Refused, Scalar, Sequence
from headrace.core.problems import Problem, did_you_mean

OPTION = "--set "
SEGMENT = re.compile(r"""\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^.="']+))\s*""")
MAX_SEGMENTS = 50
NAMED = {"sources": "source", "steps": "step", "sinks": "sink"}


class Misplaced(Exception):
    """An override that cannot be applied, with its problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Segment:
    """One key or index of a path, at `[start, end)` of the argument."""

    file: File
    name: str
    start: int
    end: int
    exact: bool = False

    @property
    def key(self) -> Scalar:
        """The segment as a key of the document."""
        return Scalar(self.file, self.start, self.end, self.name, "=")

    def problem(self, message: str, hint: str = "") -> Misplaced:
        """Return the error of the segment."""
        return Misplaced(Problem(message, self.file.place(self.start, self.end), hint))


def override(root: Node, arguments: Items[str]) -> tuple[Node, list[Problem]]:
    """Return the document with all arguments applied, and the problems of the others."""
    problems = []
    for argument in arguments:
        shown = argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        file = File(OPTION + shown, OPTION + shown, argument=True)
        try:
            path, value = _parsed(file)
            root = _put(root, path, value, ())
        except Misplaced as misplaced:
            problems.append(misplaced.problem)
    return root, problems


def _parsed(file: File) -> tuple[list[Segment], Scalar]:
    segments: list[Segment] = []
    at = len(OPTION)
    while found := SEGMENT.match(file.text, at):
        name = found[found.lastgroup or 0]
        exact = found.lastgroup != "plain"
        start, end = found.span(found.lastgroup or 0)
        segments.append(Segment(file, name if exact else name.strip(), start, end, exact))
        at = found.end()
        if not re.match(r"\.[^=]", file.text[at : at + 2]):
            break
        at += 1
    whole = Segment(file, "", at, at + 1)
    if not segments or file.text[at : at + 1] != "=":
        raise whole.problem("wanted a path and a value", "as in --set settings.parallelism=4")
    if len(segments) > MAX_SEGMENTS:
        raise whole.problem(f"a path of more than {MAX_SEGMENTS} keys")
    return segments, Scalar(file, at + 1, len(file.text), file.text[at + 1 :], "=")


def _put(node: Node, path: list[Segment], value: Scalar, above: tuple[str, ...]) -> Node:
    """Return the node with the value set at the path below it."""
    if not path:
        if isinstance(node, Mapping | Sequence):
            raise _not_one_value(node, value, above)
        return node if isinstance(node, Refused) else value
    match node:
        case Mapping():
            return _put_in_mapping(node, path, value, above)
        case Sequence():
            return _put_in_list(node, path, value, above)
        case Scalar(nothing=True):
            return _put_in_mapping(_empty(path[0]), path, value, above)
        case Scalar():
            message = f'"{".".join(above)}" is one value, and has no "{path[0].name}"'
            raise path[0].problem(message)
    return node


def _not_one_value(node: Mapping | Sequence, value: Scalar, above: tuple[str, ...]) -> Misplaced:
    kind = "a mapping" if isinstance(node, Mapping) else "a list"
    first = node.entries[0].key.value if isinstance(node, Mapping) and node.entries else "0"
    path = ".".join(above)
    place = value.file.place(len(OPTION), value.start - 1)
    message = f'"{path}" is {kind}, and --set overrides one value'
    return Misplaced(Problem(message, place, f"name one in it, as in {path}.{first}"))


def _put_in_mapping(
    node: Mapping, path: list[Segment], value: Scalar, above: tuple[str, ...]
) -> Mapping:
    key, used = _key(node, path)
    rest = path[used:]
    entries = list(node.entries)
    for at, entry in enumerate(entries):
        if entry.key.value == key.name:
            inner = _put(entry.value, rest, value, (*above, key.name))
            entries[at] = Entry(entry.key, inner)
            return replace(node, entries=tuple(entries))
    if above[:1] and above[0] in NAMED and len(above) == 1:
        names = [entry.key.value for entry in entries]
        hint = did_you_mean(key.name, names) or f"there are {', '.join(names[:20]) or 'none'}"
        raise key.problem(f'there is no {NAMED[above[0]]} "{key.name}"', hint)
    new = _put(_empty(rest[0]), rest, value, (*above, key.name)) if rest else value
    return replace(node, entries=(*entries, Entry(key.key, new)))


def _key(node: Mapping, path: list[Segment]) -> tuple[Segment, int]:
    """Return the longest existing key that the path begins with, and its number of segments."""
    known = {entry.key.value for entry in node.entries}
    for used in range(len(path), 1, -1):
        name = ".".join(segment.name for segment in path[:used])
        if name in known and not any(segment.exact for segment in path[:used]):
            return replace(path[0], name=name, end=path[used - 1].end), used
    return path[0], 1


def _put_in_list(
    node: Sequence, path: list[Segment], value: Scalar, above: tuple[str, ...]
) -> Sequence:
    segment = path[0]
    count = len(node.items)
    if not re.fullmatch(r"[0-9]{1,6}", segment.name) or int(segment.name) >= count:
        known = (
            f"wanted an index from 0 to {count - 1}" if count else "there is nothing in this list"
        )
        raise segment.problem(f'{known}, got "{segment.name}"')
    items = list(node.items)
    at = int(segment.name)
    items[at] = _put(items[at], path[1:], value, (*above, segment.name))
    return replace(node, items=tuple(items))


def _empty(segment: Segment) -> Mapping:
    return Mapping(segment.file, segment.start, segment.end, ())
