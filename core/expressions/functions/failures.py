"""Functions that fail a row on purpose: `on_error` of the step says what becomes of it.

Both return NULL, of no type, where they do not fail: so they stand in a branch beside values of any
type, or in a condition, as in `where: assert_true(amount > 0) is null`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.function import (
    SqlFunction,
    TypedCall,
    choose_signature,
    function,
)
from headrace.core.expressions.signature import parse_signature
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    FunctionCall,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import NULL

if TYPE_CHECKING:
    import polars as pl

_RAISE_ERROR = "raise_error(message: string) -> void"
_ASSERT_TRUE = "assert_true(condition: boolean, [message: string]) -> void"


def _make_null(*_: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.lit(None)


def _fail_with_message(message: pl.Expr) -> pl.Expr:
    return message.fill_null("NULL")


def _fail_unless_true(condition: pl.Expr, message: pl.Expr | None = None) -> pl.Expr:
    import polars as pl

    reason = pl.lit("the condition is not true") if message is None else message.fill_null("NULL")
    return pl.when(~condition.fill_null(False)).then(reason)


def _resolve_failure(call: TypedCall, signature: str, failure: PolarsForm) -> TypedExpression:
    """Resolve a call that fails in the rows in which `failure` gives a reason."""
    _, bound = choose_signature(call, [parse_signature(signature)])
    return FunctionCall(
        NULL,
        True,
        call.span,
        call.name,
        bound.arguments,
        _make_null,
        NO_SPARK_FORM,
        failure=failure,
    )


FAILURES: tuple[SqlFunction, ...] = (
    function(
        "raise_error",
        "logic",
        "Fails the row with a message, wherever the call is reached: on_error says what follows.",
        example=("if(1 < 2, 'ok', raise_error('wrong'))", "ok"),
        resolve=lambda call: _resolve_failure(call, _RAISE_ERROR, _fail_with_message),
        signatures=(_RAISE_ERROR,),
    ),
    function(
        "assert_true",
        "logic",
        "NULL if the condition is true; otherwise the row fails, with the message if there is one.",
        example=("assert_true(1 < 2, 'wrong')", "NULL"),
        more=(("assert_true(1 < 2) is null", "true"),),
        resolve=lambda call: _resolve_failure(call, _ASSERT_TRUE, _fail_unless_true),
        signatures=(_ASSERT_TRUE,),
    ),
)
"""The functions that fail a row."""
