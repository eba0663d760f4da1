"""CPU time of `headrace test` for 100 tests of a ten-step pipeline, each with a restart.

It measures them at parallelism 1 and at the defaults, and a single test as a process, as a ratio
to `headrace run` over ten rows: of the same pipeline, and of one that has a single step.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.run_ten_rows import PIPELINE as TEN_ROWS
from benchmarks.timing import Took, compile_all

ROUNDS = 3
TESTS = 100
PIPELINE = """\
name: shop
sources:
  orders:
    files: {path: "in/*.jsonl"}
    schema: {ts: timestamp, user: string, item: string, amount: int, cur: string}
    event_time: ts
    watermark: {delay: 10s}
    on_error: {to: broken}
  rates:
    files: {path: "rates/*.jsonl"}
    schema: {ts: timestamp, cur: string, rate: double}
    event_time: ts
steps:
  clean: {from: orders, where: amount > 0, with: {user: upper(trim(user))}}
  named:
    from: clean
    lookup:
      sql: {url: "sqlite:///shop.db", table: customers}
      on: {id: user}
      add: {tier: string}
  once: {from: named, dedup: {key: [user, item], ttl: 1h}}
  split: {from: once, route: {gold: tier = 'gold'}}
  totals:
    from: once
    key: user
    window: {tumble: 1m, late_to: late}
    aggregate: {total: sum(amount), n: count(*)}
  large: {from: totals, where: total > 10}
  counts: {from: split.gold, key: user, aggregate: {n: count(*)}}
  best: {from: totals, key: window_start, top: {n: 2, by: total desc}}
  converted:
    join: {left: once, right: rates, on: once.cur = rates.cur, within: [-10m, 10m]}
    select: {user: once.user, amount: amount * rate}
  both: {from: converted, where: amount > 0}
sinks:
  totals_out: {from: totals, files: {path: out/totals, mode: overwrite}}
  large_out: {from: large, files: {path: out/large, mode: overwrite}}
  counts_out: {from: counts, files: {path: out/counts, mode: overwrite}, format: json}
  best_out: {from: best, files: {path: out/best, mode: overwrite}, format: json}
  both_out: {from: both, files: {path: out/both, mode: overwrite}}
  rest_out: {from: split.else, files: {path: out/rest, mode: overwrite}}
  late_out: {from: late, files: {path: out/late, mode: overwrite}}
  broken_out: {from: broken, files: {path: out/broken, mode: overwrite}}
"""
TEST = """\
  - name: test {number}
    date: 2026-01-31
    tables: {{named: [{{id: A, tier: gold}}, {{id: B, tier: blue}}]}}
    given:
      - rates: [{{ts: "10:00", cur: EUR, rate: 1.5}}]
      - orders:
          - {{ts: "10:00:05", user: a, item: x, amount: {number}, cur: EUR}}
          - {{ts: "10:00:06", user: " b", item: y, amount: 7, cur: EUR}}
      - watermark: {{orders: "10:01:30"}}
      - checkpoint
      - restart
      - orders: [{{ts: "10:00:07", user: a, item: z, amount: 9, cur: EUR}}]
    expect:
      totals: {{contains: [{{user: A, total: {number}}}], match: subset}}
      late: {{count: 1}}
      counts: [{{user: A, n: 2}}]
"""


def main() -> None:
    """Print the figures; on stderr, that of the single test."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        write_pipeline(Path(folder), TESTS)
        for name, options in (("parallelism_1", ("--parallelism", "1")), ("defaults", ())):
            took = min((_run(folder, "test", *options) for _ in range(ROUNDS)), key=_get_cpu)
            print(f"pipeline_tests {name} {took.cpu_s:.1f} s of CPU, {took.wall_s:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        write_pipeline(Path(folder), 1)
        Path(folder, "ten.yaml").write_text(TEN_ROWS, "utf-8")
        write_ten_rows(Path(folder))
        times = zip(*_run_in_turn(folder), strict=True)
        one, same, ten = (median(each) for each in times)
    print(
        f"one test {one:.2f} s, x {one / same:.2f} of a run of its pipeline over ten rows, "
        f"x {one / ten:.2f} of one with a single step",
        file=sys.stderr,
    )


def write_pipeline(folder: Path, count: int) -> None:
    """Write the pipeline with that number of tests."""
    tests = "".join(TEST.format(number=number) for number in range(1, count + 1))
    (folder / "shop.yaml").write_text(f"{PIPELINE}tests:\n{tests}", "utf-8")


def write_ten_rows(folder: Path) -> None:
    """Write what the pipeline reads: ten orders, a rate, and the table of customers."""
    day = "2026-01-31T10:00"
    orders = [
        {"ts": f"{day}:{n:02}Z", "user": "ab"[n % 2], "item": "xyz"[n % 3], "amount": n}
        for n in range(1, 11)
    ]
    rates = [{"ts": f"{day}:00Z", "cur": "EUR", "rate": 1.5}]
    for name, rows in (("in", [{**each, "cur": "EUR"} for each in orders]), ("rates", rates)):
        (folder / name).mkdir()
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / name / "rows.jsonl").write_text(text, "utf-8")
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("create table customers (id text, tier text)")
        database.execute("insert into customers values ('A', 'gold'), ('B', 'blue')")


def _run_in_turn(folder: str) -> Iterator[tuple[float, ...]]:
    """Yield the CPU times of a single test, and of the runs that it is compared with."""
    commands = (
        ["test", "shop.yaml"],
        ["run", "shop.yaml", "--quiet"],
        ["run", "ten.yaml", "--quiet"],
    )
    for _ in range(7):
        yield tuple(_run(folder, *each).cpu_s for each in commands)


def _get_cpu(took: Took) -> float:
    return took.cpu_s


def _run(folder: str, *arguments: str) -> Took:
    """Run a command to its end on one core."""
    start, before = perf_counter(), os.times()
    command = [sys.executable, "-m", "headrace.cli", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
    _, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors.decode())
    after = os.times()
    user_s = after.children_user - before.children_user
    system_s = after.children_system - before.children_system
    return Took(perf_counter() - start, user_s + system_s)


if __name__ == "__main__":
    main()
