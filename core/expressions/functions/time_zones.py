"""Functions of time zones: the clock of a zone at an instant, and the reverse.

A zone has a name of Java's: `Europe/Berlin`, `+02:00`, `GMT+1`, `PST`. A literal without meaning is
refused; in a column, where Spark fails, it makes the result NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import literal_text
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types import time_zones
from headrace.core.types.data_types import STRING

if TYPE_CHECKING:
    import polars as pl

FAMILY = "times"
Shift: TypeAlias = "Callable[[pl.Series, time_zones.TimeZone], pl.Series]"


def check_zone(bound: BoundArguments, at: int = 1) -> None:
    """Refuse a literal that names no time zone."""
    if at >= len(bound.arguments):
        return
    name = literal_text(bound.arguments[at])
    if name is None or time_zones.find_time_zone(name):
        return
    span, message = bound.arguments[at].span, f"'{name}' is not a time zone"
    capitals = "/".join("_".join(map(str.capitalize, part.split("_"))) for part in name.split("/"))
    known = next((n for n in (name.upper(), capitals) if time_zones.find_time_zone(n)), None)
    hint = f"write '{known}'" if known else suggest_name(name, _COMMON_ZONES)
    raise ExpressionError(message, span, hint or "a zone is written 'Europe/Berlin' or '+02:00'")


_COMMON_ZONES = tuple(
    """
    Africa/Cairo Africa/Johannesburg Africa/Lagos America/Chicago America/Denver
    America/Los_Angeles America/Mexico_City America/New_York America/Sao_Paulo America/Toronto
    Asia/Dubai Asia/Hong_Kong Asia/Jakarta Asia/Kolkata Asia/Seoul Asia/Shanghai Asia/Singapore
    Asia/Tokyo Australia/Sydney Europe/Berlin Europe/Brussels Europe/Istanbul Europe/London
    Europe/Madrid Europe/Moscow Europe/Paris Europe/Rome Europe/Vienna Europe/Zurich
    Pacific/Auckland
    """.split()
)


def shift_times(micros: pl.Series, zones: pl.Series, shift: Shift) -> pl.Series:
    """Shift times by the zone of each row, null where there is no such zone."""
    import polars as pl

    names = zones.unique()
    if len(names) == 1:
        return _shift_all(micros, names[0], shift)
    found = pl.Series("shifted", [None], dtype=pl.Int64).new_from_index(0, len(micros))
    for name in names.drop_nulls():
        rows = (zones == name).fill_null(False).arg_true()
        found = found.scatter(rows, _shift_all(micros[rows], name, shift))
    return found


def _shift_all(micros: pl.Series, name: str | None, shift: Shift) -> pl.Series:
    zone = time_zones.find_time_zone(name) if name is not None else None
    return shift(micros, zone) if zone else micros.clear(len(micros))


def _build_shift(shift: Shift, bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        shifted = shift_times(frame["a0"].to_physical(), frame["a1"], shift)
        return shifted.cast(frame["a0"].dtype)

    return compute_on_frame(compute, bound.result)


def _build_conversion(bound: BoundArguments) -> PolarsForm:
    """Return the form of what clocks of a zone show when those of another, UTC by default, show a
    time."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        *zones, time = frame.get_columns()
        micros = time.to_physical()
        if len(zones) > 1:
            micros = shift_times(micros, zones[0], time_zones.convert_to_utc)
        return shift_times(micros, zones[-1], time_zones.convert_from_utc).cast(time.dtype)

    return compute_on_frame(compute, bound.result)


def _check_conversion(bound: BoundArguments) -> None:
    for at in range(len(bound.arguments) - 1):
        check_zone(bound, at)


def _resolve_current_timezone(call: TypedCall) -> TypedExpression:
    if call.arguments:
        message = f"{call.name} takes 0 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span)
    return Constant(STRING, False, call.span, "UTC")


TIME_ZONES: tuple[SqlFunction, ...] = (
    function(
        "from_utc_timestamp",
        FAMILY,
        "What the clocks of a time zone show at a time in UTC.",
        overload(
            "from_utc_timestamp(time: timestamp, zone: string) -> timestamp",
            build=partial(_build_shift, time_zones.convert_from_utc),
            check=check_zone,
            spark=NO_SPARK_FORM,
        ),
        example=(
            "from_utc_timestamp(timestamp '2024-05-06 07:08:09', 'Asia/Seoul')",
            "2024-05-06 16:08:09",
        ),
    ),
    function(
        "to_utc_timestamp",
        FAMILY,
        "The time in UTC at which the clocks of a time zone show a time: the first such time if"
        " there are two, and later by the change of the clocks if there is none.",
        overload(
            "to_utc_timestamp(time: timestamp, zone: string) -> timestamp",
            build=partial(_build_shift, time_zones.convert_to_utc),
            check=check_zone,
            spark=NO_SPARK_FORM,
        ),
        example=(
            "to_utc_timestamp(timestamp '2024-05-06 16:08:09', 'Asia/Seoul')",
            "2024-05-06 07:08:09",
        ),
    ),
    function(
        "convert_timezone",
        FAMILY,
        "What the clocks of a time zone show when those of another, UTC by default, show a time.",
        *(
            overload(
                f"convert_timezone({zones}, time: timestamp_ntz) -> timestamp_ntz",
                build=_build_conversion,
                check=_check_conversion,
                spark=NO_SPARK_FORM,
            )
            for zones in ("from: string, to: string", "to: string")
        ),
        example=(
            "convert_timezone('Europe/Brussels', 'America/Los_Angeles',"
            " timestamp_ntz '2021-12-06 00:00:00')",
            "2021-12-05 15:00:00",
        ),
    ),
    function(
        "current_timezone",
        FAMILY,
        "The time zone of timestamps, which is UTC.",
        example=("current_timezone()", "UTC"),
        resolve=_resolve_current_timezone,
        signatures=("current_timezone() -> string",),
    ),
)
"""The functions of time zones."""
