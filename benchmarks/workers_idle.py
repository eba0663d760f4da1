"""The cost of two workers with little to do, and the latency of a lone row across them.

Rows are generated one at a time, and pass five steps with two exchanges. The figures: the median of
the latency from the first step to the last; then, with a row every hour, the CPU of both workers in
percent of a core, and the larger proportional set size (PSS) of the two.
`python -m benchmarks.workers_idle [SECONDS]`
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from benchmarks.kafka_idle import cpu_s
from benchmarks.timing import compile_all
from benchmarks.works import run

PIPELINE = """
name: idle
settings: {{workers: 2, parallelism: 2}}
sources:
  rows: {{generate: {{rate: {rate}, columns: {{key: id * 7919, text: "cast(id as string)"}}}}}}
steps:
  first: {{from: rows, with: {{at: now()}}}}
  once: {{from: first, dedup: {{key: key}}}}
  kept: {{from: once, where: key >= 0}}
  again: {{from: kept, dedup: {{key: text}}}}
  last: {{from: again, select: {{ms: (unix_micros(now()) - unix_micros(at)) / 1000D}}}}
sinks:
  out: {{from: last, files: {{path: out}}}}
"""
WARM_S = 8.0


def main(seconds: str = "20") -> None:
    """Print the figures."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        _run(Path(folder), "50/s", float(seconds))
        rows = pl.concat(pl.read_ndjson(part) for part in Path(folder).glob("out/*.jsonl"))
    late = rows["ms"][rows.height // 4 :]
    print(f"lone row {late.quantile(0.5):.2f} ms, p99 {late.quantile(0.99):.2f} ms")
    with tempfile.TemporaryDirectory() as folder:
        used, pss = _run(Path(folder), "1/h", float(seconds))
    print(f"idle workers {used / float(seconds):.1%} of a core, PSS {pss / 1e6:.0f} MB at most")


def _run(folder: Path, rate: str, seconds: float) -> tuple[float, int]:
    """Return the CPU seconds of the workers while the job runs, and the larger PSS."""
    (folder / "p.yaml").write_text(PIPELINE.format(rate=rate))
    command = [sys.executable, *run(folder, "5s")]
    with subprocess.Popen(command, cwd=Path(__file__).parent.parent) as process:
        time.sleep(WARM_S)
        workers = _list_children(process.pid)
        before = sum(map(cpu_s, workers))
        time.sleep(seconds)
        used, pss = sum(map(cpu_s, workers)) - before, max(map(_measure_pss, workers))
        process.terminate()
    assert len(workers) == 2, workers
    return used, pss


def _list_children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    found = [int(n) for task in tasks for n in (task / "children").read_text().split()]
    return [n for n in found if b"worker" in Path(f"/proc/{n}/cmdline").read_bytes()]


def _measure_pss(process: int) -> int:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main(*sys.argv[1:])
