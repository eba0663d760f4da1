"""The syntax tree of an expression, before any name or type is known.

Every node has its span in the text. Operators are calls whose name is their symbol, so that typing
treats both alike; `a between b and c` and similar forms are rewritten to calls by the parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal as OneOf

from headrace.core.expressions.typed import ConstantValue, Span
from headrace.core.types.data_types import Type
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """A part of an expression; the subclasses below are the only ones."""

    span: Span


@dataclass(frozen=True, slots=True)
class Literal(SyntaxNode):
    r"""A literal value; `lost_escape` is an escape in its text that has no meaning, like `\d`."""

    value: ConstantValue
    type: Type
    lost_escape: str = ""


@dataclass(frozen=True, slots=True)
class TypedText(SyntaxNode):
    """`date '2026-01-31'` and similar: text to be parsed as that type."""

    text: str
    type: Type


@dataclass(frozen=True, slots=True)
class Name(SyntaxNode):
    """A column, or the first part of a dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Member(SyntaxNode):
    """`base.name`: a field of a struct, or a column of a named input."""

    base: SyntaxNode
    name: str
    name_span: Span


@dataclass(frozen=True, slots=True)
class MethodCall(SyntaxNode):
    """`text.upper()`, which Spark does not have; `call` is the call of a function, as text."""

    subject: SyntaxNode
    name: str
    arguments: tuple[SyntaxNode, ...]
    call: str


@dataclass(frozen=True, slots=True)
class Star(SyntaxNode):
    """The `*` of `count(*)`."""


@dataclass(frozen=True, slots=True)
class SortItem:
    """An expression of `order by`, with its direction."""

    expression: SyntaxNode
    is_descending: bool
    nulls_last: bool


@dataclass(frozen=True, slots=True)
class CallNode(SyntaxNode):
    """A function or operator applied; `name` is in lower case, `name_span` is its position.

    `within_group` has the items of `within group (order by ...)`.
    """

    name: str
    name_span: Span
    arguments: tuple[SyntaxNode, ...]
    is_distinct: bool = False
    filter: SyntaxNode | None = None
    within_group: tuple[SortItem, ...] = ()


@dataclass(frozen=True, slots=True)
class RowFrame:
    """The frame of a function over rows: from `start` to `end`, relative to the current row.

    The bounds count rows, or microseconds of the order, and are negative before the current row;
    a `start` of None is unbounded.
    """

    unit: OneOf["rows", "range"]
    start: int | None
    end: int

    def __str__(self) -> str:
        start = "unbounded preceding" if self.start is None else self._format_bound(self.start)
        return f"{self.unit} between {start} and {self._format_bound(self.end)}"

    def _format_bound(self, bound: int) -> str:
        if not bound:
            return "current row"
        side = "preceding" if bound < 0 else "following"
        if self.unit == "rows":
            return f"{abs(bound)} {side}"
        return f"interval {abs(bound) / 1_000_000:.6f}".rstrip("0").rstrip(".") + f" seconds {side}"


DEFAULT_FRAME = RowFrame("range", None, 0)
"""The frame without a word about it: all rows up to the current one, and those of its time."""


@dataclass(frozen=True, slots=True)
class FramedCall(SyntaxNode):
    """A call with `over (frame)`; without a frame in the parentheses it is None."""

    call: CallNode
    frame: RowFrame | None


@dataclass(frozen=True, slots=True)
class Cast(SyntaxNode):
    """`cast(operand as type)`, `try_cast(...)` or `operand::type`."""

    operand: SyntaxNode
    type: Type
    is_try: bool


@dataclass(frozen=True, slots=True)
class Lambda(SyntaxNode):
    """`x -> body`, allowed only as an argument."""

    parameters: tuple[str, ...]
    body: SyntaxNode


def child_nodes(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    """Return the nodes directly below."""
    match node:
        case CallNode():
            order = (item.expression for item in node.within_group)
            return (*node.arguments, *order, *((node.filter,) if node.filter else ()))
        case MethodCall():
            return (node.subject, *node.arguments)
        case Member(base=below) | Cast(operand=below) | Lambda(body=below) | FramedCall(call=below):
            return (below,)
    return ()


def walk(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield the node and all nodes below it, from the left."""
    yield node
    for child in child_nodes(node):
        yield from walk(child)


def find_free_names(node: SyntaxNode, bound: frozenset[str] = frozenset()) -> Iterator[Name]:
    """Yield the names that are no parameters of a lambda function around them."""
    if isinstance(node, Name) and node.name not in bound:
        yield node
    if isinstance(node, Lambda):
        bound = bound.union(node.parameters)
    for child in child_nodes(node):
        yield from find_free_names(child, bound)


def replace_nodes(
    node: SyntaxNode,
    find: Callable[[SyntaxNode, frozenset[str]], SyntaxNode | None],
    bound: frozenset[str] = frozenset(),
) -> SyntaxNode:
    """Return the tree with each topmost node replaced for which `find` returns another.

    `find` also gets the parameters of the lambda functions around the node.
    """
    found = find(node, bound)
    if found is not None:
        return found

    def descend(below: SyntaxNode) -> SyntaxNode:
        return replace_nodes(below, find, bound)

    match node:
        case CallNode():
            order = (
                replace(item, expression=descend(item.expression)) for item in node.within_group
            )
            return replace(
                node,
                arguments=tuple(map(descend, node.arguments)),
                filter=node.filter and descend(node.filter),
                within_group=tuple(order),
            )
        case MethodCall():
            arguments = tuple(map(descend, node.arguments))
            return replace(node, subject=descend(node.subject), arguments=arguments)
        case Member():
            return replace(node, base=descend(node.base))
        case Cast():
            return replace(node, operand=descend(node.operand))
        case FramedCall():
            call = descend(node.call)
            return replace(node, call=call) if isinstance(call, CallNode) else node
        case Lambda():
            inner = bound.union(node.parameters)
            return replace(node, body=replace_nodes(node.body, find, inner))
    return node


def tree_depth(node: SyntaxNode) -> int:
    """Return the depth of the tree, computed without recursion."""
    deepest, pending = 0, [(node, 1)]
    while pending:
        current, level = pending.pop()
        deepest = max(deepest, level)
        pending.extend((child, level + 1) for child in child_nodes(current))
    return deepest
