"""CPU time of `headrace test` for 100 tests of a ten-step pipeline, each with a restart.

It measures them at parallelism 1 and at the defaults, and a single test as a process, as a ratio
to `headrace run` of ten rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
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
      sql: {url: "postgresql://nowhere/shop", table: customers}
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
  totals_out: {from: totals, files: {path: totals}}
  large_out: {from: large, files: {path: large}}
  counts_out: {from: counts, files: {path: counts}, format: json}
  best_out: {from: best, files: {path: best}, format: json}
  both_out: {from: both, files: {path: both}}
  rest_out: {from: split.else, files: {path: rest}}
  late_out: {from: late, files: {path: late}}
  broken_out: {from: broken, files: {path: broken}}
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
        pairs = list(_run_pairs(folder))
    one, ten = median(one for one, _ in pairs), median(ten for _, ten in pairs)
    print(f"one test {one:.2f} s, x {one / ten:.2f} of a run of ten rows", file=sys.stderr)


def write_pipeline(folder: Path, count: int) -> None:
    """Write the pipeline with that number of tests."""
    tests = "".join(TEST.format(number=number) for number in range(1, count + 1))
    (folder / "shop.yaml").write_text(f"{PIPELINE}tests:\n{tests}", "utf-8")


def _run_pairs(folder: str) -> Iterator[tuple[float, float]]:
    """Yield the CPU times of a single test, and of a run of ten rows, in turn."""
    for _ in range(7):
        one = _run(folder, "test", "shop.yaml")
        ten = _run(folder, "run", "ten.yaml", "--quiet")
        yield one.cpu_s, ten.cpu_s


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
