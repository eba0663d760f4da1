"""The `in` operator: literal values become one set with a single lookup, however many they are.

NULL when the value is NULL; else true when it is found; else NULL when the list has a NULL. All are
compared as text where one of them is text, as in Spark: a date is in a list of texts only if one of
them is exactly its own, as in '2026-01-31'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.coercion import choose_type
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.function import SqlFunction, TypedCall, function
from headrace.core.expressions.functions.common_types import mismatch_hint, refuse_map, widen
from headrace.core.expressions.typed import (
    NOWHERE,
    ColumnReference,
    Constant,
    ExpressionError,
    ExpressionWarning,
    FunctionCall,
    TypedExpression,
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
    common = choose_type(argument.type for argument in call.arguments)
    if common is None:
        raise _mismatch_error(call)
    refuse_map("in", value)
    target = BOOLEAN if common == NULL else common
    written = [item for item in items if isinstance(item, Constant)]
    computed = [widen(item, target) for item in items if not isinstance(item, Constant)]
    known = _build_series(written, target)
    nullable = any(argument.nullable for argument in call.arguments)
    arguments = (widen(value, target), *computed)
    warning = _warn_of_text(value.type, written) if target == STRING else None
    form = _build_form(known)
    return FunctionCall(BOOLEAN, nullable, call.span, "in", arguments, form, warning=warning)


def _warn_of_text(type: Type, written: Sequence[Constant]) -> ExpressionWarning | None:
    """Return the warning about a text that no date or timestamp has: they are compared as texts."""
    if type not in (DATE, *TIMESTAMP_TYPES) and not isinstance(type, Time):
        return None
    texts = [each for each in written if each.type == STRING]
    own = ColumnReference(type, True, NOWHERE, "v")
    own_texts = to_expr(build_cast(own, STRING, NOWHERE))
    values = _build_series(texts, type).to_frame().select(own_texts.alias("v"))["v"]
    for text, shown in zip(texts, values, strict=True):
        if text.value != shown:
            message = f"{type}s are compared as text here, and none is {text.value!r}"
            hint = f"write it as '{shown}'" if shown else ""
            return ExpressionWarning(message, text.span, hint)
    return None


def _mismatch_error(call: TypedCall) -> ExpressionError:
    value, *items = call.arguments
    odd = next((i for i in items if choose_type((value.type, i.type)) is None), items[-1])
    message = f"in cannot compare {value.type} with {odd.type}"
    span = value.span if value.type == BOOLEAN else odd.span
    return ExpressionError(message, span, mismatch_hint(value.type, odd.type))


def _build_series(written: Sequence[Constant], target: Type) -> pl.Series:
    """Return the values of constants; those of one type are cast as a batch."""
    import polars as pl

    parts = [pl.Series("v", [], dtype=to_polars(target))]
    for type in dict.fromkeys(constant.type for constant in written):
        same = [constant for constant in written if constant.type == type]
        values = pl.DataFrame(pl.Series("v", [c.value for c in same], dtype=to_polars(type)))
        column = ColumnReference(type, True, same[0].span, "v")
        part = values.select(to_expr(build_cast(column, target, column.span)).alias("v"))["v"]
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
