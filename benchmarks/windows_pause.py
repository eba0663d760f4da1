"""Longest pause of the event loop while windows of 1 M keys fire: milliseconds.

A million keys have one row each a minute, so a window of 60 s emits as many rows as arrive; the
rows come as fast as possible. A watcher on the loop measures how late it is woken. On stderr: the
longest pauses, and those of an idle loop in the same time, which are the machine's share; and the
longest that the loop's own thread computed between two wake-ups of the watcher, which is our share.
`python -m benchmarks.windows_pause [MINUTES] [SHAPE]`
"""

from __future__ import annotations

import asyncio
import sys
from heapq import nlargest
from time import perf_counter, thread_time

import polars as pl

from benchmarks.bids import BASE_MS
from benchmarks.windowed import MILLION, TOGETHER, ran, window
from headrace.core.job.job import Job

EVERY_S = 0.002


def main(minutes: str = "5", shape: str = "tumble: 60s") -> None:
    """Print the figure."""
    late: list[tuple[float, float]] = []

    async def watch(job: Job) -> None:
        await _watch(late)

    start = perf_counter()
    run = ran(window("bidder", shape), _minute_by_minute, int(minutes) * MILLION // TOGETHER, watch)
    took_s = perf_counter() - start
    idle: list[tuple[float, float]] = []
    asyncio.run(_idle(idle, took_s))
    print(f"windows_pause {max(ms for ms, _ in late):.0f} ms")
    for name, pauses in (("windows", late), ("nothing", idle)):
        longest = ", ".join(f"{ms:.0f}" for ms, _ in nlargest(8, pauses))
        own = max(ms for _, ms in pauses)
        print(f"{longest} ms in {took_s:.0f} s, CPU {own:.0f} ms  {name}", file=sys.stderr)
    print(f"{run.rows:,} rows emitted, {run.cpu_s:.1f} s of CPU", file=sys.stderr)


async def _watch(late: list[tuple[float, float]]) -> None:
    """Record the delays of the loop and its own computing, in milliseconds."""
    while True:
        start, before = perf_counter(), thread_time()
        await asyncio.sleep(EVERY_S)
        waited, computed = perf_counter() - start, thread_time() - before
        late.append(((waited - EVERY_S) * 1000, computed * 1000))


async def _idle(late: list[tuple[float, float]], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await _watch(late)
    except TimeoutError:
        pass


def _minute_by_minute(number: int) -> pl.DataFrame:
    """Return a chunk of rows whose bidders recur once a minute."""
    row = pl.int_range(number * TOGETHER, (number + 1) * TOGETHER, dtype=pl.Int64)
    at = pl.lit(BASE_MS * 1000) + row * 60
    return pl.select(
        row.alias("auction"),
        (row % MILLION).alias("bidder"),
        (row % 1000).alias("price"),
        at.cast(pl.Datetime("us", "UTC")).alias("ts"),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
