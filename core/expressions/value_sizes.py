"""The sizes in bytes of values that exist, as limits of values count them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.expressions.flat_arrays import count_elements, flatten_arrays, sum_by_row
from headrace.core.types.data_types import BINARY, STRING, Atom, Decimal, Struct, Type

if TYPE_CHECKING:
    import polars as pl

WIDEST_BYTES = 16
"""The bytes of a value in an array besides its text: a decimal has most."""


def has_variable_size(type: Type) -> bool:
    """Whether values of the type may be of any size.

    >>> has_variable_size(Struct(())), has_variable_size(STRING)
    (False, True)
    """
    if isinstance(type, Struct):
        return any(has_variable_size(field.type) for field in type.fields)
    return type in (STRING, BINARY) or not isinstance(type, Atom | Decimal)


def cut_pieces(sizes: pl.Series, limit: int) -> Iterator[tuple[int, int]]:
    """Yield runs of values, as (first, count), whose sizes together are within the limit.

    A run of one value may be larger.
    """
    ends = sizes.cum_sum()
    start, done = 0, 0
    while start < len(ends):
        stop = max(int(ends.search_sorted(done + limit, side="right")), start + 1)
        yield start, stop - start
        start, done = stop, int(ends[stop - 1])


def measure_values(values: pl.Series) -> pl.Series:
    """Return the size of each value; 0 for NULL."""
    import polars as pl

    match values.dtype:
        case pl.String():
            return values.str.len_bytes().fill_null(0).cast(pl.Int64)
        case pl.Binary():
            return values.bin.size().fill_null(0).cast(pl.Int64)
        case pl.List():
            counts = count_elements(values)
            inside = measure_values(flatten_arrays(values))
            return sum_by_row(inside, counts) + counts * WIDEST_BYTES
        case pl.Map():
            return measure_values(values.map.entries())
        case pl.Struct():
            sizes = [measure_values(field) for field in values.struct.unnest()]
            return sum(sizes[1:], start=sizes[0])
    return pl.zeros(len(values), dtype=pl.Int64, eager=True)
