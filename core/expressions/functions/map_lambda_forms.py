"""Computations of higher-order functions of maps, over the flat keys and values of all maps.

Each takes the rows and a compiled lambda function, like those of `lambda_forms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.compiled_lambda import CompiledLambda, HigherOrderRows
from headrace.core.expressions.flat_arrays import (
    count_elements,
    flatten_arrays,
    group_elements,
    number_rows,
    sum_by_row,
)
from headrace.core.expressions.functions.map_forms import make_maps
from headrace.core.types.map_entries import KEY, VALUE

if TYPE_CHECKING:
    import polars as pl


def filter_entries(rows: HigherOrderRows, condition: CompiledLambda) -> pl.Series:
    """Return the maps of the entries for which the condition is true."""
    (maps,) = rows.values
    flat, counts = _flatten_maps(maps)
    fields = [flat.struct.field(KEY), flat.struct.field(VALUE)]
    found = condition.evaluate(fields, rows.outer, number_rows(counts)).fill_null(False)
    entries = group_elements(flat.filter(found), sum_by_row(found, counts))
    return _keep_where(maps.is_not_null(), entries.list.to_map())


def transform_values(rows: HigherOrderRows, function: CompiledLambda) -> pl.Series:
    """Return the maps of the function's values by the same keys."""
    return _transform_maps(rows, function, VALUE)


def transform_keys(rows: HigherOrderRows, function: CompiledLambda) -> pl.Series:
    """Return the maps by the function's values; NULL where one is NULL or occurs twice."""
    return _transform_maps(rows, function, KEY)


def _transform_maps(rows: HigherOrderRows, function: CompiledLambda, field: str) -> pl.Series:
    (maps,) = rows.values
    flat, counts = _flatten_maps(maps)
    fields = {name: flat.struct.field(name) for name in (KEY, VALUE)}
    values, valid = _evaluate(rows, function, [*fields.values()], counts)
    entries = _pack_entries(fields | {field: values}, counts)
    made = make_maps(entries) if field == KEY else entries.list.to_map()
    return _keep_where(maps.is_not_null() if valid is None else maps.is_not_null() & valid, made)


def zip_maps(rows: HigherOrderRows, function: CompiledLambda) -> pl.Series:
    """Return the maps of the function's values of each key of either map and its two values."""
    import polars as pl

    valid = rows.values[0].is_not_null() & rows.values[1].is_not_null()
    left, right = (
        _list_entries(_keep_where(valid, maps), at) for at, maps in enumerate(rows.values)
    )
    by = ["row", KEY]
    both = left.join(right, on=by, how="left", maintain_order="left")
    added = right.join(left, on=by, how="anti", maintain_order="left")
    every = pl.concat([both, added], how="diagonal").sort("row", maintain_order=True)
    lengths = pl.zeros(len(valid), dtype=pl.Int64, eager=True)
    found = every.group_by("row").len()
    counts = lengths.scatter(found["row"], found["len"])
    columns = [every[name] for name in (KEY, "value0", "value1")]
    values, within = _evaluate(rows, function, columns, counts)
    made = _pack_entries({KEY: every[KEY], VALUE: values}, counts).list.to_map()
    return _keep_where(valid if within is None else valid & within, made)


def _list_entries(maps: pl.Series, at: int) -> pl.DataFrame:
    """Return the row, the key and the value of each entry."""
    import polars as pl

    flat, counts = _flatten_maps(maps)
    columns = [flat.struct.field(KEY), flat.struct.field(VALUE).alias(f"value{at}")]
    return pl.DataFrame([number_rows(counts).alias("row"), *columns])


def _flatten_maps(maps: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return all entries, and the number of entries of each map."""
    entries = maps.map.entries()
    return flatten_arrays(entries), count_elements(entries)


def _pack_entries(fields: dict[str, pl.Series], counts: pl.Series) -> pl.Series:
    import polars as pl

    frame = pl.DataFrame([values.alias(name) for name, values in fields.items()])
    return group_elements(frame.to_struct(), counts)


def _evaluate(
    rows: HigherOrderRows, function: CompiledLambda, columns: list[pl.Series], counts: pl.Series
) -> tuple[pl.Series, pl.Series | None]:
    """Return the function's values, and the rows within the limit of a growing call."""
    numbers = number_rows(counts)
    if function.is_growing:
        return function.evaluate_bounded(columns, rows.outer, numbers)
    return function.evaluate(columns, rows.outer, numbers), None


def _keep_where(valid: pl.Series, values: pl.Series) -> pl.Series:
    import polars as pl

    return pl.select(pl.when(valid).then(values)).to_series()
