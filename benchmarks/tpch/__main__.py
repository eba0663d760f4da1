"""The queries of TPC-H over tables that change, from files of JSON lines.

Each query runs over the logs of changes of its tables, on one core; the result after all changes
has to be that of DuckDB over the final tables. A line for each query: thousands of changes a second
of CPU, without the start, the CPU seconds, and the rows of the result.
With `--state` the bytes of the state follow, all and for each row that the tables have in the end.
With `--kill` a query runs with checkpoints, is killed twice, and resumes at parallelism 3 and 1.
`python -m benchmarks.tpch [--kill | --state] [SCALE] [QUERY...]`
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from time import sleep

import polars as pl

from benchmarks.timing import compile_all, measure
from benchmarks.tpch.pipelines import (
    QUERIES,
    Row,
    compute_rows,
    list_tables,
    round_numbers,
    write_pipeline,
)
from benchmarks.tpch.state_size import measure_state
from benchmarks.tpch.tables import find_rows, generate, make_log, write_log

SEED = 7


def main(*arguments: str) -> None:
    """Print a line for each query."""
    compile_all()
    names = [each for each in arguments if not each.startswith("--")]
    scale = float(names.pop(0)) if names and names[0] not in QUERIES else 0.1
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        logs = {n: make_log(n, rows, SEED) for n, rows in generate(root, scale).items()}
        (root / "empty").mkdir()
        for name, log in logs.items():
            write_log(log, root / f"{name}.jsonl")
            (root / "empty" / f"{name}.jsonl").touch()
        tables = {name: find_rows(name, log) for name, log in logs.items()}
        for query in names or QUERIES:
            for place in (root, root / "empty"):
                (place / f"{query}.yaml").write_text(write_pipeline(query, [query]))
            if "--kill" in arguments:
                print(query, "killed", *_run_killed(root, query), end=" ")
            else:
                print(query, *_measure(root, query, logs), end=" ", flush=True)
            if "--state" in arguments:
                changes = sum(logs[name].height for name in list_tables(query))
                size = measure_state(root, query, changes)
                rows = sum(tables[name].height for name in list_tables(query))
                print(f"{size / 1e6:.1f} MB, {size / rows:.0f} bytes/row", end=" ")
            print(_compare(root, query, tables), flush=True)


def _measure(root: Path, query: str, logs: Mapping[str, pl.DataFrame]) -> list[str]:
    """Run the query on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    start = min(measure(_command(root / "empty", query)).cpu_s for _ in range(2))
    took = measure(_command(root, query)).cpu_s - start
    changes = sum(logs[name].height for name in list_tables(query))
    return [f"{changes / took / 1000:.0f} k/s", f"{took:.1f} s"]


def _command(root: Path, query: str, *options: str) -> list[str]:
    pipeline, home = str(root / f"{query}.yaml"), str(root / "home")
    command = [sys.executable, "-m", "headrace.cli", "run", pipeline, "--quiet", "--home", home]
    if options:
        return [*command, *options]
    return [*command, "--fresh", "--set", "settings.checkpoint.every=never"]


def _run_killed(root: Path, query: str) -> list[str]:
    """Run the query to its end, killing it after a checkpoint at parallelism 2 and at 3."""
    shutil.rmtree(root / "home" / query, ignore_errors=True)
    checkpoints = root / "home" / query / "checkpoints"
    killed = []
    for parallelism in ("2", "3"):
        before = {*checkpoints.rglob("manifests/*.json")}
        options = ["--parallelism", parallelism, "--set", "settings.checkpoint.every=1s"]
        running = subprocess.Popen(_command(root, query, *options))
        while running.poll() is None and not {*checkpoints.rglob("manifests/*.json")} - before:
            sleep(0.05)
        killed.append("at the end" if running.poll() is not None else f"at {parallelism}")
        running.kill()
        running.wait()
    measure(_command(root, query, "--parallelism", "1"))
    return killed


def _compare(root: Path, query: str, tables: Mapping[str, pl.DataFrame]) -> str:
    """Return how many rows the result has, and whether they are those of DuckDB."""
    wanted = compute_rows(tables, query)
    types = [[*map(type, row)] for row in wanted][:1]
    found: Counter[Row] = Counter()
    for part in (root / "out" / query).rglob("*.*"):
        for line in part.read_text().splitlines():
            values = json.loads(line, parse_float=Decimal)
            change = values.pop("_change")
            del values["_sequence"]
            row = round_numbers(map(_read, values.values(), types[0] if types else ()))
            found[row] += -1 if change in ("delete", "update_before") else 1
    assert min(found.values(), default=0) >= 0, "more rows are removed than added"
    if +found == wanted:
        return f"{wanted.total()} rows"
    return f"WRONG: {[*(+found - wanted)][:2]} in place of {[*(wanted - found)][:2]}"


def _read(value: object, type: type) -> object:
    """Return a value of JSON as one of DuckDB's type."""
    if value is None or type not in (date, Decimal, float):
        return value
    return date.fromisoformat(str(value)) if type is date else Decimal(str(value))


if __name__ == "__main__":
    main(*sys.argv[1:])
