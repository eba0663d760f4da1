"""The order of rows in queries, which is that of event time.

Tests: tests/core/plan/sql/test_query_mistakes.py.
"""

from __future__ import annotations

from headrace.core.expressions.parsing.syntax_tree import SortItem
from headrace.core.expressions.typed import Span
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.texts import QueryTexts
from headrace.core.plan.sql.time_bounds import find_time


def find_time_name(scope: Scope) -> str:
    """Return the name of a column that has the order of event time, or what there should be."""
    times = (each.name for each in scope.columns if each.time is not None)
    return next(times, "the event_time of its source, which must be a column here")


def check_event_order(
    what: str,
    place: Span,
    order: tuple[SortItem, ...],
    scope: Scope,
    texts: QueryTexts,
    *,
    has_event_time: bool,
    reason: str = "a stream has no last row",
    order_hint: str = "order by {} gives the rows so far",
    other_hint: str = "",
    reverse_hint: str = "",
) -> None:
    """Check that an `order by` is that of event time. Raises RejectedQuery.

    `reason` and `order_hint` are for a missing order, `other_hint` is added to the hint for another
    one, and `reverse_hint` is that for `desc`.
    """
    time = find_time_name(scope)
    if not has_event_time:
        message = f"{what} goes by event time, and these rows have none"
        hint = "set event_time in the source, or in a step before"
        raise texts.reject(message, place, hint)
    if not order:
        message = f"{what} wants an order by: {reason}"
        raise texts.reject(message, place, order_hint.format(time))
    first, *others = order
    if find_time(first.expression, scope) is None:
        texts.write(first.expression, scope)  # its error says which columns there are
        written = texts.cut(first.expression.span)
        message = f"{what} goes by the event time of rows, and {written} is not it"
        raise texts.reject(message, first.expression.span, f"order by {time}{other_hint}")
    if first.is_descending:
        message = f"{what} goes from early to late rows, got desc"
        raise texts.reject(message, place, reverse_hint or f"order by {time}")
    if others:
        span = others[0].expression.span.extend_to(others[-1].expression.span)
        written = texts.cut(span)
        message = f"{what} goes by event time alone, got {written} after it"
        hint = f"leave out {written}: rows of the same time are in the order of their source"
        raise texts.reject(message, span, hint)
