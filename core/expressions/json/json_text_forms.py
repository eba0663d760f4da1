"""The text of a value of any type as JSON, as Spark's `to_json` writes it, in whole columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

import polars as pl

from headrace.core.expressions.batch_forms import compute_on_column
from headrace.core.expressions.casts.double_text import format_double
from headrace.core.expressions.casts.forms import build_form
from headrace.core.expressions.json.json_writer import ESCAPES, quote_characters
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import (
    BINARY,
    DATE,
    FLOAT_TYPES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
)
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class JsonTextOptions:
    """The options of `to_json`."""

    has_nulls: bool = False
    """Whether fields that are NULL are written."""
    times: Mapping[Type, PolarsForm] = field(default_factory=dict)
    """The forms of dates and timestamps as text, if they are not the usual ones."""
    sorts_keys: bool = False
    """Whether fields and entries are in the order of their names."""


def build_json_text(type: Type, options: JsonTextOptions) -> PolarsForm:
    """Return the form of the JSON text of a value; null of a null."""
    match type:
        case Struct():
            return _build_struct(type, options)
        case Array(element):
            body = build_json_text(element, options)(pl.element()).fill_null("null")
            return lambda value: pl.lit("[") + value.list.eval(body).list.join(",") + pl.lit("]")
        case MapType():
            return _build_map(type, options)
        case Decimal():
            return build_form(type, STRING, try_=False)
    if type in options.times:
        form = options.times[type]
        return lambda value: _quote_plain(form(value))
    if type in FLOAT_TYPES:
        return compute_on_column(_format_floats, STRING)
    if isinstance(type, Interval | Time):
        text = build_form(type, STRING, try_=False)
        return lambda value: _quote_plain(text(value))
    return _FORMS.get(type, _to_string)


def _to_string(value: pl.Expr) -> pl.Expr:
    return value.cast(pl.String)


def _quote_plain(value: pl.Expr) -> pl.Expr:
    """Quote texts that have nothing to escape."""
    return pl.lit('"') + value + pl.lit('"')


def _quote_text(value: pl.Expr) -> pl.Expr:
    return _quote_plain(value.str.replace_many([*ESCAPES], [*ESCAPES.values()]))


def _encode_binary(value: pl.Expr) -> pl.Expr:
    return _quote_plain(value.bin.encode("base64"))


def _format_date(value: pl.Expr) -> pl.Expr:
    return _quote_plain(build_form(DATE, STRING, try_=False)(value))


def format_timestamp(value: pl.Expr) -> pl.Expr:
    """Format a time with three digits of its second, as in 2024-01-02T03:04:05.120Z."""
    second = build_form(TIMESTAMP, STRING, try_=False)(value.dt.truncate("1s"))
    millis = (value.dt.timestamp("us") // 1000 % 1000).cast(pl.String).str.zfill(3)
    return second.str.replace(" ", "T", literal=True) + pl.lit(".") + millis + pl.lit("Z")


def format_zoneless(value: pl.Expr) -> pl.Expr:
    """Format a time without a zone the same, without the Z."""
    zoned = format_timestamp(value.dt.replace_time_zone("UTC"))
    return zoned.str.replace("Z", "", literal=True)


_FORMS: dict[Type, PolarsForm] = {
    STRING: _quote_text,
    BINARY: _encode_binary,
    DATE: _format_date,
    TIMESTAMP: lambda value: _quote_plain(format_timestamp(value)),
    TIMESTAMP_NTZ: lambda value: _quote_plain(format_zoneless(value)),
}


def _format_floats(value: pl.Series) -> pl.Series:
    """Format floats as Java does; what is no number is quoted."""
    texts = format_double(value)
    if value.is_finite().all():
        return texts
    return texts.zip_with(value.is_finite().fill_null(True), '"' + texts + '"')


def _build_map(type: MapType, options: JsonTextOptions) -> PolarsForm:
    """Return the form of the text of a map: {"a":1}; a value may be null."""
    key_text, value_text = _build_key_text(type.key), build_json_text(type.value, options)
    key, value = (pl.element().struct.field(name) for name in ("key", "value"))

    def write(maps: pl.Series) -> pl.Series:
        texts = value_text(value).cast(pl.String).fill_null("null")
        named = pl.struct(key_text(key).alias("key"), texts.alias("value"))
        entries = maps.to_frame("m").select(pl.col("m").map.entries().list.eval(named)).to_series()
        if options.sorts_keys:
            entries = entries.list.eval(pl.element().sort_by(key))
        joined = entries.list.eval(_quote_text(key) + ":" + value).list.join(",")
        return "{" + joined + "}"

    return compute_on_column(write, STRING)


def _build_key_text(type: Type) -> PolarsForm:
    """Return the form of a key as Java writes Spark's value: a time is a number."""
    match type:
        case Struct(fields):
            forms = {each.name: _build_key_text(each.type) for each in fields}

            def write(value: pl.Expr) -> pl.Expr:
                texts = [form(value.struct.field(n)).fill_null("null") for n, form in forms.items()]
                return pl.lit("[") + pl.concat_str(texts, separator=",") + pl.lit("]")

            return write
        case Decimal():
            return build_form(type, STRING, try_=False)
    if type in FLOAT_TYPES:
        return compute_on_column(format_double, STRING)
    if type in (DATE, TIMESTAMP):
        return lambda value: value.to_physical().cast(pl.String)
    return _to_string


def _build_struct(type: Struct, options: JsonTextOptions) -> PolarsForm:
    """Return the form of the text of a struct: {"a":1}."""
    forms: list[Callable[[pl.Expr], pl.Expr]] = []
    for each in type.fields:
        name, form = quote_characters(each.name), build_json_text(each.type, options)
        forms.append(_build_member(f",{name}:", form, has_nulls=options.has_nulls))
    order = [*range(len(forms))]
    if options.sorts_keys:
        order.sort(key=lambda at: type.fields[at].name)

    def write(value: pl.Series) -> pl.Series:
        inside = value.struct.unnest()
        inside.columns = [f"f{at}" for at in range(len(forms))]
        members = [forms[at](pl.col(f"f{at}")).alias(f"f{at}") for at in order]
        joined = pl.concat_str("*", ignore_nulls=True).str.slice(1)
        texts = inside.select(members).select(pl.lit("{") + joined + pl.lit("}")).to_series()
        return pl.select(pl.when(value.is_not_null()).then(texts)).to_series()

    return compute_on_column(write, STRING)


def _build_member(name: str, form: PolarsForm, *, has_nulls: bool) -> Callable[[pl.Expr], pl.Expr]:
    def write(value: pl.Expr) -> pl.Expr:
        text = form(value).cast(pl.String)
        return pl.lit(name) + (text.fill_null("null") if has_nulls else text)

    return write
