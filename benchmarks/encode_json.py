"""Speed of encoding frames as JSON lines: million rows per CPU second, bids with all columns.

On stderr: the same for the output of W2 (four columns, one of them a double), for doubles that are
not finite, which take a slower path, for Polars' bare writer, and for small batches.
"""

from __future__ import annotations

import sys
from functools import partial
from io import BytesIO

import polars as pl

from benchmarks.bids import SCHEMA, bids
from benchmarks.timing import cpu_us
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.core.types.data_types import BIGINT, DOUBLE, TIMESTAMP, Field, Schema

ROWS = 28_000

FOUR = Schema(
    (
        Field("auction", BIGINT),
        Field("bidder", BIGINT),
        Field("price_eur", DOUBLE),
        Field("ts", TIMESTAMP),
    )
)
AS_NUMBER = Schema((*FOUR.fields[:3], Field("ts", BIGINT)))


def main() -> None:
    """Print the figure."""
    frame, _ = JsonDecoder(SCHEMA, "ms").decode(bids(ROWS), 0)
    four = frame.select("auction", "bidder", price_eur=pl.col("price") * 0.908, ts="ts")
    number = four.with_columns(pl.col("ts").dt.epoch("ms"))
    odd = four.with_columns(pl.col("price_eur").replace(four["price_eur"][0], float("nan")))
    whole = cpu_us(lambda: JsonEncoder(SCHEMA).encode(frame), ROWS)
    print(f"encode_json {1 / whole:.2f} M records/s")
    figures = {
        "all columns": whole,
        "four columns": cpu_us(lambda: JsonEncoder(FOUR).encode(four), ROWS),
        "four columns, one NaN": cpu_us(lambda: JsonEncoder(FOUR).encode(odd), ROWS),
        "four columns, ts as bigint": cpu_us(lambda: JsonEncoder(AS_NUMBER).encode(number), ROWS),
        "the same by Polars alone": cpu_us(lambda: number.write_ndjson(BytesIO()), ROWS),
    }
    for rows in (1, 100, 900):
        encode = partial(JsonEncoder(AS_NUMBER).encode, number.head(rows))
        figures[f"the same, {rows} at a time"] = cpu_us(encode, rows)
    for name, took in figures.items():
        print(f"{took:.3f} us/record  {name}", file=sys.stderr)


if __name__ == "__main__":
    main()
