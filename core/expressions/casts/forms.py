"""The Polars form of each cast that `rules` allows."""

from __future__ import annotations

import polars as pl

from headrace.core.expressions.batches import per_column
from headrace.core.expressions.casts import numbers, reading, shown, text, times
from headrace.core.expressions.typed import Form
from headrace.core.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DAY,
    DAY_TIME,
    FLOATS,
    INTEGERS,
    NULL,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Struct,
    Type,
    to_polars,
)


def form(source: Type, target: Type, *, try_: bool) -> Form:
    """Return the Polars form of a cast, with exactly the result of Spark."""
    if source in (target, NULL) or (source, target) == (DAY, DAY_TIME):
        return lambda value: value.cast(to_polars(target))
    match source, target:
        case Array(a), Array(b):
            return _array(form(a, b, try_=try_))
        case Struct(a), Struct(b):
            return _struct(a, b, try_=try_)
    if target == STRING:
        return shown.to_text(source, plain=try_)
    if target == BINARY:
        return shown.to_binary(source)
    if source == STRING:
        return _from_text(target, try_=try_)
    if target == TIMESTAMP:
        if source == DATE:
            return times.date_to_timestamp
        return times.number_to_timestamp(source, try_=try_)
    if source == TIMESTAMP:
        return times.timestamp_to_date if target == DATE else _from_timestamp(target)
    return _number(source, target, try_=try_)


def _from_text(target: Type, *, try_: bool) -> Form:
    if target == BOOLEAN:
        return text.boolean
    if target in INTEGERS:
        return per_column(lambda value: text.integer(value, target, fraction=not try_), target)
    if target in FLOATS:
        return per_column(lambda value: text.floating(value, target), target)
    if isinstance(target, Decimal):
        return per_column(lambda value: text.decimal(value, target), target)
    return per_column(reading.date if target == DATE else reading.timestamp, target)


def _from_timestamp(target: Type) -> Form:
    seconds = times.timestamp_to_number(target)
    if not isinstance(target, Decimal):
        return seconds
    rounded = numbers.to_decimal(times.SECONDS, target)
    return lambda value: rounded(seconds(value))


def _number(source: Type, target: Type, *, try_: bool) -> Form:
    if target == BOOLEAN:
        return numbers.to_boolean
    if target in INTEGERS:
        return numbers.to_integer(source, target, try_=try_)
    if isinstance(target, Decimal):
        return numbers.to_decimal(source, target)
    return numbers.to_floating(target)


def _array(element: Form) -> Form:
    body = element(pl.element())
    return lambda value: value.list.eval(body)


def _struct(source: tuple[Field, ...], target: tuple[Field, ...], *, try_: bool) -> Form:
    """Cast field by field, in order; the names are those of the target."""
    forms = [form(a.type, b.type, try_=try_) for a, b in zip(source, target, strict=True)]

    def recast(value: pl.Series) -> pl.Series:
        inside = value.struct.unnest()
        inside.columns = [f"f{i}" for i in range(len(forms))]
        fields = [form(pl.col(f"f{i}")).alias(target[i].name) for i, form in enumerate(forms)]
        struct = inside.select(pl.struct(fields)).to_series()
        return pl.select(pl.when(value.is_not_null()).then(struct)).to_series()

    return per_column(recast, Struct(target))
