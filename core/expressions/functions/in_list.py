"""The `in` operator: literal values become one set with a single lookup, however many they are.

NULL when the value is NULL; else true when it is found; else NULL when the list has a NULL. Spark
compares a date with a list that contains text as text. So a string literal stands for a date or
timestamp here only in the exact form that Spark gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.coercion import coerce_to, common_argument_type
from headrace.core.expressions.function import SqlFunction, TypedCall, function
from headrace.core.expressions.functions.common_types import conversion_hint, refuse_map, widen
from headrace.core.expressions.typed import (
    ColumnReference,
    Constant,
    ExpressionError,
    FunctionCall,
    TypedExpression,
    to_expr,
)
from headrace.core.types.data_types import (
    BOOLEAN,
    DATE,
    NULL,
    STRING,
    TIMESTAMP_TYPES,
    Time,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl


def _resolve_in(call: TypedCall) -> TypedExpression:
    value, *items = call.arguments
    common = _find_common_type(call)
    refuse_map("in", value)
    target = BOOLEAN if common == NULL else common
    if target in (DATE, *TIMESTAMP_TYPES) or isinstance(target, Time):
        _check_texts(call, target)
    written = [item for item in items if isinstance(item, Constant)]
    computed = [widen(item, target) for item in items if not isinstance(item, Constant)]
    known = _build_series(written, target)
    nullable = any(argument.nullable for argument in call.arguments)
    arguments = (widen(value, target), *computed)
    return FunctionCall(BOOLEAN, nullable, call.span, "in", arguments, _build_form(known))


def _find_common_type(call: TypedCall) -> Type:
    common = common_argument_type(call.arguments)
    if common is not None:
        return common
    value, *items = call.arguments
    odd = next((i for i in items if common_argument_type((value, i)) is None), items[-1])
    message = f"in cannot compare {value.type} with {odd.type}"
    raise ExpressionError(message, odd.span, conversion_hint(value.type, odd, items))


def _check_texts(call: TypedCall, target: Type) -> None:
    """Refuse a text that Spark would not find although it is the same day or instant."""
    texts = [a for a in call.arguments if isinstance(a, Constant) and a.type == STRING]
    types = {a.type for a in call.arguments} - {STRING, NULL}
    if texts and len(types) > 1:
        hint = "all of one type, as in timestamp '2026-01-31 08:00:00'"
        raise ExpressionError("dates, timestamps and text in one list", texts[0].span, hint)
    for text, value in zip(texts, _build_series(texts, target), strict=True) if texts else ():
        written, shown = str(text.value), _format_like_spark(value)
        if shown != written:
            message = f"wanted a {target} as Spark writes it, got '{written}'"
            raise ExpressionError(message, text.span, f"write it as '{shown}'")


def _format_like_spark(value: date | time) -> str:
    """Return the text that Spark gives a date, a timestamp or a time."""
    if isinstance(value, time):
        return value.isoformat().rstrip("0") if value.microsecond else value.isoformat()
    if not isinstance(value, datetime):
        return value.isoformat()
    text = value.replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if value.microsecond else text


def _build_series(written: Sequence[Constant], target: Type) -> pl.Series:
    """Return the values of constants; those of one type are cast as a batch."""
    import polars as pl

    parts = [pl.Series("v", [], dtype=to_polars(target))]
    for type in dict.fromkeys(constant.type for constant in written):
        same = [constant for constant in written if constant.type == type]
        values = pl.DataFrame(pl.Series("v", [c.value for c in same], dtype=to_polars(type)))
        column = ColumnReference(type, True, same[0].span, "v")
        part = values.select(to_expr(build_cast(column, target, column.span)).alias("v"))["v"]
        if type == STRING != target and part.has_nulls():
            for constant in same:
                coerce_to(constant, target)  # raises its error
        parts.append(part)
    return pl.concat(parts)


def _build_form(known: pl.Series) -> Callable[..., pl.Expr]:
    import polars as pl

    from headrace.core.expressions.batch_forms import evaluate_once

    values, has_null = known.drop_nulls(), known.has_nulls()

    def form(value: pl.Expr, *computed: pl.Expr) -> pl.Expr:
        tests: list[pl.Expr] = [value == other for other in computed]
        if len(values) == 1:
            tests.append(value == pl.lit(values).first())
        elif len(values):
            tests.append(value.is_in(pl.lit(values).implode()))
        if has_null:
            tests.append(pl.lit(None, dtype=pl.Boolean))
        # Three-valued: true when one is, else NULL when one is, else false.
        return pl.any_horizontal(tests) if len(tests) > 1 else tests[0]

    return evaluate_once(form, BOOLEAN)


MEMBERSHIP: tuple[SqlFunction, ...] = (
    function(
        "in",
        "logic",
        "Whether the value is in a list; NULL if the value is NULL, or is not found in a list with"
        " a NULL.",
        example=("2 in (1, 2, 3)", "true"),
        more=(("2 in (1, null)", "NULL"), ("'b' not in ('a', 'c')", "true")),
        resolve=_resolve_in,
        signatures=("in(value: T, item: T...) -> boolean",),
    ),
)
"""The operator `in`."""
