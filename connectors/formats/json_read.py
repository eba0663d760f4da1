"""Calls of Polars' reader of JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.connectors.formats.json_wire import is_exact, is_nested, to_wire_type
from headrace.core.types import Schema

if TYPE_CHECKING:
    import polars as pl

# The field to read if none is needed: without a schema, Polars would guess one.
NO_FIELD = ""
FIRST_BYTES = (b"{", b"\n", b" ", b"\t", b"\r")
"""The first bytes of JSON lines."""


def read_lines(
    block: bytes, types: dict[str, pl.DataType], *, lenient: bool = False
) -> pl.DataFrame:
    """Read a row of each record; raises for a bad one. Lenient: a value of a wrong type is null."""
    import polars as pl

    if not block.startswith(FIRST_BYTES):
        # Polars would decompress what looks like gzip, zlib or zstd; it skips a blank line.
        block = b"\n" + block
    return pl.read_ndjson(block, schema=types or {NO_FIELD: pl.String()}, ignore_errors=lenient)


def list_wire_types(schema: Schema, epoch: str | None) -> dict[str, pl.DataType]:
    """Return the fields that Polars reads, with their wire types."""
    return {
        field.name: to_wire_type(field.type, epoch)
        for field in schema
        if is_nested(field.type) or not is_exact(field.type)
    }
