"""A pattern as a tree of what both Java's and Rust's engines understand in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.expressions.regex.characters import Characters


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a pattern; the subclasses below are all there are."""


@dataclass(frozen=True, slots=True)
class One(Node):
    """Exactly one character of a set."""

    characters: Characters


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """One after the other; without parts it matches the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """The first of the options with which the whole matches."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Group(Node):
    """A capturing group; they are numbered from 1 by their opening parentheses."""

    number: int
    body: Node


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """The body again and again; `most` is None where there is no limit."""

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
    r"""`$` or `\Z`: the end of the text, or before a line end that the text ends with."""


@dataclass(frozen=True, slots=True)
class LineBreak(Node):
    r"""`\R`: a line end, `\r\n` being one."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern and how many capturing groups it has."""

    tree: Node
    groups: int


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below."""
    match node:
        case Sequence(parts=below) | Choice(options=below):
            return below
        case Group(body=body) | Repeat(body=body):
            return (body,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def has(node: Node, *kinds: type[Node]) -> bool:
    """Whether such a node is in it."""
    return any(isinstance(below, kinds) for below in walk(node))
