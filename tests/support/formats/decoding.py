"""Schemas from text, and results of decoders for lines, for the tests of formats."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from headrace.connectors.formats.contract import Decoder
from headrace.core.api.sources import BadRecord
from headrace.core.types.data_types import Field, Schema, to_polars
from headrace.core.types.type_parser import parse_type


def schema(**types: str) -> Schema:
    """Columns by name; `not null` may follow a type."""
    parsed = {name: parse_type(text) for name, text in types.items()}
    return Schema(tuple(Field(name, *of) for name, of in parsed.items()))


def empty(columns: Schema) -> pl.DataFrame:
    """No rows of these columns."""
    return pl.DataFrame(schema={field.name: to_polars(field.type) for field in columns})


def decoded(
    decoder: Decoder, blocks: Iterable[bytes], start: int = 0
) -> tuple[pl.DataFrame, tuple[BadRecord, ...]]:
    """The rows and bad records of blocks that follow each other."""
    frames: list[pl.DataFrame] = []
    bad: list[BadRecord] = []
    for block in blocks:
        frame, wrong = decoder.decode(block, start)
        frames.append(frame)
        bad.extend(wrong)
        start += len(block)
    return pl.concat(frames), tuple(bad)


def cuts(decoder: Decoder, data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Split data into blocks, as a reader with that block size does."""
    blocks = []
    for size in sizes:
        whole = decoder.find_cut(data[:size])
        if whole:
            blocks.append(data[:whole])
            data = data[whole:]
    return [*blocks, data] if data else blocks
