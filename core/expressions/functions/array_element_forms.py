"""The Polars forms of `array_elements`, over the flat elements of all arrays of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.flat_arrays import (
    count_elements,
    flatten_arrays,
    group_elements,
    number_elements,
    number_rows,
    sum_by_row,
)
from headrace.core.expressions.typed import PolarsForm
from headrace.core.expressions.value_sizes import WIDEST_BYTES
from headrace.core.types.data_types import BIGINT, Type

if TYPE_CHECKING:
    import polars as pl


def build_position() -> PolarsForm:
    """Return the form of the position of a value in an array."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        arrays, values = frame["a0"], frame["a1"]
        counts = count_elements(arrays)
        found = _match_elements(arrays, values, counts)
        hits = pl.DataFrame([found.alias("found"), (number_elements(counts) + 1).alias("at")])
        positions = hits.select(pl.when("found").then("at")).to_series()
        first = group_elements(positions, counts).list.min().fill_null(0).cast(pl.Int64)
        return _null_where(first, arrays, values)

    return compute_on_frame(compute, BIGINT)


def build_removal(type: Type) -> PolarsForm:
    """Return the form of an array without a value."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        arrays, values = frame["a0"], frame["a1"]
        counts = count_elements(arrays)
        stays = ~_match_elements(arrays, values, counts)
        rest = group_elements(flatten_arrays(arrays).filter(stays), sum_by_row(stays, counts))
        return _null_where(rest, arrays, values)

    return compute_on_frame(compute, type)


def _match_elements(arrays: pl.Series, values: pl.Series, counts: pl.Series) -> pl.Series:
    """Return for each element whether it has the value of its row; false for NULLs."""
    import polars as pl

    pairs = pl.DataFrame(
        [flatten_arrays(arrays).alias("element"), values.gather(number_rows(counts)).alias("value")]
    )
    element, value = pl.col("element"), pl.col("value")
    same = element.is_not_null() & value.is_not_null() & element.eq_missing(value)
    return pairs.select(same).to_series()


def _null_where(result: pl.Series, *arguments: pl.Series) -> pl.Series:
    """Return the result, NULL where an argument is."""
    import polars as pl

    if not any(argument.null_count() for argument in arguments):
        return result
    given = pl.all_horizontal(argument.is_not_null() for argument in arguments)
    return pl.select(pl.when(given).then(result)).to_series()


def explain_zero_index(array: pl.Expr, position: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Return the reason where a position is 0."""
    import polars as pl

    reason = pl.lit("the position is 0, but the first element is at 1")
    return pl.when(array.is_not_null() & (position == 0)).then(reason)


def measure_insertion(array: pl.Expr, position: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Return the size of the array up to a position, by which alone it may grow."""
    import polars as pl

    return position.cast(pl.Int64).abs() * WIDEST_BYTES


def build_insertion(type: Type) -> PolarsForm:
    """Return the form of an array with another element."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        arrays, positions, values = frame["a0"], frame["a1"], frame["a2"]
        rows = pl.DataFrame(
            {"size": count_elements(arrays), "position": positions.fill_null(1).cast(pl.Int64)}
        )
        rows = rows.select(
            pl.col("size"),
            (pl.col("size").cum_sum() - pl.col("size")).alias("start"),
            *_locate_insertion(pl.col("size"), pl.col("position")),
        )
        lengths = rows["length"]
        row, index = number_rows(lengths), number_elements(lengths).cast(pl.Int64)
        each = rows[row].with_columns(index.alias("index"), row.alias("row"))
        flat = pl.concat([flatten_arrays(arrays), values])
        taken = each.select(_pick_source(int(rows["size"].sum()))).to_series()
        return _null_where(group_elements(flat.gather(taken), lengths), arrays, positions)

    return compute_on_frame(compute, type)


def _locate_insertion(size: pl.Expr, position: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the index of the new element, from 0, and the length of the new array."""
    import polars as pl

    from_end = size + 1 + position
    index = pl.when(position > 0).then(position - 1).otherwise(pl.max_horizontal(from_end, 0))
    added = pl.when(position > 0).then(position - 1 - size).otherwise(-from_end)
    return index.alias("at"), (size + 1 + pl.max_horizontal(added, 0)).alias("length")


def _pick_source(elements: int) -> pl.Expr:
    """Return the flat index of what comes to an index: an element, the new one, or NULL."""
    import polars as pl

    index, at, size = pl.col("index"), pl.col("at"), pl.col("size")
    behind = index - (pl.col("length") - size)
    source = pl.when(index < at).then(index).otherwise(behind)
    element = pl.when(source.is_between(0, size - 1)).then(pl.col("start") + source)
    return pl.when(index == at).then(pl.col("row") + elements).otherwise(element)


def build_zip(names: Sequence[str], type: Type) -> PolarsForm:
    """Return the form of the array of structs of these fields, of as many arrays."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        return zip_arrays([frame[f"a{at}"] for at in range(len(names))], names)

    def form(*arrays: pl.Expr) -> pl.Expr:
        import polars as pl

        from headrace.core.types.data_types import to_polars

        if not arrays:
            return pl.lit([], dtype=to_polars(type))
        return compute_on_frame(compute, type)(*arrays)

    return form


def zip_arrays(arrays: Sequence[pl.Series], names: Sequence[str]) -> pl.Series:
    """Return arrays of structs of the elements at the same position, as long as the longest array;
    NULL where one of the arrays is."""
    import polars as pl

    sizes = [count_elements(array) for array in arrays]
    given = pl.select(pl.all_horizontal(array.is_not_null() for array in arrays)).to_series()
    longest = pl.select(pl.max_horizontal(*sizes) * given.cast(pl.Int64)).to_series()
    row, index = number_rows(longest), number_elements(longest)
    fields = []
    for array, size, name in zip(arrays, sizes, names, strict=True):
        start = (size.cum_sum() - size).gather(row)
        inside = pl.select(pl.when(index < size.gather(row)).then(start + index)).to_series()
        fields.append(flatten_arrays(array).gather(inside).alias(name))
    zipped = group_elements(pl.DataFrame(fields).to_struct(), longest)
    return _null_where(zipped, *arrays)
