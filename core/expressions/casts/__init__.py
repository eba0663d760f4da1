"""`cast(x as type)`: the supported casts, and the Polars form of each.

Spark's casts with ANSI off: an impossible conversion is null, integers wrap, doubles saturate. With
`try_cast` a value that does not fit is null too. A cast of arrays or structs casts their contents.
"""

from __future__ import annotations

from headrace.core.expressions.casts.rules import may_be_null, refusal, same_in_spark
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    OURS,
    Apply,
    Constant,
    ExpressionError,
    Form,
    Span,
    Typed,
)
from headrace.core.types import DATE, NULL, TIMESTAMP, Type


def cast(typed: Typed, target: Type, span: Span, *, try_: bool = False) -> Typed:
    """Return the expression cast to another type; ExpressionError where there is no such cast."""
    if typed.type == target:
        return typed
    if typed.type == NULL:
        return Constant(target, True, span, None)
    _check_not_special(typed, target)
    if refused := refusal(typed.type, target, try_=try_):
        raise ExpressionError(refused.message, span, refused.hint)
    nullable = typed.nullable or may_be_null(typed.type, target)
    name = "try_cast" if try_ else "cast"
    form = cast_form(typed.type, target, try_=try_)
    written_day = typed.type == DATE and isinstance(typed, Constant)
    same = written_day or same_in_spark(typed.type, target)
    return Apply(target, nullable, span, name, (typed,), form, AS_WRITTEN if same else OURS)


def cast_form(source: Type, target: Type, *, try_: bool = False) -> Form:
    """Return the Polars form of a cast, with exactly the result of Spark."""
    from headrace.core.expressions.casts.forms import form

    return form(source, target, try_=try_)


_SPECIAL = {
    "epoch": "date '1970-01-01'",
    "now": "current_timestamp()",
    "today": "current_date()",
    "tomorrow": "date_add(current_date(), 1)",
    "yesterday": "date_sub(current_date(), 1)",
}


def _check_not_special(typed: Typed, target: Type) -> None:
    """Refuse 'epoch', 'now' and similar: Spark reads them as times in a literal, and only there; in
    a column they are NULL."""
    text = typed.value if isinstance(typed, Constant) and target in (DATE, TIMESTAMP) else None
    if isinstance(text, str) and (instead := _SPECIAL.get(text.strip().lower())):
        message = f"'{text}' is not a {target} here, although Spark accepts it in a literal"
        raise ExpressionError(message, typed.span, f"write {instead}")
