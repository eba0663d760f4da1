"""The rows of CSV texts: columns of the types of a schema, converted as Spark does."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from headrace.core.expressions.casts import build_cast_form
from headrace.core.expressions.csv.csv_record import NO_CHARACTER, CsvGrammar
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    FLOAT_TYPES,
    STRING,
    Decimal,
    Struct,
    Type,
    is_integer,
    to_polars,
)
from headrace.core.types.lazy_dataclass import dataclass

_SPACES = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class CsvRowOptions:
    """The options of `from_csv`; `times` has the forms that parse dates and timestamps."""

    grammar: CsvGrammar
    corrupt_column: str
    times: Mapping[Type, PolarsForm]
    null_value: str = ""
    nan: str = "NaN"
    infinity: str = "Inf"
    negative_infinity: str = "-Inf"


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Converts texts to structs of a schema."""

    type: Struct
    options: CsvRowOptions

    def convert(self, texts: pl.Series) -> pl.Series:
        """Return a struct for each text; NULL for NULL."""
        corrupt = self.options.corrupt_column
        fields = [each for each in self.type.fields if each.name != corrupt]
        values = split_texts(texts, self.options.grammar).alias("values")
        frame = pl.DataFrame([texts.alias("text"), values])
        null_value = self.options.null_value
        found = [pl.col("values").list.get(at, null_on_oob=True) for at in range(len(fields))]
        tokens = frame.with_columns(
            pl.when(token != null_value).then(token).alias(f"t{at}")
            for at, token in enumerate(found)
        )
        columns = tokens.with_columns(
            self._build_value(each.type, pl.col(f"t{at}")).alias(f"v{at}")
            for at, each in enumerate(fields)
        )
        bad = [
            pl.col(f"v{at}").is_null() & pl.col(f"t{at}").is_not_null() for at in range(len(fields))
        ]
        is_bad = pl.any_horizontal(pl.col("values").list.len() != len(fields), *bad)
        parts = {each.name: pl.col(f"v{at}") for at, each in enumerate(fields)}
        parts[corrupt] = pl.when(is_bad).then(pl.col("text"))
        row = pl.struct(parts[each.name].alias(each.name) for each in self.type.fields)
        result = columns.select(pl.when(pl.col("text").is_not_null()).then(row))
        return result.to_series().cast(to_polars(self.type)).alias(texts.name)

    def _build_value(self, type: Type, token: pl.Expr) -> pl.Expr:
        """Return the value of a text of the record; NULL if it is none of the type."""
        if type == STRING:
            return token
        if type == BINARY:
            return token.cast(pl.Binary)
        if type == BOOLEAN:
            return token.str.to_lowercase().replace_strict(
                {"true": True, "false": False}, default=None, return_dtype=pl.Boolean
            )
        if type in self.options.times:
            return self.options.times[type](token)
        cast = build_cast_form(STRING, type)
        if is_integer(type):
            return pl.when(token.str.contains(r"^[+-]?\p{Nd}+$")).then(cast(token))
        if type in FLOAT_TYPES:
            return self._build_float(type, token, cast)
        if isinstance(type, Decimal):
            number = token.str.replace_all(",", "", literal=True)
            return pl.when(number.str.contains(_DECIMAL)).then(cast(number))
        return cast(token)

    def _build_float(self, type: Type, token: pl.Expr, cast: PolarsForm) -> pl.Expr:
        words = {
            self.options.nan: float("nan"),
            self.options.infinity: float("inf"),
            self.options.negative_infinity: float("-inf"),
        }
        is_other_word = token.str.contains(_WORD) & ~token.str.contains(_JAVA_WORD)
        number = pl.when(is_other_word.not_()).then(cast(token))
        word = token.replace_strict(words, default=None, return_dtype=to_polars(type))
        return pl.coalesce(word, number)


_DECIMAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_WORD = r"(?i)^[\x00-\x20]*[+-]?(nan|inf|infinity)[\x00-\x20]*$"
_JAVA_WORD = r"^[\x00-\x20]*[+-]?(NaN|Infinity)[\x00-\x20]*$"


def split_texts(texts: pl.Series, grammar: CsvGrammar) -> pl.Series:
    """Return the values of each text as a list: those in no quotes in whole columns."""
    each = pl.element()
    if grammar.skips_leading:
        each = each.str.strip_chars_start(_SPACES)
    if grammar.skips_trailing:
        each = each.str.strip_chars_end(_SPACES)
    plain = texts.str.split(grammar.separator).list.eval(pl.when(each != "").then(each))
    if grammar.quote == NO_CHARACTER and not grammar.skips_leading:
        return _without_empty(texts, plain)
    needs_rules = texts.str.contains(grammar.quote, literal=True)
    if grammar.skips_leading:
        needs_rules |= texts.str.contains(r"[\x00-\x20]$")
    if not needs_rules.any():
        return _without_empty(texts, plain)
    found = [
        grammar.split(text) if rules else None
        for text, rules in zip(texts.to_list(), needs_rules.to_list(), strict=True)
    ]
    split = pl.Series(found, dtype=pl.List(pl.String))
    return _without_empty(texts, split.zip_with(needs_rules.fill_null(True), plain))


def _without_empty(texts: pl.Series, values: pl.Series) -> pl.Series:
    """Return no values for an empty text: it has none, and is not wrong."""
    frame = pl.DataFrame([texts.alias("text"), values.alias("values")])
    return frame.select(pl.when(pl.col("text") != "").then(pl.col("values"))).to_series()
