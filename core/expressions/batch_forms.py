"""Forms that use their arguments more than once, without computing them more than once.

A Polars expression is a tree: a form that mentions its argument twice doubles the computation of
that argument, and nested forms multiply it. So such a form gets its arguments as computed columns:
it is evaluated inside one `map_batches` over them, vectorised as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import Type, to_polars
from headrace.core.types.frames import align_lengths


def evaluate_once(form: PolarsForm, result: Type) -> PolarsForm:
    """Wrap a form so that each argument is computed once, however often the form mentions it."""

    def evaluate(*arguments: pl.Expr) -> pl.Expr:
        if all(a.meta.is_column() or a.meta.is_literal() for a in arguments):
            return form(*arguments)
        names = [f"a{i}" for i in range(len(arguments))]
        body = form(*map(pl.col, names))

        def compute(frame: pl.DataFrame) -> pl.Series:
            return frame.select(body.alias("result")).to_series()

        return compute_on_frame(compute, result)(*arguments)

    return evaluate


def compute_on_frame(compute: Callable[[pl.DataFrame], pl.Series], result: Type) -> PolarsForm:
    """Return a form that computes step by step over a frame of its arguments, named a0, a1, ..."""

    def on_columns(columns: Sequence[pl.Series]) -> pl.Series:
        return compute(pl.DataFrame([c.alias(f"a{i}") for i, c in enumerate(columns)]))

    return build_column_form(on_columns, to_polars(result))


def build_column_form(
    compute: Callable[[Sequence[pl.Series]], pl.Series], type: pl.DataType
) -> PolarsForm:
    """Return a form that computes on its arguments as columns of one length."""

    def on_columns(columns: Sequence[pl.Series]) -> pl.Series:
        return compute(align_lengths(columns))

    def evaluate(*arguments: pl.Expr) -> pl.Expr:
        if len(arguments) == 1:
            return arguments[0].map_batches(
                lambda column: on_columns([column]), return_dtype=type, is_elementwise=True
            )
        return pl.map_batches(list(arguments), on_columns, return_dtype=type, is_elementwise=True)

    return evaluate


def compute_on_column(compute: Callable[[pl.Series], pl.Series], result: Type) -> PolarsForm:
    """Return a form of one argument that computes on the column as a whole."""
    type = to_polars(result)
    return lambda value: value.map_batches(compute, return_dtype=type, is_elementwise=True)


def map_values(compute: Callable[..., object], result: Type) -> PolarsForm:
    """Return a form that calls Python for each row; it is null where an argument is."""
    type = to_polars(result)

    def compute_rows(frame: pl.DataFrame) -> pl.Series:
        found = [None if None in row else compute(*row) for row in frame.iter_rows()]
        return pl.Series(found, dtype=type)

    return compute_on_frame(compute_rows, result)


def fill_unparsed(
    text: pl.Series, read: pl.Series, parse_rest: Callable[[pl.Series], pl.Series]
) -> pl.Series:
    """Return the parsed values, with nulls replaced by the result of a slower parser."""
    is_unparsed = read.is_null() & text.is_not_null()
    if not is_unparsed.any():
        return read
    return read.scatter(is_unparsed.arg_true(), parse_rest(text.filter(is_unparsed)))
