"""Conditions on the time between two rows, as the `within` of a join.

`p.at between o.at and o.at + interval 1 hour` says how much later than its order a payment may be,
if both columns are the event times of their rows. Equal times are bounds too, and stay a condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from headrace.core.expressions.parsing.syntax_tree import CallNode, Literal, SyntaxNode
from headrace.core.expressions.typed import ExpressionError
from headrace.core.plan.sql.scope import Scope, ScopeColumn
from headrace.core.types.data_types import Interval
from headrace.core.types.lazy_dataclass import dataclass

_MICROSECOND = timedelta(microseconds=1)
_FLIPPED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}


@dataclass(frozen=True, slots=True)
class MovedTime:
    """The event time of one side of a join, moved by some time."""

    side: str
    moved: timedelta


@dataclass(frozen=True, slots=True)
class WithinBounds:
    """The times by which right rows may be later than left ones, and the conditions that say so."""

    least: timedelta
    most: timedelta
    conditions: tuple[SyntaxNode, ...]


def find_time_bounds(
    conditions: Iterable[SyntaxNode], scope: Scope, left: str, *, may_be_equal: bool
) -> WithinBounds | None:
    """Return the bounds that conditions set to both sides; None if one is missing.

    With `may_be_equal`, an equality of times is a bound.
    """
    least: timedelta | None = None
    most: timedelta | None = None
    found: list[SyntaxNode] = []
    for condition in conditions:
        is_equality = isinstance(condition, CallNode) and condition.name == "="
        bounds = [*_list_bounds(condition, scope, left)] if may_be_equal or not is_equality else []
        for is_lower, bound in bounds:
            if is_lower:
                least = bound if least is None else max(least, bound)
            else:
                most = bound if most is None else min(most, bound)
        if bounds and not is_equality:
            found.append(condition)
    if least is None or most is None or least > most:
        return None
    return WithinBounds(least, most, tuple(found))


def _list_bounds(node: SyntaxNode, scope: Scope, left: str) -> Iterator[tuple[bool, timedelta]]:
    """Yield the bounds of a condition, each with whether it is a lower one."""
    if not isinstance(node, CallNode):
        return
    match node.name, node.arguments:
        case "between", (time, low, high):
            both = [
                _find_bound(time, ">=", low, scope, left),
                _find_bound(time, "<=", high, scope, left),
            ]
            if None not in both:
                yield from (each for each in both if each is not None)
        case "=", (one, other):
            both = [_find_bound(one, sign, other, scope, left) for sign in (">=", "<=")]
            yield from (each for each in both if each is not None)
        case (("<=" | ">=" | "<" | ">"), (one, other)):
            bound = _find_bound(one, node.name, other, scope, left)
            if bound is not None:
                yield bound


def _find_bound(
    one: SyntaxNode, sign: str, other: SyntaxNode, scope: Scope, left: str
) -> tuple[bool, timedelta] | None:
    """Return the bound of a comparison of the times of both sides."""
    first, second = find_time(one, scope), find_time(other, scope)
    if first is None or second is None or first.side == second.side:
        return None
    if first.side == left:
        first, second, sign = second, first, _FLIPPED[sign]
    # right + a >= left + b: right - left >= b - a
    bound = second.moved - first.moved
    strict = {">": _MICROSECOND, "<": -_MICROSECOND}.get(sign, timedelta())
    return sign.startswith(">"), bound + strict


def find_time(node: SyntaxNode, scope: Scope) -> MovedTime | None:
    """Return the distance of an expression from the event time of rows, if it tells that."""
    if isinstance(node, CallNode) and node.name in ("+", "-") and len(node.arguments) == 2:
        one, other = node.arguments
        if node.name == "+" and read_interval(one) is not None:
            one, other = other, one
        length, time = read_interval(other), find_time(one, scope)
        if length is None or time is None:
            return None
        return MovedTime(time.side, time.moved + (length if node.name == "+" else -length))
    column = find_column(node, scope)
    if column is None or column.time is None:
        return None
    return MovedTime(column.side, timedelta(microseconds=column.time.after_us))


def find_column(node: SyntaxNode, scope: Scope) -> ScopeColumn | None:
    """Return the column that a whole expression is, if it is one."""
    try:
        return scope.find(node)
    except ExpressionError:
        return None


def read_interval(node: SyntaxNode) -> timedelta | None:
    """Return the length of an interval of days to seconds that is written in the query."""
    if isinstance(node, Literal) and isinstance(node.type, Interval) and not node.type.is_months:
        assert isinstance(node.value, int), "it is a number of microseconds"
        return timedelta(microseconds=node.value)
    return None
