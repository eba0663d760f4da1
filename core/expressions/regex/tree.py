"""The tree of a pattern, made of nodes with the same meaning in Java's and Rust's engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.expressions.regex.characters import Characters


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a pattern; the subclasses below are the only ones."""


@dataclass(frozen=True, slots=True)
class One(Node):
    """Exactly one character of a set."""

    characters: Characters


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """Parts one after the other; without parts it matches the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """The first of the options with which the whole pattern matches."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Group(Node):
    """A capturing group; groups are numbered from 1 by their opening parentheses."""

    number: int
    body: Node


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """A repetition of the body; `most` is None where there is no limit."""

    body: Node
    least: int
    most: int | None
    lazy: bool


@dataclass(frozen=True, slots=True)
class Start(Node):
    r"""`^` or `\A`: the start of the text."""


@dataclass(frozen=True, slots=True)
class End(Node):
    r"""`\z`: the end of the text."""


@dataclass(frozen=True, slots=True)
class LastLine(Node):
    r"""`$` or `\Z`: the end of the text, or the position before a final line end."""


@dataclass(frozen=True, slots=True)
class LineBreak(Node):
    r"""`\R`: a line end, where `\r\n` is one."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern and how many capturing groups it has."""

    tree: Node
    groups: int


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below."""
    match node:
        case Sequence(parts=below) | Choice(options=below):
            return below
        case Group(body=body) | Repeat(body=body):
            return (body,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def has(node: Node, *kinds: type[Node]) -> bool:
    """Whether a node of these kinds is in the tree."""
    return any(isinstance(below, kinds) for below in walk(node))
