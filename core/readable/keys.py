"""The decoding of keys as tables store them into columns; see `types/key_groups` for the encoding.

All keys are decoded at once, column by column: each column is preceded by its length in bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.types import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT_TYPES,
    TIMESTAMP,
    Schema,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl


def decode_keys(keys: pl.Series, columns: Schema) -> list[pl.Series]:
    """Decode keys into columns.

    >>> import polars as pl
    >>> from headrace.core.types import BIGINT, STRING, Field
    >>> two = Schema((Field("a", STRING), Field("b", BIGINT)))
    >>> [column.to_list() for column in decode_keys(pl.Series(["3:x:y1:7", "-2:-1"]), two)]
    [['x:y', None], [7, -1]]
    """
    import polars as pl

    rest, found = keys.alias("rest").cast(pl.Binary).to_frame(), list[pl.Series]()
    for field in columns:
        cut = rest.select(_parse_length(), pl.col("rest"))
        start = pl.col("length").cast(pl.String).str.len_bytes().cast(pl.Int64) + 1
        text = pl.col("rest").bin.slice(start, pl.col("length"))
        behind = pl.col("rest").bin.slice((start + pl.col("length")).fill_null(1))
        parts = cut.select(text.cast(pl.String).alias("text"), behind.alias("rest"))
        found.append(parts.select(_decode_value(field.type).alias(field.name)).to_series())
        rest = parts.select("rest")
    return found


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
    if type in (DATE, TIMESTAMP):
        number = text.cast(pl.Int64)
        return (number.cast(pl.Int32) if type == DATE else number).cast(to_polars(type))
    if type in FLOAT_TYPES:
        return text.cast(pl.Float64).cast(to_polars(type))
    return text.cast(to_polars(type))
