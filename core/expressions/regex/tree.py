"""The tree of a pattern, made of nodes with the same meaning in Java's and Rust's engines."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.expressions.regex.characters import CharacterSet
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RegexNode:
    """A part of a pattern; the subclasses below are the only ones."""


@dataclass(frozen=True, slots=True)
class SingleCharacter(RegexNode):
    """Exactly one character of a set."""

    characters: CharacterSet


@dataclass(frozen=True, slots=True)
class RegexSequence(RegexNode):
    """Parts one after the other; without parts it matches the empty text."""

    parts: tuple[RegexNode, ...]


@dataclass(frozen=True, slots=True)
class Alternation(RegexNode):
    """The first of the options with which the whole pattern matches."""

    options: tuple[RegexNode, ...]


@dataclass(frozen=True, slots=True)
class CaptureGroup(RegexNode):
    """A capturing group; groups are numbered from 1 by their opening parentheses."""

    number: int
    body: RegexNode


@dataclass(frozen=True, slots=True)
class Repetition(RegexNode):
    """A repetition of the body; `maximum` is None where there is no limit."""

    body: RegexNode
    minimum: int
    maximum: int | None
    is_lazy: bool


@dataclass(frozen=True, slots=True)
class TextStart(RegexNode):
    r"""`^` or `\A`: the start of the text."""


@dataclass(frozen=True, slots=True)
class TextEnd(RegexNode):
    r"""`\z`: the end of the text."""


@dataclass(frozen=True, slots=True)
class LastLineEnd(RegexNode):
    r"""`$` or `\Z`: the end of the text, or the position before a final line end."""


@dataclass(frozen=True, slots=True)
class LineBreak(RegexNode):
    r"""`\R`: a line end, where `\r\n` is one."""


@dataclass(frozen=True, slots=True)
class ParsedRegex:
    """A parsed pattern and how many capturing groups it has."""

    tree: RegexNode
    group_count: int


def child_nodes(node: RegexNode) -> tuple[RegexNode, ...]:
    """Return the nodes directly below."""
    match node:
        case RegexSequence(parts=below) | Alternation(options=below):
            return below
        case CaptureGroup(body=body) | Repetition(body=body):
            return (body,)
    return ()


def walk(node: RegexNode) -> Iterator[RegexNode]:
    """Yield the node and all nodes below it."""
    yield node
    for child in child_nodes(node):
        yield from walk(child)


def has_node(node: RegexNode, *kinds: type[RegexNode]) -> bool:
    """Whether a node of these kinds is in the tree."""
    return any(isinstance(below, kinds) for below in walk(node))
