"""How fast JSON lines become frames: million records a CPU second, bids with all their columns.

On stderr, the same for other columns and other data, and what Polars' bare reader takes: the
difference is what counting, checking and converting cost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time

import polars as pl

from benchmarks.bids import SCHEMA, bids
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.core.types import BIGINT, STRING, Field, Schema, to_polars

ROWS = 28_000  # about 4 MB, as files are read
ROUNDS = 12


def main() -> None:
    """Print the figure."""
    block = bids(ROWS)
    four = Schema(tuple(field for field in SCHEMA if field.name not in ("channel", "url")))
    as_number = _plain(SCHEMA)
    decoded = _us(lambda: JsonDecoder(SCHEMA, "ms").decode(block, 0))
    print(f"decode_json {1 / decoded:.2f} M records/s")
    bare = {field.name: to_polars(field.type) for field in as_number}
    others = {
        "Polars alone": _us(lambda: pl.read_ndjson(block, schema=bare)),
        "ts as bigint": _us(lambda: JsonDecoder(as_number).decode(block, 0)),
        "ts as timestamp": decoded,
        "four columns": _us(lambda: JsonDecoder(four, "ms").decode(block, 0)),
        "1 in 100 bad": _us(lambda: JsonDecoder(SCHEMA, "ms").decode(_spoilt(block, 100), 0)),
    }
    for name, took in others.items():
        print(f"{took:.3f} us/record  {name}", file=sys.stderr)


def _us(work: Callable[[], object]) -> float:
    """Microseconds of CPU a record: of several rounds the fastest."""
    work()
    took = []
    for _ in range(ROUNDS):
        start = process_time()
        work()
        took.append(process_time() - start)
    return min(took) / ROWS * 1e6


def _plain(schema: Schema) -> Schema:
    """The same, with instants as the numbers they are written as."""
    kept = (STRING, BIGINT)
    return Schema(tuple(Field(f.name, f.type if f.type in kept else BIGINT) for f in schema))


def _spoilt(block: bytes, every: int) -> bytes:
    """The block with a text for a number in some records."""
    lines = block.splitlines(keepends=True)
    lines[::every] = [line.replace(b'"price":', b'"price":"x","p":') for line in lines[::every]]
    return b"".join(lines)


if __name__ == "__main__":
    main()
