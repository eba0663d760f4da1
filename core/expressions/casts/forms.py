"""The Polars form of each cast that `rules` allows."""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.batch_forms import compute_on_column
from headrace.core.expressions.casts import (
    clock_times,
    from_text,
    intervals,
    numbers,
    times,
    to_text,
)
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types import map_entries
from headrace.core.types.calendar import drop_zone
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT_TYPES,
    INTEGER_TYPES,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMP_TYPES,
    Array,
    Decimal,
    Field,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
    to_polars,
)


def build_form(source: Type, target: Type, *, try_: bool) -> PolarsForm:
    """Return the Polars form of a cast, with exactly the result of Spark."""
    if source in (target, NULL):
        return lambda value: value.cast(to_polars(target))
    match source, target:
        case Array(a), Array(b):
            return _build_array(build_form(a, b, try_=try_))
        case MapType(k, v), MapType(other_k, other_v):
            key, each = (build_form(k, other_k, try_=try_), build_form(v, other_v, try_=try_))
            return lambda value: map_entries.convert_entries(value, key, each)
        case Struct(a), Struct(b):
            return _build_struct(a, b, try_=try_)
    if isinstance(source, Interval) or isinstance(target, Interval):
        return intervals.build_interval_form(source, target)
    if isinstance(source, Time) or isinstance(target, Time):
        return clock_times.build_time_form(source, target)
    if target == STRING:
        return to_text.to_text(source, plain=try_)
    if target == BINARY:
        return to_text.to_binary(source)
    if source == STRING:
        return _build_from_text(target, try_=try_)
    if source in TIMESTAMP_TYPES and target in TIMESTAMP_TYPES:
        return lambda value: value.to_physical().cast(to_polars(target))
    if target == TIMESTAMP_NTZ:
        return lambda value: drop_zone(times.date_to_timestamp(value))
    if target == TIMESTAMP:
        if source == DATE:
            return times.date_to_timestamp
        return times.number_to_timestamp(source, try_=try_)
    if source in TIMESTAMP_TYPES:
        return times.timestamp_to_date if target == DATE else _build_from_timestamp(target)
    return _build_from_number(source, target, try_=try_)


def _build_from_text(target: Type, *, try_: bool) -> PolarsForm:
    if target == BOOLEAN:
        return from_text.parse_boolean
    if target in INTEGER_TYPES:
        return compute_on_column(
            lambda value: from_text.parse_integer(value, target, fraction=not try_), target
        )
    if target in FLOAT_TYPES:
        return compute_on_column(lambda value: from_text.parse_double(value, target), target)
    if isinstance(target, Decimal):
        return compute_on_column(lambda value: from_text.parse_decimal(value, target), target)
    if target == TIMESTAMP_NTZ:
        return compute_on_column(from_text.parse_timestamp_ntz, target)
    return compute_on_column(
        from_text.parse_date if target == DATE else from_text.parse_timestamp, target
    )


def _build_from_timestamp(target: Type) -> PolarsForm:
    seconds = times.timestamp_to_number(target)
    if not isinstance(target, Decimal):
        return seconds
    rounded = numbers.to_decimal(times.SECONDS_TYPE, target)
    return lambda value: rounded(seconds(value))


def _build_from_number(source: Type, target: Type, *, try_: bool) -> PolarsForm:
    if target == BOOLEAN:
        return numbers.to_boolean
    if target in INTEGER_TYPES:
        return numbers.to_integer(source, target, try_=try_)
    if isinstance(target, Decimal):
        return numbers.to_decimal(source, target)
    return numbers.to_double(target)


def _build_array(element: PolarsForm) -> PolarsForm:
    body = element(pl.element())
    return lambda value: value.list.eval(body)


def _build_struct(
    source: tuple[Field, ...], target: tuple[Field, ...], *, try_: bool
) -> PolarsForm:
    """Cast field by field, in order; the names are those of the target."""
    forms = [build_form(a.type, b.type, try_=try_) for a, b in zip(source, target, strict=True)]

    def recast(value: pl.Series) -> pl.Series:
        inside = value.struct.unnest()
        inside.columns = [f"f{i}" for i in range(len(forms))]
        fields = [form(pl.col(f"f{i}")).alias(target[i].name) for i, form in enumerate(forms)]
        struct = inside.select(pl.struct(fields)).to_series()
        return pl.select(pl.when(value.is_not_null()).then(struct)).to_series()

    return compute_on_column(recast, Struct(target))
