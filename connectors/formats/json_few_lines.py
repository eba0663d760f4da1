"""A reader of a few JSON lines, at a quarter of the cost of Polars' reader.

A call of Polars' reader takes a fifth of a millisecond however few the records are, which is most
of the work on a record that arrives alone. Here orjson reads the records, but only such as both
read alike; for all others the answer is None, and Polars decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.connectors.formats.lines import BLANK
from headrace.core.types.lazy_pattern import compile_pattern

if TYPE_CHECKING:
    import polars as pl

MAX_BLOCK_BYTES = 8192
"""The longest block to read here; Polars' reader is as fast for about 50 records."""

LONG_NUMBER = compile_pattern(rb"[0-9]{19}")


def read_few_lines(block: bytes, types: Mapping[str, pl.DataType]) -> pl.DataFrame | None:
    """Read a row of each record, as `read_lines` does; None if the two may differ."""
    if not types or len(block) > MAX_BLOCK_BYTES or b"\\" in block or LONG_NUMBER.search(block):
        return None
    import polars as pl

    lines = [line for line in block.split(b"\n") if line.strip(BLANK)]
    records = _parse_records(lines, types)
    if not records:
        return None
    columns = []
    for name, type in types.items():
        values = [record.get(name) for record in records]
        if not _are_plain(values, str(type)):
            return None
        columns.append(pl.Series(name, values, type))
    return pl.DataFrame(columns)


def _parse_records(
    lines: list[bytes], types: Mapping[str, pl.DataType]
) -> list[dict[str, Any]] | None:
    """Parse objects; None if one is not, or has a field twice: Polars takes the first value."""
    import orjson

    names = [b'"%b"' % name.encode() for name in types]
    if any(line.count(name) > 1 for line in lines for name in names):
        return None
    try:
        records = [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError:
        return None
    return records if all(record.__class__ is dict for record in records) else None


def _are_plain(values: list[Any], type: str) -> bool:
    """Whether both readers give these values for a column of this type of Polars."""
    match type:
        case "String":
            return all(value is None or value.__class__ is str for value in values)
        case "Int64" | "Int32":
            bits = int(type[3:]) - 1
            return all(
                value is None or (value.__class__ is int and value.bit_length() <= bits)
                for value in values
            )
        case "Float64":  # LONG_NUMBER: an integer here is one of at most 18 digits
            return all(value is None or value.__class__ in (float, int) for value in values)
        case "Boolean":
            return all(value is None or value.__class__ is bool for value in values)
    return False
