"""`headrace query` over a file of JSON lines against DuckDB, both as processes with their start.

The file has 1 M bids. The figures are the wall-clock and CPU seconds of each query, the least of
the rounds, which run one after the other; the ratios are to DuckDB's.
`python -m benchmarks.shell_query [ROUNDS]`
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks.bids import bids
from benchmarks.timing import Took, compile_all

QUERIES = {
    "groups": "select channel, count(*) as n, sum(price) as total from 'bids.jsonl' "
    "group by channel",
    "top": "select auction, max(price) as highest, count(*) as n from 'bids.jsonl' "
    "where price > 1000 group by auction order by n desc limit 10",
    "start": "select channel, count(*) as n from 'few.jsonl' group by channel",
}
DUCKDB = "import duckdb, sys; duckdb.sql(sys.argv[1]).show()"


def main(rounds: str = "5") -> None:
    """Print a line for each query."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bids.jsonl").write_bytes(bids(1_000_000))
        Path(folder, "few.jsonl").write_bytes(bids(1000))
        for name, query in QUERIES.items():
            commands = {
                "headrace": [sys.executable, "-m", "headrace.cli", "query", query],
                "duckdb": [sys.executable, "-c", DUCKDB, query],
            }
            taken: dict[str, list[Took]] = {each: [] for each in commands}
            for _ in range(int(rounds)):
                for each, command in commands.items():
                    taken[each].append(_run(command, folder))
            least = {
                each: Took(min(t.wall_s for t in took), min(t.cpu_s for t in took))
                for each, took in taken.items()
            }
            ours, theirs = least["headrace"], least["duckdb"]
            wall = f"{ours.wall_s:.2f} s ({ours.wall_s / theirs.wall_s:.2f})"
            print(f"{name} wall {wall}, CPU {ours.cpu_s:.2f} s ({ours.cpu_s / theirs.cpu_s:.2f})")


def _run(command: list[str], folder: str) -> Took:
    """Run a command in the folder; its output goes nowhere."""
    before, began = os.times(), perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    cpu_s = after.children_user + after.children_system
    return Took(perf_counter() - began, cpu_s - before.children_user - before.children_system)


if __name__ == "__main__":
    main(*sys.argv[1:])
