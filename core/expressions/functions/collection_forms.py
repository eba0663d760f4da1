"""The Polars forms of `collections`: array elements, struct fields, and building both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.flat_arrays import group_elements
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import BIGINT, BOOLEAN, Type

if TYPE_CHECKING:
    import polars as pl


def build_constant_access(index: int | None, element: pl.DataType) -> PolarsForm:
    """Return the form of the element at an index from 0; a negative index has no element."""
    import polars as pl

    if index is None or index < 0:
        return lambda array: pl.lit(None, dtype=element)
    return lambda array: array.list.get(index, null_on_oob=True)


def build_column_access(index: Type, element: Type) -> PolarsForm:
    """Return the form of the element at a computed index; only the lowest 32 bits of a bigint
    count."""
    import polars as pl

    from headrace.core.expressions.batch_forms import evaluate_once

    wide = index == BIGINT

    def form(array: pl.Expr, index: pl.Expr) -> pl.Expr:
        at = index.cast(pl.Int32, wrap_numerical=True) if wide else index
        if not array.meta.root_names():  # one array for all rows, which may be NULL
            array = pl.when(at.is_not_null()).then(array)
        return array.list.get(pl.when(at >= 0).then(at), null_on_oob=True)

    return evaluate_once(form, element)


def build_position_access(element: Type) -> PolarsForm:
    """Return the form of the element at a computed position, from 1 or negative from the end."""
    import polars as pl

    from headrace.core.expressions.batch_forms import evaluate_once

    def form(array: pl.Expr, position: pl.Expr) -> pl.Expr:
        at = position.cast(pl.Int64)
        index = pl.when(at > 0).then(at - 1).when(at < 0).then(at)
        return array.list.get(index, null_on_oob=True)

    return evaluate_once(form, element)


def explain_zero_position(array: pl.Expr, position: pl.Expr) -> pl.Expr:
    """Return the reason why there is no element, where the position is 0."""
    import polars as pl

    reason = pl.lit("the position is 0, but the first element is at 1")
    return pl.when(array.is_not_null() & (position == 0)).then(reason)


def get_at_position(array: pl.Expr, position: int) -> pl.Expr:
    """Return the element at a position from 1, or a negative position from the end."""
    return array.list.get(position - 1 if position > 0 else position, null_on_oob=True)


def build_contains() -> PolarsForm:
    """Return the form: true if found; NULL for NULLs, or if a NULL element might be the value."""
    import polars as pl

    from headrace.core.expressions.batch_forms import evaluate_once

    def form(array: pl.Expr, value: pl.Expr) -> pl.Expr:
        found = array.list.contains(value, nulls_equal=False)
        return pl.when(found | ~array.list.contains(None)).then(found)

    return evaluate_once(form, BOOLEAN)


def build_element_field(name: str) -> PolarsForm:
    """Return the form of the array of one field of an array of structs."""
    import polars as pl

    inner = pl.element().struct.field(name)
    return lambda array, _: array.list.eval(inner)


def build_array(element: pl.DataType, *, nested: bool) -> PolarsForm:
    """Return the form of an array of values; Polars would join arrays instead of nesting them, so
    literals are boxed.

    Values of columns are put in order as one flat column: `concat_list` takes thirty times as long.
    """
    import polars as pl

    from headrace.core.expressions.batch_forms import build_column_form

    interleaved = build_column_form(lambda columns: _interleave(columns, element), pl.List(element))

    def form(*values: pl.Expr) -> pl.Expr:
        if not values:
            return pl.lit([], dtype=pl.List(element))
        if not all(value.meta.is_literal() for value in values):
            return interleaved(*values)
        if not nested:
            return pl.concat_list(values)
        boxes = pl.concat_list([pl.struct(value.alias("value")) for value in values])
        return boxes.list.eval(pl.element().struct.field("value"))

    return form


def _interleave(columns: Sequence[pl.Series], element: pl.DataType) -> pl.Series:
    """Return arrays of the values of each row."""
    import polars as pl

    width, height = len(columns), len(columns[0])
    flat = pl.concat([c.alias("value").cast(element) for c in columns], rechunk=True)
    at = pl.int_range(width * height, dtype=pl.Int64)
    places = pl.select(at % width * height + at // width).to_series()
    counts = pl.repeat(width, height, dtype=pl.Int64, eager=True)
    return group_elements(flat.gather(places), counts)


def build_struct(names: Sequence[str]) -> PolarsForm:
    """Return the form of a struct of values under these names."""
    import polars as pl

    def form(*values: pl.Expr) -> pl.Expr:
        return pl.struct([v.alias(name) for name, v in zip(names, values, strict=True)])

    return form
