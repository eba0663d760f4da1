"""Functions that make timestamps of their parts: `make_timestamp` and its variants.

No such time is NULL, so the variants with `try_` are the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.expressions.function import Overload, SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import fit_time_zone
from headrace.core.expressions.functions.time_zones import check_zone, shift_times
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import NO_SPARK_FORM, PolarsForm
from headrace.core.types import calendar, time_zones
from headrace.core.types.data_types import TIMESTAMP, Decimal, to_polars

if TYPE_CHECKING:
    import polars as pl

FAMILY = "times"
SECONDS_TYPE = Decimal(16, 6)
"""The type to which the seconds are cast."""
_ZONE_AT = 6


def _build_from_fields(bound: BoundArguments) -> PolarsForm:
    """Return the form: seconds are cast to decimal(16,6), as Spark casts any number here."""
    from headrace.core.expressions.batch_forms import compute_on_frame
    from headrace.core.expressions.casts import build_cast_form

    decimal = build_cast_form(bound.types[5], SECONDS_TYPE)
    form = compute_on_frame(_compute_timestamps, TIMESTAMP)
    return lambda *parts: form(*parts[:5], decimal(parts[5]), *parts[_ZONE_AT:])


def _compute_timestamps(frame: pl.DataFrame) -> pl.Series:
    """Compute timestamps: Java keeps 32 bits of the seconds' microseconds; exactly 60 seconds are
    the next minute."""
    import polars as pl

    year, month, day, hour, minute = (c.cast(pl.Int64) for c in frame.get_columns()[:5])
    second = frame.get_columns()[5].reinterpret(dtype=pl.Int128).cast(pl.Int64)
    second = (second + (1 << 31)) % (1 << 32) - (1 << 31)
    days = calendar.civil_date_to_days(year, month.set((month < 1) | (month > 12), None), day)
    minutes = days * 1440 + hour * 60 + minute
    real = [(hour >= 0) & (hour < 24), (minute >= 0) & (minute < 60)]
    real.append((second >= 0) & (second <= 60 * calendar.SECOND_US))
    whole = calendar.null_unless(minutes, *real)
    assert isinstance(whole, pl.Series)
    micros = whole.cast(pl.Int128) * pl.Series([60 * calendar.SECOND_US], dtype=pl.Int128) + second
    local = micros.cast(pl.Int64, strict=False)
    if frame.width > _ZONE_AT:
        local = shift_times(local, frame.get_columns()[_ZONE_AT], time_zones.convert_to_utc)
    return local.cast(pl.Datetime("us", "UTC"))


_FIELDS = "year: int, month: int, day: int, hour: int, minute: int, second: N"


def _define_field_overload(name: str) -> Overload:
    return overload(
        f"{name}({_FIELDS}, [zone: string]) -> timestamp",
        build=_build_from_fields,
        check=partial(check_zone, at=_ZONE_AT),
        spark=NO_SPARK_FORM,
    )


def _define_date_overload(name: str) -> Overload:
    form: Callable[[pl.Expr], pl.Expr] = calendar.to_midnight
    return overload(f"{name}(date: exact date) -> timestamp", form, spark=NO_SPARK_FORM)


def _build_ntz_from_fields(bound: BoundArguments) -> PolarsForm:
    return fit_time_zone(_build_from_fields(bound), bound.result)


def _build_from_date(bound: BoundArguments) -> PolarsForm:
    """Return the form of a date and a time of day, in UTC or in a zone."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        days, nanos = (column.to_physical().cast(pl.Int128) for column in frame.get_columns()[:2])
        day = pl.Series([calendar.DAY_US], dtype=pl.Int128)
        local = (days * day + nanos // 1000).cast(pl.Int64, strict=False)
        for zone in frame.get_columns()[2:]:
            local = shift_times(local, zone, time_zones.convert_to_utc)
        return local.cast(to_polars(bound.result))

    return compute_on_frame(compute, bound.result)


def _define_day_overload(name: str, zone: str = ", [zone: string]") -> Overload:
    return overload(
        f"{name}(date: exact date, time: P{zone}) -> {'timestamp' if zone else 'timestamp_ntz'}",
        build=_build_from_date,
        check=partial(check_zone, at=2),
        spark=NO_SPARK_FORM,
    )


_DOC = (
    "The timestamp of a year, month, day, hour, minute and seconds with a fraction, in UTC or in a"
    " time zone, or of a date and a time of day; 60 seconds are the next minute; NULL if there is"
    " no such time."
)


def _define_constructor(name: str, *more: Overload) -> SqlFunction:
    return function(
        name,
        FAMILY,
        _DOC + (" Of a date, its midnight." if more else ""),
        _define_field_overload(name),
        _define_day_overload(name),
        *more,
        example=(f"{name}(2024, 5, 6, 7, 8, 9.5)", "2024-05-06 07:08:09.5"),
        more=((f"{name}(2024, 5, 6, 7, 8, 9, 'Asia/Tokyo')", "2024-05-05 22:08:09"),),
    )


def _define_ntz_constructor(name: str) -> SqlFunction:
    return function(
        name,
        FAMILY,
        "The timestamp without a time zone of a year, month, day, hour, minute and seconds with a"
        " fraction; 60 seconds are the next minute; NULL if there is no such time.",
        overload(
            f"{name}({_FIELDS}) -> timestamp_ntz",
            build=_build_ntz_from_fields,
            spark=NO_SPARK_FORM,
        ),
        _define_day_overload(name, zone=""),
        example=(f"{name}(2024, 5, 6, 7, 8, 9.5)", "2024-05-06 07:08:09.5"),
    )


TIMESTAMP_CONSTRUCTORS: tuple[SqlFunction, ...] = (
    *(
        _define_constructor(name, _define_date_overload(name))
        for name in ("make_timestamp", "try_make_timestamp")
    ),
    *map(_define_constructor, ("make_timestamp_ltz", "try_make_timestamp_ltz")),
    *map(_define_ntz_constructor, ("make_timestamp_ntz", "try_make_timestamp_ntz")),
)
"""The functions that make timestamps of their parts."""
