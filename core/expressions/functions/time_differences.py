"""Differences between timestamps, and timestamps a number of units later, by the name of the unit.

`timestampdiff(MONTH, a, b)`: the parser passes the unit as a text. Only whole units count,
truncated towards zero; a month is complete at the same day and time of day of the next month.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import build_evaluating_once, fit_time_zone
from headrace.core.expressions.functions.time_units import MICROSECONDS, MONTHS
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM, ExpressionError, PolarsForm
from headrace.core.types import calendar
from headrace.core.types.data_types import DOUBLE

if TYPE_CHECKING:
    import polars as pl

FAMILY = "times"


def _check_unit(bound: BoundArguments, more: tuple[str, ...] = ()) -> None:
    unit = bound.constants[0]
    known = (*MICROSECONDS, *MONTHS, *more)
    if unit not in known:
        hint = f"the units are {', '.join(known)}, without quotes"
        raise ExpressionError(f"{unit!s} is not a unit here", bound.arguments[0].span, hint)


def _build_difference(bound: BoundArguments) -> PolarsForm:
    unit = str(bound.constants[0])

    def form(start: pl.Expr, end: pl.Expr) -> pl.Expr:
        if unit in MONTHS:
            return _count_months(start, end, MONTHS[unit])
        return _count_units(start, end, MICROSECONDS[unit])

    made = build_evaluating_once(form)(bound)
    return lambda _, start, end: made(start, end)


def _count_units(start: pl.Expr, end: pl.Expr, unit: int) -> pl.Expr:
    """Return the whole units between two times, null where there are too many for a bigint."""
    import polars as pl

    whole = calendar.to_int128(calendar.to_micros(end)) - calendar.to_int128(
        calendar.to_micros(start)
    )
    return whole.truncdiv(pl.lit(unit, dtype=pl.Int128)).cast(pl.Int64, strict=False)


def _count_months(start: pl.Expr, end: pl.Expr, count: int) -> pl.Expr:
    """Return the whole months between two times, as Java counts.

    The day of the end is moved back when its time of day is before that of the start, and then
    months of 32 days are compared, so that the day of the month only decides within a month.
    """
    import polars as pl

    first, last = calendar.truncate_to_day(start), calendar.truncate_to_day(end)
    early = (first < last) & (_extract_time_of_day(end) < _extract_time_of_day(start))
    late = (first > last) & (_extract_time_of_day(end) > _extract_time_of_day(start))
    reached = calendar.to_date(calendar.to_days(last) - early.cast(pl.Int32) + late.cast(pl.Int32))
    return (_pack_months(reached) - _pack_months(first)).truncdiv(32 * count)


def _pack_months(date: pl.Expr) -> pl.Expr:
    """Return months and days as one number, 32 days a month."""
    return calendar.count_months(date) * 32 + calendar.fold_date(date).dt.day()


def _extract_time_of_day(time: pl.Expr) -> pl.Expr:
    return calendar.to_micros(time) % calendar.DAY_US


def _build_timestampadd(bound: BoundArguments) -> PolarsForm:
    unit = {"DAYOFYEAR": "DAY"}.get(name := str(bound.constants[0]), name)

    def form(_: str, count: pl.Expr, time: pl.Expr) -> pl.Expr:
        import polars as pl

        if unit in MONTHS:
            months = calendar.to_int(count).cast(pl.Int64) * MONTHS[unit]
            return calendar.add_months_to_time(time, months)
        micros = (calendar.to_int128(count) * MICROSECONDS[unit]).cast(pl.Int64, strict=False)
        return calendar.to_timestamp(calendar.to_int128(micros) + calendar.to_micros(time))

    return fit_time_zone(form, bound.result)


def _build_months_between(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_frame

    rounded = bool(bound.constants.get(2, True))
    form = compute_on_frame(lambda frame: _compute_months(frame, rounded), DOUBLE)
    return lambda end, start, _=None: form(end, start)


def _compute_months(frame: pl.DataFrame, rounded: bool) -> pl.Series:
    """Return whole months between equal days or last days, otherwise with a fraction of 31 days, by
    the second."""
    import polars as pl

    from headrace.core.expressions.arithmetic.doubles import divide_by

    end, start = pl.col("a0"), pl.col("a1")
    a, b = calendar.truncate_to_day(end), calendar.truncate_to_day(start)
    day_a, day_b = calendar.fold_date(a).dt.day(), calendar.fold_date(b).dt.day()
    last_a, last_b = (calendar.fold_date(date).dt.days_in_month() for date in (a, b))
    parts = frame.select(
        months=(calendar.count_months(a) - calendar.count_months(b)).cast(pl.Float64),
        seconds=(_extract_second_of_month(end) - _extract_second_of_month(start)).cast(pl.Float64),
        whole=(day_a == day_b) | ((day_a == last_a) & (day_b == last_b)),
    )
    exact = parts["months"] + divide_by(parts["seconds"], 2_678_400.0)
    months = parts["months"].zip_with(parts["whole"], exact)
    # Java rounds half up: in this range the sum is exact, and so is its floor.
    return divide_by((months * 1e8 + 0.5).floor(), 1e8) if rounded else months


def _extract_second_of_month(time: pl.Expr) -> pl.Expr:
    """Return the second in the month, null on the first day of all, which has no midnight: Spark
    fails there."""
    import polars as pl

    day = calendar.fold_time(time).dt.day().cast(pl.Int64)
    since = calendar.to_micros(time) - calendar.to_micros(
        calendar.to_midnight(calendar.truncate_to_day(time))
    )
    return day * 86_400 + since // calendar.SECOND_US


TIME_DIFFERENCES: tuple[SqlFunction, ...] = (
    function(
        "timestampdiff",
        FAMILY,
        "The whole units from the first time to the second, truncated towards zero; the unit comes"
        " first and without quotes, from MICROSECOND to YEAR. datediff(MONTH, ...) is the same.",
        overload(
            "timestampdiff(unit: constant string, start: timestamp, end: timestamp) -> bigint",
            build=_build_difference,
            check=_check_unit,
            spark=lambda bound: (
                NO_SPARK_FORM if bound.constants[0] == "MICROSECOND" else AS_WRITTEN
            ),
        ),
        example=(
            "timestampdiff(MINUTE, timestamp '2024-05-06 07:00:00', '2024-05-06 08:30:59')",
            "90",
        ),
        more=(("timestampdiff(MONTH, date '2024-01-31', date '2024-02-29')", "0"),),
    ),
    function(
        "timestampadd",
        FAMILY,
        "The time `count` units later, at the end of the month if it has no such day; the unit"
        " comes first and without quotes, from MICROSECOND to YEAR. dateadd(MONTH, ...) is the"
        " same.",
        *(
            overload(
                f"timestampadd(unit: constant string, count: bigint, time: {time}) -> {result}",
                build=_build_timestampadd,
                check=lambda bound: _check_unit(bound, ("DAYOFYEAR",)),
                spark=NO_SPARK_FORM,
            )
            for time, result in (
                ("exact timestamp", "timestamp"),
                ("exact timestamp_ntz", "timestamp_ntz"),
                ("timestamp", "timestamp"),
            )
        ),
        example=("timestampadd(HOUR, 2, timestamp '2024-05-06 07:08:09')", "2024-05-06 09:08:09"),
        more=(("timestampadd(MONTH, 1, timestamp '2024-01-31 00:00:00')", "2024-02-29 00:00:00"),),
    ),
    function(
        "months_between",
        FAMILY,
        "The months from the second time to the first, as Hive counts them: 31 days are a month,"
        " and equal days or last days of months are whole months apart; rounded to 8 decimals"
        " unless the third argument is false.",
        overload(
            "months_between(end: timestamp, start: timestamp, [round: constant boolean]) -> double",
            build=_build_months_between,
            spark=NO_SPARK_FORM,
        ),
        example=("months_between(date '2024-03-15', date '2024-02-29')", "0.5483871"),
    ),
)
"""The functions of the time between timestamps."""
