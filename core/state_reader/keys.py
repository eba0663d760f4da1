"""The keys of states: decoded from tables into columns, and parsed from text.

All keys of a table are decoded at once, column by column: each column is preceded by its length in
bytes (`types/key_groups`). To look up the state of a key, people write:

    EUR                         a key of one column
    country=DE,at=2026-01-31    a key of several columns, in any order
    name='a, b'                 quotes protect commas, and distinguish the text 'null' from null
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING

from headrace.core.errors.problems import suggest_name
from headrace.core.state_reader.state_schema import StateKey
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT_TYPES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMP_TYPES,
    Interval,
    Schema,
    Time,
    Type,
    to_polars,
)
from headrace.core.types.key_groups import compute_key_groups, encode_keys
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


def decode_keys(keys: pl.Series, columns: Schema) -> list[pl.Series]:
    """Decode keys into columns.

    >>> import polars as pl
    >>> from headrace.core.types.data_types import BIGINT, STRING, Field
    >>> two = Schema((Field("a", STRING), Field("b", BIGINT)))
    >>> [column.to_list() for column in decode_keys(pl.Series(["3:x:y1:7", "-2:-1"]), two)]
    [['x:y', None], [7, -1]]
    """
    import polars as pl

    rest, decoded_columns = keys.alias("rest").cast(pl.Binary).to_frame(), list[pl.Series]()
    for field in columns:
        cut = rest.select(_parse_length(), pl.col("rest"))
        start = pl.col("length").cast(pl.String).str.len_bytes().cast(pl.Int64) + 1
        text = pl.col("rest").bin.slice(start, pl.col("length"))
        remainder = pl.col("rest").bin.slice((start + pl.col("length")).fill_null(1))
        parts = cut.select(text.cast(pl.String).alias("text"), remainder.alias("rest"))
        decoded_columns.append(
            parts.select(_decode_value(field.type).alias(field.name)).to_series()
        )
        rest = parts.select("rest")
    return decoded_columns


def _parse_length() -> pl.Expr:
    """Return the length in bytes of the first column; null where it is null."""
    import polars as pl

    # In hex, because a slice of a text may not be valid UTF-8.
    digits = pl.col("rest").bin.head(12).bin.encode("hex").str.extract(r"^((?:3\d)+)3a")
    return digits.str.decode("hex").cast(pl.String).cast(pl.Int64).alias("length")


def _decode_value(type: Type) -> pl.Expr:
    import polars as pl

    text = pl.col("text")
    if type == BINARY:
        return text.str.decode("hex")
    if type == BOOLEAN:
        return text.cast(pl.Int64).cast(pl.Boolean)
    if type in (DATE, *TIMESTAMP_TYPES):
        number = text.cast(pl.Int64)
        return (number.cast(pl.Int32) if type == DATE else number).cast(to_polars(type))
    if isinstance(type, Interval):
        return text.cast(pl.Int64).cast(to_polars(type))
    if isinstance(type, Time):
        return text.cast(pl.Int64).cast(pl.Time)
    if type in FLOAT_TYPES:
        return text.cast(pl.Float64).cast(to_polars(type))
    return text.cast(to_polars(type))


_PART = re.compile(r"\s*(?P<name>[^=,']+?)\s*=\s*(?P<value>'(?:[^']|'')*'|[^,]*?)\s*(?:,|$)")


class InvalidKey(Exception):
    """An invalid key: what was expected, what came, and a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """A key as it is stored, and its key group."""

    encoded_key: str
    key_group: int


def parse_key(text: str, key: StateKey, key_groups: int) -> ParsedKey:
    """Parse a key. Raises InvalidKey."""
    import polars as pl

    texts = _split_key(text, key)
    columns = [_parse_column(field.name, texts[field.name], field.type) for field in key.columns]
    whole = encode_keys(pl.DataFrame(columns))
    return ParsedKey(str(whole[0]), int(compute_key_groups(whole, key_groups)[0]))


def _split_key(text: str, key: StateKey) -> dict[str, str]:
    """Return the text of each column."""
    if not key.names:
        raise InvalidKey(f'it has no key, got "{text}"', "without --key all of it is shown")
    named = _split_named_columns(text)
    if len(key.names) == 1 and key.names[0] not in named:
        return {key.names[0]: text}
    there = ", ".join(f"{field.name} {field.type}" for field in key.columns)
    for name in named:
        if name not in key.names:
            hint = suggest_name(name, key.names) or f"its key is {there}"
            raise InvalidKey(f'its key has no column "{name}"', hint)
    if missing := [name for name in key.names if name not in named]:
        example = ",".join(f"{name}=..." for name in key.names)
        message = f'wanted {_join_names(missing)} of its key as well, got "{text}"'
        raise InvalidKey(message, f"its key is {there}: --key {example}")
    return named


def _split_named_columns(text: str) -> dict[str, str]:
    """Split a text into named columns; {} if it names none."""
    at, found = 0, dict[str, str]()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return {}
        found[part["name"]] = part["value"]
        at = part.end()
    return found


def _parse_column(name: str, text: str, type: Type) -> pl.Series:
    import polars as pl

    value: object = None
    if text[:1] == "'" == text[-1:] and len(text) > 1:
        value = text[1:-1].replace("''", "'")
    elif text.strip().lower() != "null":
        value = text
    try:
        return _cast_text(pl.Series(name, [value], dtype=pl.String), type)
    except (pl.exceptions.PolarsError, ValueError) as error:
        hint = _HINTS.get(str(type), "")
        raise InvalidKey(f'{name}: wanted {type}, got "{text}"', hint) from error


_HINTS = {
    "binary": "its bytes in hex",
    "timestamp": "as in 2026-01-31T08:00:00Z",
    "timestamp_ntz": "as in 2026-01-31T08:00:00",
    "time(6)": "as in 08:00:00",
    "date": "as in 2026-01-31",
    "boolean": "true or false",
}


def _cast_text(text: pl.Series, type: Type) -> pl.Series:
    import polars as pl

    if type == STRING:
        return text
    if type == BINARY:
        return text.str.decode("hex")
    if type == BOOLEAN:
        return _map_words(text, {"true": True, "false": False})
    if type == TIMESTAMP:
        return pl.Series(text.name, [_parse_time(each) for each in text], dtype=to_polars(type))
    if type == TIMESTAMP_NTZ:
        times = [_parse_local_time(each) for each in text]
        return pl.Series(text.name, times, dtype=to_polars(type))
    if isinstance(type, Interval):
        return _parse_intervals(text, type)
    if isinstance(type, Time):
        clock = [None if each is None else time.fromisoformat(each.strip()) for each in text]
        return pl.Series(text.name, clock, dtype=pl.Time)
    return text.str.strip_chars().cast(to_polars(type))


def _map_words(text: pl.Series, words: dict[str, bool]) -> pl.Series:
    import polars as pl

    values = []
    for word in text:
        if word is not None and word.lower() not in words:
            raise ValueError(word)
        values.append(None if word is None else words[word.lower()])
    return pl.Series(text.name, values, dtype=pl.Boolean)


def _parse_time(text: str | None) -> datetime | None:
    if text is None:
        return None
    at = datetime.fromisoformat(text.strip())
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _parse_intervals(text: pl.Series, type: Interval) -> pl.Series:
    import polars as pl

    from headrace.core.expressions.casts import build_cast_form

    form = build_cast_form(STRING, type)
    parsed = text.to_frame("v").select(form(pl.col("v"))).to_series()
    if parsed.null_count() > text.null_count():
        raise ValueError(text)
    return parsed.alias(text.name)


def _parse_local_time(text: str | None) -> datetime | None:
    at = None if text is None else datetime.fromisoformat(text.strip())
    if at is not None and at.tzinfo is not None:
        raise ValueError(text)
    return at


def _join_names(names: Iterable[str]) -> str:
    return " and ".join(names)
