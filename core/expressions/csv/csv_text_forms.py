"""The text of a struct as a CSV record, as Spark's `to_csv` writes it, in whole columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import polars as pl

from headrace.core.expressions.batch_forms import compute_on_column
from headrace.core.expressions.casts.double_text import format_double
from headrace.core.expressions.casts.forms import build_form
from headrace.core.expressions.csv.csv_record import NO_CHARACTER, CsvGrammar
from headrace.core.expressions.json.json_text_forms import format_timestamp, format_zoneless
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import (
    BINARY,
    FLOAT_TYPES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
    Field,
    MapType,
    Struct,
    Type,
    is_nested,
)
from headrace.core.types.lazy_dataclass import dataclass

_SPACES = "".join(map(chr, range(33)))
_PLAIN_SCALE = 6
"""Decimals of up to this many digits after the point are never written with an exponent."""


@dataclass(frozen=True, slots=True)
class CsvTextOptions:
    """The options of `to_csv`; `grammar` says also which spaces are left out."""

    grammar: CsvGrammar
    null_value: str = ""
    quotes_all: bool = False
    quotes_quotes: bool = True
    times: Mapping[Type, PolarsForm] = field(default_factory=dict)
    """The forms of dates and timestamps as text, if they are not the usual ones."""


def build_csv_text(type: Struct, options: CsvTextOptions) -> PolarsForm:
    """Return the form of the text of a struct; NULL of one that would be an empty text."""
    forms = [_build_text(each.type, options) for each in type.fields]

    def write(rows: pl.Series) -> pl.Series:
        inside = rows.struct.unnest()
        inside.columns = [f"f{at}" for at in range(len(forms))]
        values = [_quote(form(pl.col(f"f{at}")), options) for at, form in enumerate(forms)]
        text = pl.concat_str(values, separator=options.grammar.separator)
        texts = inside.select(text.alias("text")).to_series()
        return pl.select(pl.when(rows.is_not_null() & (texts != "")).then(texts)).to_series()

    return compute_on_column(write, STRING)


def _build_text(type: Type, options: CsvTextOptions) -> PolarsForm:
    if is_nested(type):
        return compute_on_column(_build_nested_text(type, options), STRING)
    if type in options.times:
        return options.times[type]
    if type in FLOAT_TYPES:
        return compute_on_column(format_double, STRING)
    if type == TIMESTAMP:
        return format_timestamp
    if type == TIMESTAMP_NTZ:
        return format_zoneless
    if type == BINARY:
        return _format_bytes
    if isinstance(type, Decimal) and type.scale > _PLAIN_SCALE:
        return compute_on_column(_format_decimals, STRING)
    return build_form(type, STRING, try_=False)


def _build_nested_text(type: Type, options: CsvTextOptions) -> Callable[[pl.Series], pl.Series]:
    """Return the function that writes nested values: [1, 2], {key -> value}, {field, field}."""
    null = f" {options.null_value}" if options.null_value else ""

    def write_after_space(text: pl.Expr) -> pl.Expr:
        return (pl.lit(" ") + text.cast(pl.String)).fill_null(null)

    def write_first(text: pl.Expr) -> pl.Expr:
        return text.cast(pl.String).fill_null(null)

    def write_struct(fields: Sequence[Field], values: pl.Series) -> pl.Series:
        inside = values.struct.unnest()
        inside.columns = [f"f{at}" for at in range(len(fields))]
        texts = [_build_text(f.type, options)(pl.col(f"f{at}")) for at, f in enumerate(fields)]
        written = [(write_after_space if at else write_first)(t) for at, t in enumerate(texts)]
        return _wrap(inside.select(pl.concat_str(written, separator=",")).to_series(), values)

    def write_array(element: Type, values: pl.Series) -> pl.Series:
        text = _build_text(element, options)(pl.element())
        later = values.list.eval(write_after_space(text)).list.slice(1)
        first = values.list.head(1).list.eval(write_first(text))
        joined = pl.select(pl.lit(first).list.concat(pl.lit(later)).list.join(",")).to_series()
        return "[" + joined + "]"

    def write_map(key: Type, value: Type, values: pl.Series) -> pl.Series:
        entries = values.to_frame("m").select(pl.col("m").map.entries()).to_series()
        of_key = _build_text(key, options)(pl.element().struct.field("key")).cast(pl.String)
        of_value = _build_text(value, options)(pl.element().struct.field("value"))
        text = of_key + pl.lit(" ->") + write_after_space(of_value)
        joined = entries.list.eval(text).list.join(", ")
        return "{" + joined + "}"

    match type:
        case Struct(fields):
            return lambda values: write_struct(fields, values)
        case Array(element):
            return lambda values: write_array(element, values)
    assert isinstance(type, MapType)
    return lambda values: write_map(type.key, type.value, values)


def _wrap(texts: pl.Series, values: pl.Series) -> pl.Series:
    """Return the texts of structs in braces, NULL where the struct is."""
    return pl.select(pl.when(values.is_not_null()).then("{" + texts + "}")).to_series()


def _format_bytes(value: pl.Expr) -> pl.Expr:
    pairs = value.bin.encode("hex").str.to_uppercase().str.replace_all("(..)", "${1} ")
    return pl.lit("[") + pairs.str.strip_suffix(" ") + pl.lit("]")


def _format_decimals(values: pl.Series) -> pl.Series:
    """Return decimals as Java's BigDecimal writes them, which is how Python does."""
    texts = [None if value is None else str(value) for value in values.to_list()]
    return pl.Series(values.name, texts, dtype=pl.String)


def _quote(text: pl.Expr, options: CsvTextOptions) -> pl.Expr:
    """Return a value as it stands in the record: in quotes where it needs them."""
    grammar = options.grammar
    text = text.cast(pl.String)
    given = pl.lit(options.null_value) if options.null_value else pl.lit(None, dtype=pl.String)
    value = pl.coalesce(text, given)
    if grammar.skips_leading:
        value = value.str.strip_chars_start(_SPACES)
    if grammar.skips_trailing:
        value = value.str.strip_chars_end(_SPACES)
    if grammar.quote == NO_CHARACTER:
        return _fill_empty(value, value, options)
    inside = value
    if grammar.escape not in (grammar.quote, NO_CHARACTER):
        inside = inside.str.replace_all(grammar.escape, grammar.escape * 2, literal=True)
    inside = inside.str.replace_all(grammar.quote, grammar.escape + grammar.quote, literal=True)
    quoted = pl.lit(grammar.quote) + inside + pl.lit(grammar.quote)
    stops = [grammar.separator, "\n", "\r", *([grammar.quote] if options.quotes_quotes else [])]
    found = (value.str.contains(stop, literal=True) for stop in stops)
    needs = pl.any_horizontal(value.str.starts_with(grammar.quote), *found)
    written = quoted if options.quotes_all else pl.when(needs).then(quoted).otherwise(value)
    return _fill_empty(value, written, options)


def _fill_empty(value: pl.Expr, written: pl.Expr, options: CsvTextOptions) -> pl.Expr:
    """Write the two values that have no characters."""
    none = options.grammar.quote * 2 if options.quotes_all else ""
    empty = pl.when(value == "").then(pl.lit(options.grammar.empty_value)).otherwise(written)
    return empty.fill_null(none)
