"""Functions of arguments, shared by the forms of several families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.function import Overload, TypedCall, choose_signature
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    Constant,
    FunctionCall,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    JAVA_DIGITS,
    TIMESTAMP_NTZ,
    Decimal,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl


def build_evaluating_once(form: PolarsForm) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of a form that mentions an argument more than once; none of them is a
    constant."""

    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.batch_forms import evaluate_once

        return evaluate_once(form, bound.result)

    return build


def fit_time_zone(form: PolarsForm, result: Type) -> PolarsForm:
    """Return a form of timestamps whose results have no time zone if the type has none."""
    if result != TIMESTAMP_NTZ:
        return form
    return lambda *arguments: calendar.drop_zone(form(*arguments))


def build_mapping(compute: Callable[..., object]) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of a form that calls Python for each row."""

    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.batch_forms import map_values

        return map_values(compute, bound.result)

    return build


def build_by_text(
    at: int, make: Callable[[str], PolarsForm | None]
) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of a form that depends on a text argument: a unit, a pattern, a zone.

    `make` returns the form of the other arguments, None if the text has no meaning; there the
    result is null. A text that is not a literal costs one evaluation for each of its values.
    """

    def build(bound: BoundArguments) -> PolarsForm:
        text = literal_text(bound.arguments[at])
        form = make(text) if text is not None else None
        if form is None:
            return _apply_by_text(at, make, bound.result)
        fixed = form
        return lambda *arguments: fixed(*arguments[:at], *arguments[at + 1 :])

    return build


def _apply_by_text(at: int, make: Callable[[str], PolarsForm | None], result: Type) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        names = [name for name in frame.columns if name != f"a{at}"]
        found = pl.Series("result", [None], dtype=to_polars(result)).new_from_index(0, frame.height)
        for text in frame[f"a{at}"].drop_nulls().unique():
            form = make(text)
            if form is not None:
                rows = (frame[f"a{at}"] == text).fill_null(False).arg_true()
                values = frame[rows].select(form(*map(pl.col, names)).alias("result"))
                found = found.scatter(rows, values.to_series())
        return found

    return compute_on_frame(compute, result)


def spark_form_of_negation(bound: BoundArguments) -> str:
    """Return the Spark form of a change of sign: Spark fails where a decimal of more digits than
    Java keeps is rounded up to one digit more."""
    type = bound.types[0]
    wide = isinstance(type, Decimal) and type.precision > JAVA_DIGITS
    return NO_SPARK_FORM if wide else AS_WRITTEN


def literal_text(typed: TypedExpression) -> str | None:
    """Return the text of a literal, or None."""
    value = typed.value if isinstance(typed, Constant) else None
    return value if isinstance(value, str) else None


def literal_int(typed: TypedExpression) -> int | None:
    """Return the integer of a literal, or None."""
    value = typed.value if isinstance(typed, Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def clip_at_zero(count: pl.Expr) -> pl.Expr:
    """Return the count, or 0 where it is negative."""
    return count.clip(0)


def count_characters(text: pl.Expr) -> pl.Expr:
    """Return the number of characters, as a type that holds sums of such numbers."""
    import polars as pl

    return text.str.len_chars().cast(pl.Int64)


SMALL_SIZE, SMALL_FACTOR = 256, 32
"""A call of literals is growing if its result may be both larger than this number of bytes and
larger than its arguments by this factor."""

_REPEATED_TOGETHER = 1024


def repeat_text(text: pl.Expr, times: pl.Expr) -> pl.Expr:
    """Repeat the text; NULL is not repeated as a value.

    A list takes 16 bytes for each text in it, so large numbers are repeated in two steps.
    """
    import polars as pl

    times = clip_at_zero(times)
    many = pl.when(times >= _REPEATED_TOGETHER).then(_REPEATED_TOGETHER).otherwise(0)
    together = text.repeat_by(many).list.join("")
    parts = [
        together.repeat_by(times // _REPEATED_TOGETHER).list.join(""),
        text.repeat_by(times % _REPEATED_TOGETHER).list.join(""),
    ]
    return pl.when(text.is_not_null()).then(pl.concat_str(parts))


_CASE_FUNCTIONS = ("lower", "lcase", "upper", "ucase")


def resolve_ignoring_case(overload: Overload) -> Callable[[TypedCall], TypedExpression]:
    """Return the resolver of a call that may drop a change of case in its first argument, as Spark
    does.

    Spark's optimizer regards the `lower` in `upper(lower(x))` as redundant, although it is not: a
    dotless small i becomes a capital I, and that becomes an i with a dot.
    """

    def resolve(call: TypedCall) -> TypedExpression:
        written = call.arguments
        if written:
            text = written[0]
            while isinstance(text, FunctionCall) and text.function in _CASE_FUNCTIONS:
                text = text.arguments[0]
            call = replace(call, arguments=(text, *written[1:]))
        _, bound = choose_signature(call, [overload.signature])
        typed = overload.apply(call, bound)
        if isinstance(typed, FunctionCall) and call.arguments != written:
            return replace(
                typed, spark=NO_SPARK_FORM
            )  # `spark.settings` turns that optimizer rule off
        return typed

    return resolve
