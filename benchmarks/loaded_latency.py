"""Latency of rows through five steps at 200,000 rows/s: p99 of a second, in milliseconds.

Two hundred rows arrive every millisecond, whether the previous ones are through or not. The figure
is the median of ten seconds, because the machine has other work too. On stderr: the p99 of all
seconds, with an exchange between every two steps, and of a loop that is only busy for half a
millisecond with all rows that have arrived, which is the machine's share of the tail.
"""

from __future__ import annotations

import asyncio
import sys

import polars as pl

from benchmarks.arriving import Arriving, bids, latencies

TOGETHER = 200
EVERY_S = 0.001
BUSY_S = 0.0005


def main(seconds: str = "10") -> None:
    """Print the figure."""
    arrivals = round(int(seconds) / EVERY_S)
    found = {
        "chained": _latencies(arrivals, 1, 1),
        "with exchanges": _latencies(arrivals, 1, 2),
        "a busy loop": asyncio.run(_busy(arrivals)),
    }
    print(f"loaded_latency {_p99_of_a_second(found['chained']):.1f} ms")
    for name, rows in found.items():
        half, most = rows["ms"].quantile(0.5), rows["ms"].quantile(0.99)
        second = _p99_of_a_second(rows)
        print(f"{half:.1f} ms, p99 {second:.1f} ms, of all {most:.1f} ms  {name}", file=sys.stderr)


def _latencies(arrivals: int, parallelism: int, other: int) -> pl.DataFrame:
    frames = [bids(TOGETHER, number) for number in range(arrivals)]
    return latencies(Arriving(frames, EVERY_S, alone=False), parallelism, other)


def _p99_of_a_second(rows: pl.DataFrame) -> float:
    second = (pl.col("arrival") * EVERY_S).floor()
    return rows.group_by(second).agg(pl.col("ms").quantile(0.99))["ms"].quantile(0.5) or 0.0


async def _busy(arrivals: int) -> pl.DataFrame:
    loop, late = asyncio.get_running_loop(), list[float]()
    start = loop.time()
    while len(late) < arrivals:
        await asyncio.sleep(start + len(late) * EVERY_S - loop.time())
        waiting = range(len(late), int((loop.time() - start) / EVERY_S) + 1)
        until = loop.time() + BUSY_S
        while (now := loop.time()) < until:
            pass
        late += [(now - start - number * EVERY_S) * 1000 for number in waiting]
    return pl.DataFrame({"arrival": range(len(late)), "ms": late})


if __name__ == "__main__":
    main(*sys.argv[1:])
