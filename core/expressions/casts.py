"""`cast(x as type)`: which casts there are, and the Polars form of each."""

from __future__ import annotations

from headrace.core.expressions.typed import Apply, ExpressionError, Form, Span, Typed
from headrace.core.types import Type, to_polars


def cast(typed: Typed, target: Type, span: Span) -> Typed:
    """The expression cast to another type, or an ExpressionError where there is no such cast."""
    if typed.type == target:
        return typed
    return Apply(target, True, span, "cast", (typed,), cast_form(typed.type, target))


def cast_form(source: Type, target: Type) -> Form:
    """How Polars casts from one type to another exactly as Spark does."""
    return lambda value: value.cast(to_polars(target), strict=False)
