"""Functions of intervals: making them, their sign, size and fields, and whole quotients.

Where Spark fails because a result is out of range, it is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.casts.interval_units import UNITS
from headrace.core.expressions.function import Overload, SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import build_evaluating_once
from headrace.core.expressions.signature import BoundArguments, parse_signature
from headrace.core.expressions.typed import NO_SPARK_FORM, PolarsForm
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    INT,
    TINYINT,
    Decimal,
    Interval,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

FAMILY = "times"

ABSOLUTE_OVERLOADS: tuple[Overload, ...] = (
    overload(
        "abs(value: Q) -> Q",
        lambda value: calendar.to_interval(calendar.to_int128(calendar.to_micros(value)).abs()),
        spark=NO_SPARK_FORM,
    ),
    overload(
        "abs(value: Y) -> Y",
        lambda value: calendar.to_int(calendar.to_bigint(value).abs()),
        spark=NO_SPARK_FORM,
    ),
)


def _find_sign(value: pl.Expr) -> pl.Expr:
    import polars as pl

    return calendar.to_bigint(value).sign().cast(pl.Float64)


SIGN_OVERLOADS: tuple[Overload, ...] = tuple(
    overload(f"sign(value: {letter}) -> double", _find_sign, nulls="strict") for letter in "QY"
)


def _divide_whole(dividend: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    import polars as pl

    wide = calendar.to_int128(calendar.to_bigint(dividend))
    return wide.truncdiv(calendar.to_int128(calendar.to_bigint(divisor))).cast(
        pl.Int64, strict=False
    )


DIV_OVERLOADS: tuple[Overload, ...] = tuple(
    overload(f"div(left: {letter}, right: {letter}) -> bigint", _divide_whole, spark=NO_SPARK_FORM)
    for letter in "QY"
)


def name_overloads(overloads: Iterable[Overload], name: str) -> tuple[Overload, ...]:
    """Return the overloads of an operator for a function that does the same: a result out of range
    is NULL in both."""
    return tuple(
        replace(
            each,
            signature=parse_signature(name + each.signature.text[len(each.signature.name) :]),
            spark=NO_SPARK_FORM,
        )
        for each in overloads
    )


_FIELD_TYPES: dict[str, Type] = {
    **{"year": INT, "month": TINYINT, "day": INT, "hour": TINYINT, "minute": TINYINT},
    "second": Decimal(8, 6),
}


def build_field(type: Interval, field: str) -> tuple[Type, PolarsForm] | None:
    """Return the type and the form of a field, None if the interval does not have it."""
    if field not in type.fields:
        return None
    result, unit = _FIELD_TYPES[field], UNITS[field]

    def extract(value: pl.Expr) -> pl.Expr:
        if field == "second":
            rest = _remain(calendar.to_bigint(value), 60 * unit)
            return calendar.to_int128(rest).reinterpret(dtype=to_polars(result))
        count = calendar.to_bigint(value).truncdiv(unit)
        below = {"month": 12, "hour": 24, "minute": 60}.get(field)
        return (_remain(count, below) if below else count).cast(to_polars(result))

    return result, extract


def _remain(number: pl.Expr, whole: int) -> pl.Expr:
    """Return the remainder, with the sign of the number."""
    return number - number.truncdiv(whole) * whole


def _build_day_time(bound: BoundArguments) -> PolarsForm:
    """Return the form: seconds are cast to decimal(18,6), as Spark casts any number here."""
    from headrace.core.expressions.casts import build_cast_form

    units = [UNITS[field] for field in ("day", "hour", "minute")]

    def form(*parts: pl.Expr) -> pl.Expr:
        import polars as pl

        total = pl.lit(0, dtype=pl.Int128)
        for part, unit in zip(parts, units, strict=False):
            total = total + calendar.to_int128(part) * unit
        if len(parts) > len(units):
            decimal = build_cast_form(bound.types[3], Decimal(18, 6))
            total = total + decimal(parts[3]).reinterpret(dtype=pl.Int128)
        return calendar.to_interval(total)

    return build_evaluating_once(form)(bound) if bound.arguments else form


def _add_years_and_months(years: pl.Expr | None = None, months: pl.Expr | None = None) -> pl.Expr:
    import polars as pl

    total = pl.lit(0, dtype=pl.Int64)
    for part, unit in ((years, 12), (months, 1)):
        if part is not None:
            total = total + calendar.to_bigint(part) * unit
    return calendar.to_int(total)


INTERVAL_FIELDS: tuple[SqlFunction, ...] = (
    function(
        "make_dt_interval",
        FAMILY,
        "The interval of days, hours, minutes and seconds with a fraction.",
        overload(
            "make_dt_interval([days: int], [hours: int], [minutes: int], [seconds: N])"
            " -> interval day to second",
            build=_build_day_time,
            spark=NO_SPARK_FORM,
        ),
        example=("make_dt_interval(1, 12, 30, 1.5)", "INTERVAL '1 12:30:01.5' DAY TO SECOND"),
    ),
    function(
        "make_ym_interval",
        FAMILY,
        "The interval of years and months.",
        overload(
            "make_ym_interval([years: int], [months: int]) -> interval year to month",
            _add_years_and_months,
            spark=NO_SPARK_FORM,
        ),
        example=("make_ym_interval(1, 2)", "INTERVAL '1-2' YEAR TO MONTH"),
    ),
)
"""The functions that make intervals."""
