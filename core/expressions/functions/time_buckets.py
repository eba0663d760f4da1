"""`time_bucket`: the start of the bucket of a fixed size in which a time lies."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import build_evaluating_once, fit_time_zone
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import NO_SPARK_FORM, ConstantValue, ExpressionError
from headrace.core.types import calendar
from headrace.core.types.data_types import TIMESTAMP_TYPES, YEAR_MONTH

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.expressions.typed import PolarsForm

FAMILY = "times"
_EPOCH = datetime(1970, 1, 1)


def _check_size(bound: BoundArguments) -> None:
    size = bound.constants[0]
    if size is not None and _to_count(size) <= 0:
        message = "the size of a bucket must be longer than 0"
        raise ExpressionError(message, bound.arguments[0].span, "as in interval 15 minutes")


def _to_count(value: ConstantValue | timedelta) -> int:
    """Return the microseconds or months of a constant."""
    match value:
        case timedelta():
            return value // timedelta(microseconds=1)
        case datetime():
            return (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
    assert isinstance(value, int), value
    return value


def _build_bucket(bound: BoundArguments) -> PolarsForm:
    size, origin = _to_count(bound.constants[0]), _to_count(bound.constants.get(2, 0))

    def find_start(time: pl.Expr) -> pl.Expr:
        if bound.types[0] == YEAR_MONTH:
            return _find_start_by_months(time, size, origin)
        past = calendar.to_int128(calendar.to_micros(time)) - origin
        return calendar.to_timestamp(past - past % size + origin)

    form = build_evaluating_once(fit_time_zone(find_start, bound.result))(bound)
    return lambda size, time, origin=None: form(time)


def _find_start_by_months(time: pl.Expr, size: int, origin: int) -> pl.Expr:
    """Return the start: every start is whole months after the origin, or at the end of a month."""
    import polars as pl

    first = pl.lit(origin, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    months = calendar.count_months(calendar.truncate_to_day(time)) - calendar.count_months(
        calendar.truncate_to_day(first)
    )
    number = months // size
    starts = (calendar.add_months_to_time(first, (number - earlier) * size) for earlier in (0, 1))
    start, before = starts
    late = calendar.to_micros(start) > calendar.to_micros(time)
    return pl.when(late).then(before).otherwise(start)


TIME_BUCKETS: tuple[SqlFunction, ...] = (
    function(
        "time_bucket",
        FAMILY,
        "The start of the bucket that contains the time; buckets of the size follow each other,"
        " and one begins at the origin, which is 1970 unless it is given.",
        *(
            overload(
                f"time_bucket(size: constant {size}, time: exact {time},"
                f" [origin: constant exact {time}]) -> {time}",
                build=_build_bucket,
                check=_check_size,
                spark=NO_SPARK_FORM,
            )
            for time in TIMESTAMP_TYPES
            for size in ("interval day to second", "interval year to month")
        ),
        example=(
            "time_bucket(interval 15 minutes, timestamp '2024-05-06 07:08:09')",
            "2024-05-06 07:00:00",
        ),
        more=(
            (
                "time_bucket(interval 1 month, timestamp '2024-05-06 07:08:09',"
                " timestamp '2024-01-15 00:00:00')",
                "2024-04-15 00:00:00",
            ),
        ),
    ),
)
"""The function of buckets of time."""
