"""Memory of W4's windows, relative to the size of the live keys as columns; the goal is 2.

Windows of 60 s by bidder, with 1 M bidders, at W4's pace. The figure is the peak of a process above
that of another process with the same rows of 1,000 bidders, divided by the size of a window's keys
and states as columns of 8 bytes: key, end, count, sum, max. On stderr: the peaks, and the median
memory of the processes; and the same at ten times that pace, at which nearly all bidders bid in
each window.
`python -m benchmarks.windows_memory [WINDOWS]`
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import polars as pl

from benchmarks.bids import BASE_MS
from benchmarks.windowed import MILLION, TOGETHER, ran, window
from headrace.core.job.job import Job

FEW_KEYS = 1000
PACES = {"as in W4": 600_000, "ten times the pace": 6 * MILLION}
"""Rows a minute."""
COLUMNS_BYTES = 5 * 8
EVERY_S = 0.01


def main(windows: str = "5", keys: str = "", a_minute: str = "") -> None:
    """Print the figure; with keys and rows a minute, the megabytes of this process."""
    if keys:
        _run(int(keys), int(windows) * int(a_minute) // TOGETHER, int(a_minute))
        return
    for name, pace in PACES.items():
        few, many = (_process(windows, count, pace) for count in (FEW_KEYS, MILLION))
        live = _live(MILLION, pace) * COLUMNS_BYTES / 2**20
        peak, half = ((many[at] - few[at]) / live for at in (0, 1))
        if name == next(iter(PACES)):
            print(f"windows_memory {peak:.1f}")
        print(
            f"peak {many[0]:.0f} MB, {few[0]:.0f} MB with few keys; live keys {live:.0f} MB, so"
            f" {peak:.1f} times; median {many[1]:.0f}, {few[1]:.0f}: {half:.1f}  {name}",
            file=sys.stderr,
        )


def rows(keys: int, a_minute: int) -> Callable[[int], pl.DataFrame]:
    """Return a source of chunks of bids by that many bidders, at that pace."""

    def made(number: int) -> pl.DataFrame:
        row = pl.int_range(number * TOGETHER, (number + 1) * TOGETHER, dtype=pl.Int64)
        at = pl.lit(BASE_MS * 1000) + row * 60_000_000 // a_minute
        return pl.select(
            row.alias("auction"),
            (row.hash() % keys).cast(pl.Int64).alias("bidder"),
            (row % 1000).alias("price"),
            at.cast(pl.Datetime("us", "UTC")).alias("ts"),
        )

    return made


def _live(keys: int, a_minute: int) -> int:
    """Count the bidders of a window."""
    made = rows(keys, a_minute)
    chunks = (made(number)["bidder"] for number in range(a_minute // TOGETHER))
    return pl.concat(chunks).n_unique()


def _process(windows: str, keys: int, a_minute: int) -> tuple[float, float]:
    """Return the megabytes of a process: peak and median."""
    module = "benchmarks.windows_memory"
    command = [sys.executable, "-m", module, windows, str(keys), str(a_minute)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()
    return float(said[0]), float(said[1])


def _run(keys: int, chunks: int, a_minute: int) -> None:
    seen: list[float] = []

    async def watch(job: Job) -> None:
        while True:
            seen.append(_status_mb("VmRSS"))
            await asyncio.sleep(EVERY_S)

    ran(window("bidder", "tumble: 60s"), rows(keys, a_minute), chunks, watch)
    # `ru_maxrss` would be the parent's if that was larger at the fork.
    print(_status_mb("VmHWM"), median(seen))


def _status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
