"""Functions of arguments, shared by the forms of several families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.casts.rules import JAVA_DIGITS
from headrace.core.expressions.function import Call, Overload, choose
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import AS_WRITTEN, OURS, Apply, Constant, Form, Typed
from headrace.core.types import Decimal

if TYPE_CHECKING:
    import polars as pl


def repeating(form: Form) -> Callable[[Bound], Form]:
    """Return the builder of a form that mentions an argument more than once; none of them is a
    constant."""

    def build(bound: Bound) -> Form:
        from headrace.core.expressions.batches import once

        return once(form, bound.result)

    return build


def signed_in_spark(bound: Bound) -> str:
    """Return the Spark form of a change of sign: Spark fails where a decimal of more digits than
    Java keeps is rounded up to one digit more."""
    type = bound.types[0]
    wide = isinstance(type, Decimal) and type.precision > JAVA_DIGITS
    return OURS if wide else AS_WRITTEN


def literal_text(typed: Typed) -> str | None:
    """Return the text of a literal, or None."""
    value = typed.value if isinstance(typed, Constant) else None
    return value if isinstance(value, str) else None


def literal_int(typed: Typed) -> int | None:
    """Return the integer of a literal, or None."""
    value = typed.value if isinstance(typed, Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def natural(count: pl.Expr) -> pl.Expr:
    """Return the count, or 0 where it is negative."""
    return count.clip(0)


def characters(text: pl.Expr) -> pl.Expr:
    """Return the number of characters, as a type that holds sums of such numbers."""
    import polars as pl

    return text.str.len_chars().cast(pl.Int64)


_CASES = ("lower", "lcase", "upper", "ucase")


def of_any_case(overload: Overload) -> Callable[[Call], Typed]:
    """Return the resolver of a call that may drop a change of case in its first argument, as Spark
    does.

    Spark's optimizer regards the `lower` in `upper(lower(x))` as redundant, although it is not: a
    dotless small i becomes a capital I, and that becomes an i with a dot.
    """

    def resolve(call: Call) -> Typed:
        written = call.arguments
        if written:
            text = written[0]
            while isinstance(text, Apply) and text.function in _CASES:
                text = text.arguments[0]
            call = replace(call, arguments=(text, *written[1:]))
        _, bound = choose(call, [overload.signature])
        typed = overload.apply(call, bound)
        if isinstance(typed, Apply) and call.arguments != written:
            return replace(typed, spark=OURS)  # `spark.settings` turns that optimizer rule off
        return typed

    return resolve
