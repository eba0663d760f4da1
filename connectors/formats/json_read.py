"""Polars' reader of JSON lines, as it is called here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.connectors.formats.json_wire import is_exact, is_nested, wire
from headrace.core.types import Schema

if TYPE_CHECKING:
    import polars as pl

# The field that is read when none is needed: without a schema, Polars would guess one.
NO_FIELD = ""
FIRST = (b"{", b"\n", b" ", b"\t", b"\r")
"""What lines of JSON begin with."""


def read(block: bytes, types: dict[str, pl.DataType], *, lenient: bool = False) -> pl.DataFrame:
    """A row of each record; raises if one is wrong. Lenient: a value of a wrong type is null."""
    import polars as pl

    if not block.startswith(FIRST):
        # It may look like gzip, zlib or zstd, which Polars would unpack; a blank line is skipped.
        block = b"\n" + block
    return pl.read_ndjson(block, schema=types or {NO_FIELD: pl.String()}, ignore_errors=lenient)


def wires(schema: Schema, epoch: str | None) -> dict[str, pl.DataType]:
    """The fields that Polars reads, and as what."""
    return {
        field.name: wire(field.type, epoch)
        for field in schema
        if is_nested(field.type) or not is_exact(field.type)
    }
