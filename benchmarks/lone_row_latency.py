"""Latency of a single row through five steps: median of 300, in milliseconds.

On stderr: with an exchange between every two steps, and the same five steps as bare Polars calls
after an equally long pause.
"""

from __future__ import annotations

import sys
from time import perf_counter, sleep

import polars as pl

from benchmarks.arriving import Arriving, bids, latencies

ROWS = 300
EVERY_S = 0.02


def main() -> None:
    """Print the figure."""
    found = {
        "chained": _latencies_ms(1, 1),
        "with exchanges": _latencies_ms(1, 2),
        "Polars alone": _bare_ms(),
    }
    print(f"lone_row_latency {found['chained'].quantile(0.5):.2f} ms")
    for name, series in found.items():
        half, most = series.quantile(0.5), series.quantile(0.99)
        print(f"{half:.2f} ms, p99 {most:.2f} ms  {name}", file=sys.stderr)


def _latencies_ms(parallelism: int, other: int) -> pl.Series:
    arriving = Arriving([bids(1, number) for number in range(ROWS)], EVERY_S, alone=True)
    return latencies(arriving, parallelism, other)["ms"]


def _bare_ms() -> pl.Series:
    row, took = bids(1, 0), []
    euros = (pl.col("price") * 0.908).alias("euros")
    channel = pl.col("channel").str.to_uppercase()
    for _ in range(ROWS):
        sleep(EVERY_S)
        start = perf_counter()
        told = row.filter(pl.col("price") > 10).with_columns(euros).with_columns(channel)
        told.with_columns(tag="tags").explode("tag").filter(pl.col("euros") <= 500)
        took.append((perf_counter() - start) * 1000)
    return pl.Series(took)


if __name__ == "__main__":
    main()
