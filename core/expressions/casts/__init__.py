"""`cast(x as type)`: the supported casts, and the Polars form of each.

Spark's casts with ANSI off: an impossible conversion is null, integers wrap, doubles saturate. With
`try_cast` a value that does not fit is null too. A cast of arrays or structs casts their contents.

Tests: tests/core/expressions/casts and tests/core/expressions/test_spark_answers.py.
"""

from __future__ import annotations

from headrace.core.expressions.casts.rules import can_be_null, find_refusal, is_same_in_spark
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    Span,
    TypedExpression,
    is_fallible,
)
from headrace.core.types.data_types import DATE, NULL, TIMESTAMP_TYPES, Type, to_polars


def build_cast(
    typed: TypedExpression, target: Type, span: Span, *, try_: bool = False
) -> TypedExpression:
    """Return the expression cast to another type; ExpressionError where there is no such cast."""
    if typed.type == target:
        return typed
    if typed.type == NULL:
        return _cast_null(typed, target, span)
    _refuse_special_text(typed, target)
    if refused := find_refusal(typed.type, target, try_=try_):
        raise ExpressionError(refused.message, span, refused.hint)
    nullable = typed.nullable or can_be_null(typed.type, target)
    name = "try_cast" if try_ else "cast"
    form = build_cast_form(typed.type, target, try_=try_)
    written_day = typed.type == DATE and isinstance(typed, Constant)
    same = written_day or is_same_in_spark(typed.type, target)
    return FunctionCall(
        target, nullable, span, name, (typed,), form, AS_WRITTEN if same else NO_SPARK_FORM
    )


def _cast_null(typed: TypedExpression, target: Type, span: Span) -> TypedExpression:
    """Return NULL of a type; an expression that may fail, such as `raise_error`, is evaluated."""
    if not is_fallible(typed):
        return Constant(target, True, span, None)
    return FunctionCall(
        target,
        True,
        span,
        "cast",
        (typed,),
        lambda null: null.cast(to_polars(target)),
        NO_SPARK_FORM,
    )


def build_cast_form(source: Type, target: Type, *, try_: bool = False) -> PolarsForm:
    """Return the Polars form of a cast, with exactly the result of Spark."""
    from headrace.core.expressions.casts.forms import build_form

    return build_form(source, target, try_=try_)


_SPECIAL_TEXTS = {
    "epoch": "date '1970-01-01'",
    "now": "current_timestamp()",
    "today": "current_date()",
    "tomorrow": "date_add(current_date(), 1)",
    "yesterday": "date_sub(current_date(), 1)",
}


def _refuse_special_text(typed: TypedExpression, target: Type) -> None:
    """Refuse 'epoch', 'now' and similar: Spark reads them as times in a literal, and only there; in
    a column they are NULL."""
    text = (
        typed.value if isinstance(typed, Constant) and target in (DATE, *TIMESTAMP_TYPES) else None
    )
    if isinstance(text, str) and (instead := _SPECIAL_TEXTS.get(text.strip().lower())):
        message = f"'{text}' is not a {target} here, although Spark accepts it in a literal"
        raise ExpressionError(message, typed.span, f"write {instead}")
