"""Percentiles, medians and modes, exact, from the counts of the values.

`percentile` and `percentile_cont` interpolate between two values by Spark's formula, so that they
have its digits. `percentile_disc` and `percentile_approx` are one of the values: the first at or
below which are that share of all. Spark's `percentile_approx` may be off by a share of 1/accuracy;
docs/decisions/0030 tells why this one is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from headrace.core.aggregates.accumulator import Accumulator, BuildAccumulator
from headrace.core.aggregates.interval_sums import to_interval, widen_interval
from headrace.core.aggregates.value_counts import build_value_counts, build_weighted_counts
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM, ExpressionError
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    BIGINT,
    DOUBLE,
    FLOAT_TYPES,
    Array,
    Interval,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl


def check_percentage(index: int) -> Callable[[BoundArguments], None]:
    """Return the check of the argument that is a percentage, or an array of them."""

    def check(bound: BoundArguments) -> None:
        values = _read_percentages(bound, index)
        for value in values:
            if value is None or not 0 <= value <= 1:
                actual = "NULL" if value is None else str(value)
                message = f"wanted a share from 0 to 1, got {actual}"
                raise ExpressionError(message, bound.arguments[index].span)

    return check


def check_approximation(bound: BoundArguments) -> None:
    """Check the percentages and the accuracy of percentile_approx."""
    check_percentage(1)(bound)
    accuracy = bound.constants.get(2, 1)
    if not isinstance(accuracy, int) or not 0 < accuracy < 1 << 31:
        actual = "NULL" if accuracy is None else str(accuracy)
        message = f"wanted an accuracy from 1 to 2147483647, got {actual}"
        raise ExpressionError(message, bound.arguments[2].span)


def _read_percentages(bound: BoundArguments, index: int) -> list[float | None]:
    """Return the percentages of an argument, one or an array."""
    constant = cast(object, bound.constants[index])
    if constant is None or isinstance(constant, float):
        return [constant]
    assert isinstance(constant, Iterable)
    return list(constant)


def build_percentile(index: int = 1) -> BuildAccumulator:
    """Return the builder of an interpolated percentile; `index` is that of the percentage."""

    def build(bound: BoundArguments) -> Accumulator:
        type = bound.column_arguments[0].type
        finish = _finish_each(bound, index, lambda items, p: _interpolate(items, p, type, bound))
        if len(bound.column_arguments) > 1:
            return build_weighted_counts(type, finish)
        return _build_counts_by_share(bound, _read_percentages(bound, index), finish)

    return build


def build_median(bound: BoundArguments) -> Accumulator:
    """Build median(x)."""
    type = bound.types[0]
    return _build_counts_by_share(bound, [0.5], lambda items: _interpolate(items, 0.5, type, bound))


def build_discrete(index: int, *, is_double: bool = False) -> BuildAccumulator:
    """Return the builder of a percentile that is one of the values, or that as a double."""

    def build(bound: BoundArguments) -> Accumulator:
        type = bound.column_arguments[0].type

        def pick(items: pl.Expr, share: float) -> pl.Expr:
            found = items.list.agg(_select_by_share(share, bound))
            return _from_double(_to_double(found, type), type) if is_double else found

        finish = _finish_each(bound, index, pick)
        return _build_counts_by_share(bound, _read_percentages(bound, index), finish)

    return build


def _build_counts_by_share(
    bound: BoundArguments,
    shares: Sequence[float | None],
    finish: Callable[[pl.Expr], pl.Expr],
) -> Accumulator:
    """Build the counts of values, for a result that is computed from the values at some shares."""
    is_descending = bool(bound.directions and bound.directions[0].is_descending)
    known = (share for share in shares if share is not None)
    ascending = tuple(1.0 - share if is_descending else share for share in known)
    return replace(build_value_counts(bound.column_arguments[0].type, finish), shares=ascending)


def build_mode(bound: BoundArguments) -> Accumulator:
    """Build mode(x): of several most frequent values the least, or the first in the order."""
    import polars as pl

    value, count = _get_fields(bound)
    found = value.get(count.arg_max(), null_on_oob=True)
    return build_value_counts(
        bound.types[0], lambda items: pl.when(items.list.len() > 0).then(items.list.agg(found))
    )


def check_deterministic(bound: BoundArguments) -> None:
    """Check that the flag of mode is true or false; the result is the same."""
    if 1 in bound.constants and bound.constants[1] is None:
        raise ExpressionError("wanted true or false, got NULL", bound.arguments[1].span)


def spark_form_of_ordered_mode(bound: BoundArguments) -> str:
    """Return the Spark form of `mode() within group`, in which both zeros are one value."""
    return NO_SPARK_FORM if bound.types[0] in FLOAT_TYPES else AS_WRITTEN


def spark_form_of_percentile(bound: BoundArguments) -> str:
    """Return the Spark form of `percentile`: a negative frequency fails a Spark job."""
    if len(bound.column_arguments) < 2:
        return AS_WRITTEN
    return (
        "case when count_if(({2}) < 0 and ({0}) is not null){filter} = 0"
        " then percentile({0}, {1}, if(({2}) < 0, 0, {2})){filter} end"
    )


def spark_form_of_mode(bound: BoundArguments) -> str:
    """Return the Spark form of `mode(x)`, which may be any of the most frequent values in Spark."""
    if bound.types[0] in FLOAT_TYPES:
        return f"mode({{0}} + cast(0 as {bound.types[0]}), true){{filter}}"
    return "mode({0}, true){filter}"


def spark_form_of_approximation(bound: BoundArguments) -> str:
    """Return the Spark form of `percentile_approx`, exact."""
    values = "array_sort(collect_list({distinct}{0}){filter})"
    count = "count({distinct}{0}){filter}"
    found = [
        f"get({values}, cast(greatest(ceil({share!r}D * {count}), 1) as int) - 1)"
        for share in _read_percentages(bound, 1)
    ]
    if not isinstance(bound.types[1], Array):
        return found[0]
    if not found:
        return NO_SPARK_FORM
    return f"case when {count} > 0 then array({', '.join(found)}) end"


def _finish_each(
    bound: BoundArguments, index: int, finish: Callable[[pl.Expr, float], pl.Expr]
) -> Callable[[pl.Expr], pl.Expr]:
    """Return the finish of one percentage, or of an array of them: NULL if there are no values."""
    shares = [share for share in _read_percentages(bound, index) if share is not None]
    if not isinstance(bound.types[index], Array):
        return lambda items: finish(items, shares[0])

    def finish_all(items: pl.Expr) -> pl.Expr:
        import polars as pl

        if not shares:
            return pl.lit(None)
        found = pl.concat_list(*(finish(items, share) for share in shares))
        return pl.when(items.list.len() > 0).then(found)

    return finish_all


def _get_fields(bound: BoundArguments) -> tuple[pl.Expr, pl.Expr]:
    """Return values and counts of the elements, in the order that the call names."""
    import polars as pl

    fields = pl.element().struct
    value, count = fields.field("value"), fields.field("count")
    is_descending = bool(bound.directions and bound.directions[0].is_descending)
    return (value.reverse(), count.reverse()) if is_descending else (value, count)


def _select_by_share(share: float, bound: BoundArguments) -> pl.Expr:
    import polars as pl

    value, count = _get_fields(bound)
    rank = (count.sum().cast(pl.Float64) * share).ceil().clip(lower_bound=1.0)
    return value.filter(count.cum_sum() >= rank).first()


def _interpolate(items: pl.Expr, share: float, type: Type, bound: BoundArguments) -> pl.Expr:
    """Return a percentile between the two values that are next to its position."""
    import polars as pl

    from headrace.core.expressions.batch_forms import evaluate_once

    value, count = _get_fields(bound)
    until, total = count.cum_sum(), count.sum()
    # No struct of these: Polars 2.1 fails where `list.agg` makes structs and a list is empty.
    low, high = (
        items.list.agg(value.filter(until > place((total - 1).cast(pl.Float64) * share)).first())
        for place in (pl.Expr.floor, pl.Expr.ceil)
    )

    def interpolate(low: pl.Expr, high: pl.Expr, total: pl.Expr) -> pl.Expr:
        position = (total - 1).cast(pl.Float64) * share
        below, above = (_to_double(each, type) for each in (low, high))
        between = below + (above - below) * (position - position.floor())
        return _from_double(pl.when(low == high).then(below).otherwise(between), type)

    result = widen_interval(type) if _is_interval(type) else DOUBLE
    return evaluate_once(interpolate, result)(low, high, items.list.agg(total))


def _to_double(value: pl.Expr, type: Type) -> pl.Expr:
    """Return a number, or the months or microseconds of an interval, as a double."""
    from headrace.core.expressions.casts.forms import build_form

    source, number = (BIGINT, calendar.to_bigint(value)) if _is_interval(type) else (type, value)
    return build_form(source, DOUBLE, try_=False)(number).cast(to_polars(DOUBLE))


def _from_double(value: pl.Expr, type: Type) -> pl.Expr:
    """Return a percentile as its type: a double, or an interval without a fraction of its unit."""
    from headrace.core.expressions.casts.forms import build_form

    if not _is_interval(type):
        return value
    result = widen_interval(type)
    units = build_form(DOUBLE, BIGINT, try_=False)(value)
    return to_interval(units, result)


def _is_interval(type: Type) -> bool:
    return isinstance(type, Interval)
