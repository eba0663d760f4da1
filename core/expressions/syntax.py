"""The syntax tree of an expression, before any name or type is known.

Every node has its span in the text. Operators are calls whose name is their symbol, so that typing
treats both alike; `a between b and c` and similar forms are rewritten to calls by the parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.expressions.typed import Span, Value
from headrace.core.types import Type


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression; the subclasses below are the only ones."""

    span: Span


@dataclass(frozen=True, slots=True)
class Literal(Node):
    r"""A literal value; `lost` is an escape in its text that has no meaning, like `\d`."""

    value: Value
    type: Type
    lost: str = ""


@dataclass(frozen=True, slots=True)
class TypedText(Node):
    """`date '2026-01-31'` and similar: text to be parsed as that type."""

    text: str
    type: Type


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A column, or the first part of a dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Member(Node):
    """`base.name`: a field of a struct, or a column of a named input."""

    base: Node
    name: str
    name_span: Span


@dataclass(frozen=True, slots=True)
class Star(Node):
    """The `*` of `count(*)`."""


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function or operator applied; `name` is in lower case, `name_span` is its position."""

    name: str
    name_span: Span
    arguments: tuple[Node, ...]
    distinct: bool = False
    filter: Node | None = None


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`cast(operand as type)`, `try_cast(...)` or `operand::type`."""

    operand: Node
    type: Type
    attempt: bool


@dataclass(frozen=True, slots=True)
class Lambda(Node):
    """`x -> body`, allowed only as an argument."""

    parameters: tuple[str, ...]
    body: Node


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below."""
    match node:
        case Call():
            return (*node.arguments, *((node.filter,) if node.filter else ()))
        case Member(base=below) | Cast(operand=below) | Lambda(body=below):
            return (below,)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes below it, from the left."""
    yield node
    for child in children(node):
        yield from walk(child)


def depth(node: Node) -> int:
    """Return the depth of the tree, computed without recursion."""
    deepest, pending = 0, [(node, 1)]
    while pending:
        current, level = pending.pop()
        deepest = max(deepest, level)
        pending.extend((child, level + 1) for child in children(current))
    return deepest
