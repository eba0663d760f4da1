"""Schemas of JSON and CSV texts: the columns that a constant text names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.function import Overload, TypedCall, choose_signature
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.text_options import read_options
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import STRING, Array, Field, MapType, Struct, Type
from headrace.core.types.type_parser import TypeTextError, parse_type

if TYPE_CHECKING:
    import polars as pl

CORRUPT_COLUMN = "_corrupt_record"


def parse_schema(bound: BoundArguments) -> Type:
    """Return the type that the second argument of a call, a constant text, names."""
    text, span = bound.constants[1], bound.arguments[1].span
    if not isinstance(text, str) or not text.strip():
        raise ExpressionError("a schema is needed", span, "as in 'a int, b string'")
    try:
        return parse_columns(text)
    except TypeTextError as error:
        hint = error.hint or "as in 'a int, b string'"
        raise ExpressionError(f"the schema '{text}': {error}", span, hint) from None


def check_corrupt_column(function: str, bound: BoundArguments, type: Type) -> None:
    """Refuse a schema whose column for texts that are not read is not of text."""
    options = read_options(function, bound, 2)
    name = options.get_text("columnNameOfCorruptRecord", CORRUPT_COLUMN)
    corrupt = type.get(name) if isinstance(type, Struct) else None
    if corrupt and corrupt.type != STRING:
        message = f"the column {name} is for texts that are not read, got {corrupt.type}"
        raise ExpressionError(message, bound.arguments[1].span, f"write {name} string")


def build_failfast_resolver(
    reads: Overload,
    build_reader: Callable[[BoundArguments, Struct], Callable[..., pl.Series]],
    *,
    empty_is_bad: bool = False,
) -> Callable[[TypedCall], TypedExpression]:
    """Return the resolver of a function that reads texts; a bad one fails in the mode FAILFAST.

    The reader returns structs of a type, with bad texts in a column for them.
    """

    def resolve(call: TypedCall) -> TypedExpression:
        _, bound = choose_signature(call, [reads.signature])
        typed = reads.apply(call, bound)
        options = read_options(call.name, bound, 2)
        if not isinstance(typed, FunctionCall) or not options.is_failfast():
            return typed
        if not isinstance(typed.type, Struct):
            message = f"{call.name}: the mode FAILFAST wants a schema of columns, got {typed.type}"
            hint = "with PERMISSIVE, the mode if none is given, a bad text gives NULL"
            raise ExpressionError(message, options.span, hint)
        corrupt = options.get_text("columnNameOfCorruptRecord", CORRUPT_COLUMN)
        fields = (*(f for f in typed.type.fields if f.name != corrupt), Field(corrupt, STRING))
        read = build_reader(bound, Struct(fields))

        def find_bad(texts: pl.Series) -> pl.Series:
            return read(texts).struct.field(corrupt)

        failure = _build_failure(find_bad, empty_is_bad)
        return replace(typed, failure=failure, spark=NO_SPARK_FORM)

    return resolve


def _build_failure(find_bad: Callable[[pl.Series], pl.Series], empty_is_bad: bool) -> PolarsForm:
    def explain(text: pl.Expr) -> pl.Expr:
        import polars as pl

        from headrace.core.expressions.batch_forms import compute_on_column

        is_bad = compute_on_column(find_bad, STRING)(text).is_not_null()
        if empty_is_bad:
            is_bad = is_bad | (text == "")
        return pl.when(is_bad).then(pl.lit("the text does not fit its schema"))

    return explain


def parse_columns(text: str) -> Type:
    """Return the struct of columns as in 'a int, b string', or a type as it is written."""
    try:
        return parse_type(f"struct<{text}>")[0]
    except TypeTextError as error:
        try:
            return parse_type(text)[0]
        except TypeTextError as other:
            is_type = re.match(r"\s*(array|struct|map)\s*<", text, re.IGNORECASE)
            raise (other if is_type else error) from None


def drop_not_null(type: Type) -> Type:
    """Return the type with all fields nullable: a text may lack any of them."""
    match type:
        case Struct(fields):
            return Struct(tuple(Field(f.name, drop_not_null(f.type)) for f in fields))
        case Array(element):
            return Array(drop_not_null(element))
        case MapType(key, value):
            return MapType(key, drop_not_null(value))
    return type
