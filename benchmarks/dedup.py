"""CPU of dedup over 5 M rows with 1 M keys, relative to DuckDB's for the same rows.

The rows are generated in memory beforehand; DuckDB reads them as Arrow, on one thread, as a batch.
The figure is that of `dedup: {key: ...}`, which passes the first row of a key to arrive. On stderr:
the same by event time, for which DuckDB sorts; and a step that only passes rows on, which is the
part of the figure that is not dedup. All figures are the least of the rounds.
`python -m benchmarks.dedup [ROUNDS] [MILLIONS]`
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from time import process_time

import polars as pl

from benchmarks.windowed import MILLION, TOGETHER, ran

KEYS = 1_000_000
BEGIN = datetime(2026, 1, 31, 8, tzinfo=UTC)
STEPS = {
    "by arrival": "dedup: {key: bidder}",
    "by event time": "dedup: {key: bidder, order: event_time}",
    "no dedup": "where: price > 0",
}
QUERIES = {
    "by arrival": "select distinct on (bidder) * from bids",
    "by event time": "select distinct on (bidder) * from bids order by bidder, ts",
}


def bids(millions: int) -> pl.DataFrame:
    """Generate a thousand bids a second, by a million bidders in random order."""
    at = pl.int_range(millions * MILLION, dtype=pl.Int64, eager=True)
    ts = pl.lit(BEGIN).dt.cast_time_unit("us") + pl.duration(milliseconds=pl.col("at"))
    return pl.DataFrame({"at": at}).select(
        auction=pl.col("at") % 9973,
        bidder=(pl.col("at").hash(7) % KEYS).cast(pl.Int64),
        price=pl.col("at") % 1000 + 1,
        ts=ts,
    )


def main(rounds: str = "3", millions: str = "5") -> None:
    """Print the figure."""
    rows = bids(int(millions))
    chunks = [rows.slice(at, TOGETHER) for at in range(0, rows.height, TOGETHER)]
    ran(STEPS["no dedup"], chunks.__getitem__, 1)  # the first run imports modules
    keys = rows["bidder"].n_unique()
    ours: dict[str, list[float]] = {name: [] for name in STEPS}
    theirs: dict[str, list[float]] = {name: [] for name in QUERIES}
    for _ in range(int(rounds)):
        for name, step in STEPS.items():
            run = ran(step, chunks.__getitem__, len(chunks))
            assert run.rows == (keys if name in QUERIES else rows.height)
            ours[name].append(run.cpu_s)
        for name, query in QUERIES.items():
            theirs[name].append(cpu_s(partial(duckdb, query, rows)))
    times = {name: min(ours[name]) / min(theirs[name]) for name in QUERIES}
    print(f"dedup {times['by arrival']:.2f} times DuckDB")
    for name, took in ours.items():
        beside = f", {times[name]:.2f} times DuckDB" if name in times else ""
        line = f"{min(took) / int(millions):.3f} CPU s per 1 M rows{beside}  {name}"
        print(line, file=sys.stderr)


def duckdb(query: str, bids: pl.DataFrame) -> None:
    """Run the query with a vectorised engine, as a batch, on one thread."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        connection.register("bids", bids.to_arrow())
        connection.execute(f"create table found as {query}")


def cpu_s(work: Callable[[], None]) -> float:
    """Return the CPU seconds of the work, all threads together."""
    start = process_time()
    work()
    return process_time() - start


if __name__ == "__main__":
    main(*sys.argv[1:])
