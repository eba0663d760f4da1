"""Speed of decoding JSON lines to frames: million records per CPU second, bids with all columns.

On stderr: the same for other columns and other data, and for Polars' bare reader. The difference to
that is the cost of counting, checking and converting.
"""

from __future__ import annotations

import sys

import polars as pl

from benchmarks.bids import SCHEMA, bids
from benchmarks.timing import cpu_us
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.core.types.data_types import BIGINT, Decimal, Field, Schema, Type, to_polars

ROWS = 56_000  # about 8 MB, as files are read


def main() -> None:
    """Print the figure."""
    block = bids(ROWS)
    iso = pl.Series([block]).cast(pl.String).str.replace_all(r'"ts":\d+', ISO)[0].encode()
    spoilt = _spoilt(block, 100)
    whole = _schema(ts=BIGINT)
    four = Schema(tuple(field for field in whole if field.name not in ("channel", "url")))
    decoded = cpu_us(lambda: JsonDecoder(whole).decode(block, 0), ROWS)
    print(f"decode_json {1 / decoded:.2f} M records/s")
    figures = {
        "six columns (W1)": decoded,
        "by Polars alone": cpu_us(lambda: pl.read_ndjson(block, schema=_types(whole)), ROWS),
        "four columns (W2)": cpu_us(lambda: JsonDecoder(four).decode(block, 0), ROWS),
        "the four by Polars alone": cpu_us(
            lambda: pl.read_ndjson(block, schema=_types(four)), ROWS
        ),
        "six, ts in milliseconds": cpu_us(lambda: JsonDecoder(SCHEMA, "ms").decode(block, 0), ROWS),
        "six, ts as ISO-8601": cpu_us(lambda: JsonDecoder(SCHEMA).decode(iso, 0), ROWS),
        "six, price a decimal": cpu_us(
            lambda: JsonDecoder(_schema(ts=BIGINT, price=Decimal(12, 2))).decode(block, 0), ROWS
        ),
        "six, 1 record in 100 bad": cpu_us(lambda: JsonDecoder(whole).decode(spoilt, 0), ROWS),
    }
    for name, took in figures.items():
        print(f"{took:.3f} us/record  {name}", file=sys.stderr)


ISO = '"ts":"2023-11-14T22:13:19.123Z"'


def _schema(**types: Type) -> Schema:
    """Return the schema of the bids with these types."""
    return Schema(tuple(Field(f.name, types.get(f.name, f.type)) for f in SCHEMA))


def _types(schema: Schema) -> dict[str, pl.DataType]:
    return {field.name: to_polars(field.type) for field in schema}


def _spoilt(block: bytes, every: int) -> bytes:
    """Return the block with text instead of a number in some records."""
    lines = block.splitlines(keepends=True)
    lines[::every] = [line.replace(b'"price":', b'"price":"x","p":') for line in lines[::every]]
    return b"".join(lines)


if __name__ == "__main__":
    main()
