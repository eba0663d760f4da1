"""The distinct values of a group with their counts: the state of percentiles, modes, histograms.

It is a list of structs in ascending order of the values, so its size grows with the number of
different values and not with that of rows: 16 bytes a value for numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import Accumulator, AccumulatorInput, explode_group_lists
from headrace.core.aggregates.counting import normalize_zero
from headrace.core.types.data_types import BIGINT, Array, Field, Struct, Type, to_polars

if TYPE_CHECKING:
    import polars as pl


def build_value_counts(type: Type, finish: Callable[[pl.Expr], pl.Expr]) -> Accumulator:
    """Build the counts of values that are not NULL; `finish` gets the list."""
    item = _item_type(type)

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        runs = normalize_zero(rows.value, type).sort(nulls_last=True).rle()
        items = runs.struct.rename_fields(["count", "value"]).cast(to_polars(item))
        return (items.filter(runs.struct.field("value").is_not_null()).implode(),)

    return Accumulator(
        state=(("values", Array(item)),),
        partial=partial,
        merge=_merge_states,
        finish=finish,
        entries="distinct values",
    )


def build_weighted_counts(type: Type, finish: Callable[[pl.Expr], pl.Expr]) -> Accumulator:
    """Build the counts of values, of which the second argument says how often each counts.

    A negative one makes the result NULL: it is stored as a NULL value.
    """
    item = to_polars(_item_type(type))

    def partial(rows: AccumulatorInput) -> tuple[pl.Expr, ...]:
        import polars as pl

        value, count = rows.values
        counts = value.is_not_null() & (count != 0)
        named = normalize_zero(pl.when(count > 0).then(value), type).alias("value")
        items = pl.struct(count.alias("count"), named).cast(item)
        return (items.filter(counts).implode().list.eval(_sum_counts()),)

    def finish_valid(items: pl.Expr) -> pl.Expr:
        import polars as pl

        invalid = items.list.agg(pl.element().struct.field("value").is_null().any())
        return pl.when(invalid.not_()).then(finish(items))

    return Accumulator(
        state=(("values", Array(_item_type(type))),),
        partial=partial,
        merge=_merge_states,
        finish=finish_valid,
        entries="distinct values",
    )


def _item_type(type: Type) -> Struct:
    return Struct((Field("count", BIGINT), Field("value", type)))


def _merge_states(items: pl.Expr) -> tuple[pl.Expr, ...]:
    return (explode_group_lists(items).implode().list.eval(_sum_counts()),)


def _sum_counts() -> pl.Expr:
    """Return the elements of a list, in order, with the counts of equal values added up."""
    import polars as pl

    # Polars 2.1 reads beyond its memory where `agg` sorts what it has exploded: sort lists.
    items = pl.element().sort_by(pl.element().struct.field("value"), nulls_last=True)
    value, total = items.struct.field("value"), items.struct.field("count").cum_sum()
    position = pl.int_range(pl.len())
    is_last = value.ne_missing(value.shift(-1)) | (position == pl.len() - 1)
    ends = total.filter(is_last)
    counts = ends - ends.shift(1, fill_value=0)
    return pl.struct(counts.alias("count"), value.filter(is_last).alias("value"))
