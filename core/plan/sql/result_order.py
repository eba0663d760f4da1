"""Expressions of `order by` over the columns of a result and what is beside them."""

from __future__ import annotations

from collections.abc import Container

from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Member,
    Name,
    SyntaxNode,
    replace_nodes,
)
from headrace.core.expressions.resolver import CLOCK_FUNCTIONS
from headrace.core.plan.sql.items import is_aggregate
from headrace.core.sql.syntax_tree import Subquery, WindowCall
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OrderParts:
    """The parts of an expression of `order by` that have a value of their own."""

    results: tuple[Name, ...]
    """The names of columns of the result."""
    others: tuple[SyntaxNode, ...]
    """Aggregates, functions over windows of rows, unknown functions, queries, and columns of the
    rows."""


def find_order_parts(node: SyntaxNode, names: Container[str], tables: Container[str]) -> OrderParts:
    """Return the parts of an expression; `names` are the columns of the result, which a name means
    first, and `tables` what may stand before columns of the rows."""
    results, others = list[Name](), list[SyntaxNode]()

    def visit(each: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        match each:
            case Name(name=name) if name in bound or name.lower() in CLOCK_FUNCTIONS:
                return each
            case Name(name=name) if name in names:
                results.append(each)
                return each
            case Member(base=Name(name=name)) if name in bound or (
                name in names and name not in tables
            ):
                return None
            case Name() | Member() | Subquery() | WindowCall():
                others.append(each)
                return each
        if isinstance(each, CallNode) and (is_aggregate(each) or each.name not in FUNCTIONS):
            others.append(each)
            return each
        return None

    replace_nodes(node, visit)
    return OrderParts(tuple(results), tuple(others))
