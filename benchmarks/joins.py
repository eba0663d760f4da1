"""An interval join of two inputs of 1 M rows: CPU seconds of the whole pipeline, both inputs.

There are orders of 100 k items within 1000 s, and payments. Rows of one item that are at most 10 s
apart match, which is one pair for every fifth row. Both inputs come in event-time order, cut into
chunks, and a pair is emitted when its second row arrives. DuckDB joins all rows at once, on one
thread, from columns in memory to columns in memory. The figure is the least of the rounds. On
stderr: the ratio to DuckDB for chunks of 50 k and of 8192 rows, for an outer join, and for ten
times as many rows per item.
`python -m benchmarks.joins [ROUNDS] [CASE]`
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import process_time

import numpy as np
import polars as pl

from benchmarks.joined import cut, ran
from benchmarks.windowed import MILLION, TOGETHER, Ran

PIPELINE = """
name: joins
sources:
  orders:
    memory: {{data: orders}}
    schema: {{item: bigint, pieces: bigint, at: timestamp}}
    event_time: at
    watermark: {{delay: 0s}}
  payments:
    memory: {{data: payments}}
    schema: {{of: bigint, price: double, paid: timestamp}}
    event_time: paid
    watermark: {{delay: 0s}}
steps:
  joined:
    join: {{left: orders, right: payments, on: item = of, type: {type}, within: [-10s, 10s]}}
    select: {{item: item, pieces: pieces, price: price, at: at, paid: paid}}
sinks:
  out: {{from: joined, memory: {{data: out}}}}
"""
QUERY = """
select o.item, o.pieces, p.price, o.at, p.paid
from orders o {type} join payments p
on o.item = p.of and p.paid >= o.at - interval 10 second and p.paid <= o.at + interval 10 second
"""
FEWER = 8192
SPAN_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """A case: the number of items, the rows of a chunk, and the type of the join."""

    items: int = 100_000
    rows: int = TOGETHER
    type: str = "inner"


CASES = {
    "inner": Case(),
    "fewer": Case(rows=FEWER),
    "left": Case(type="left"),
    "items": Case(items=10_000),
}


def inputs(items: int) -> dict[str, pl.DataFrame]:
    """Generate orders and payments of random items."""
    chance = np.random.default_rng(10)
    every = np.arange(MILLION)
    return {
        "orders": _timed("at", chance, item=chance.integers(0, items, MILLION), pieces=every % 10),
        "payments": _timed("paid", chance, of=chance.integers(0, items, MILLION), price=every / 7),
    }


def _timed(name: str, chance: np.random.Generator, **columns: np.ndarray) -> pl.DataFrame:
    times = np.sort(chance.integers(0, SPAN_MS, MILLION)) * 1000
    return pl.DataFrame({**columns, name: times}).with_columns(
        pl.col(name).cast(pl.Datetime("us", "UTC"))
    )


def duckdb(rows: dict[str, pl.DataFrame], type: str) -> Ran:
    """Run the same join with a vectorised engine, as a batch."""
    import duckdb

    tables = {name: frame.to_arrow() for name, frame in rows.items()}
    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        for name, table in tables.items():
            connection.register(name, table)
        start = process_time()
        found = connection.sql(QUERY.format(type=type)).to_arrow_table()
        return Ran(process_time() - start, found.num_rows)


def compared(case: Case, rounds: int) -> tuple[float, float]:
    """Return the least CPU seconds of our join and of DuckDB's."""
    rows = inputs(case.items)
    chunks = {name: cut(frame, case.rows) for name, frame in rows.items()}
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(duckdb(rows, case.type))
        ours.append(ran(PIPELINE.format(type=case.type), chunks))
    if len({run.rows for run in (*ours, *theirs)}) > 1:
        raise SystemExit(f"wanted the same rows, got {ours} and {theirs}")
    return min(run.cpu_s for run in ours), min(run.cpu_s for run in theirs)


def main(rounds: str = "3", *cases: str) -> None:
    """Print the figure."""
    for name in cases or CASES:
        ours, theirs = compared(CASES[name], int(rounds))
        if name == "inner":
            print(f"joins {ours:.2f} CPU s for two inputs of 1 M rows")
        print(f"{name}: {ours:.2f} s, {ours / theirs:.1f} times DuckDB", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
