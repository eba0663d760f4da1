"""Record keys as bytes: of one column its text, of several a JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.core.types import BINARY, BOOLEAN, STRING, Field, Schema, Type, is_integer

if TYPE_CHECKING:
    import polars as pl

PREFIX_LENGTH = len(b'{"_":')


def encode_keys(frame: pl.DataFrame, columns: Schema) -> pl.Series:
    """Return the key of each row (Binary); null if the key is a single column that is null."""
    import polars as pl

    if len(columns) == 1:
        return _encode_column(frame[columns.fields[0].name], columns.fields[0].type)
    return pl.Series(_encode_objects(frame, columns), dtype=pl.Binary)


def _encode_column(column: pl.Series, type: Type) -> pl.Series:
    """Return a column as text: a string unchanged, other types as in JSON, without quotes."""
    import polars as pl

    if type == BINARY:
        return column
    if type in (STRING, BOOLEAN) or is_integer(type):
        return column.cast(pl.String).cast(pl.Binary)
    objects = _encode_objects(column.alias("_").to_frame(), Schema((Field("_", type),)))
    texts = [text[PREFIX_LENGTH:-1].strip(b'"') for text in objects]
    found = pl.Series(column.name, texts, dtype=pl.Binary)
    return found.zip_with(column.is_not_null(), pl.Series([None], dtype=pl.Binary))


def _encode_objects(frame: pl.DataFrame, columns: Schema) -> Sequence[bytes]:
    return JsonEncoder(columns).encode(frame).split(b"\n")[:-1]
