"""An `as_of` join of 1 M rows with versions of 1 M keys: CPU seconds of the whole pipeline.

Both inputs come in event-time order, cut into chunks, and joined rows are emitted as time advances.
DuckDB's ASOF JOIN runs over all rows at once, on one thread, from columns in memory to columns in
memory. On stderr: the ratio to DuckDB, and the same in chunks of 8192 rows. The figure is the least
of the rounds.
`python -m benchmarks.as_of [ROUNDS]`
"""

from __future__ import annotations

import sys
from time import process_time

import numpy as np
import polars as pl

from benchmarks.joined import cut, ran
from benchmarks.windowed import MILLION, TOGETHER, Ran

PIPELINE = """
name: as_of
sources:
  orders:
    memory: {data: orders}
    schema: {item: bigint, pieces: bigint, at: timestamp}
    event_time: at
    watermark: {delay: 0s}
  prices:
    memory: {data: prices}
    schema: {item: bigint, price: double, since: timestamp}
    event_time: since
    watermark: {delay: 0s}
steps:
  priced:
    join: {left: orders, right: prices, on: orders.item = prices.item, as_of: true}
    select: {item: orders.item, pieces: pieces, price: price, at: at}
sinks:
  out: {from: priced, memory: {data: out}}
"""
QUERY = """
select o.item, o.pieces, p.price, o.at
from orders o asof join prices p on o.item = p.item and o.at >= p.since
"""
FEWER = 8192
HOUR_MS = 3_600_000


def inputs() -> dict[str, pl.DataFrame]:
    """Generate orders of random items, and a price for each item, all within an hour."""
    chance = np.random.default_rng(10)
    every = np.arange(MILLION)
    return {
        "orders": _timed("at", chance, item=chance.permuted(every), pieces=every % 10),
        "prices": _timed("since", chance, item=chance.permuted(every), price=every / 7),
    }


def _timed(name: str, chance: np.random.Generator, **columns: np.ndarray) -> pl.DataFrame:
    times = np.sort(chance.integers(0, HOUR_MS, MILLION)) * 1000
    return pl.DataFrame({**columns, name: times}).with_columns(
        pl.col(name).cast(pl.Datetime("us", "UTC"))
    )


def duckdb(rows: dict[str, pl.DataFrame]) -> Ran:
    """Run the same join with a vectorised engine, as a batch."""
    import duckdb

    tables = {name: frame.to_arrow() for name, frame in rows.items()}
    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        for name, table in tables.items():
            connection.register(name, table)
        start = process_time()
        found = connection.sql(QUERY).to_arrow_table()
        return Ran(process_time() - start, found.num_rows)


def main(rounds: str = "5") -> None:
    """Print the figure."""
    rows = inputs()
    chunks = {
        size: {name: cut(frame, size) for name, frame in rows.items()} for size in (TOGETHER, FEWER)
    }
    taken: dict[str, list[Ran]] = {"duckdb": [], str(TOGETHER): [], str(FEWER): []}
    for _ in range(int(rounds)):
        taken["duckdb"].append(duckdb(rows))
        for size, given in chunks.items():
            taken[str(size)].append(ran(PIPELINE, given))
    if len({run.rows for runs in taken.values() for run in runs}) > 1:
        raise SystemExit(f"wanted the same rows, got {taken}")
    least = {name: min(run.cpu_s for run in runs) for name, runs in taken.items()}
    print(f"as_of {least[str(TOGETHER)]:.2f} CPU s per 1 M rows")
    for name, cpu_s in least.items():
        times = cpu_s / least["duckdb"]
        print(f"{cpu_s:.2f} s, {times:.2f} times DuckDB  {name}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
