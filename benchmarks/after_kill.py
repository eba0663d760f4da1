"""Time from `kill -9` to the first new row after a restart: median of 5, in seconds.

The first visible row is a printed one; files become visible at the first checkpoint after it, which
depends on the interval in the pipeline. `after_kill 1000` stores only a thousand keys: the
difference is the cost of restoring the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.timing import compile_all

KEYS = 1_000_000
TIMES = 5
PIPELINE = """\
name: killed
settings: {checkpoint: {every: 1s}}
sources: {numbers: {generate: {rate: 200000/s, columns: {x: id}}}}
steps:
  some: {from: numbers, where: x % 1000 = 0}
  totals: {from: numbers, key: {k: x % KEYS}, aggregate: {n: count(*)}, having: n > 1000000}
sinks:
  screen: {from: some, stdout: {}, format: json}
  out: {from: totals, files: {path: out, mode: overwrite}}
"""


class Run:
    """The running command; its log is in a file."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.said = folder / "said"
        command = [sys.executable, "-m", "headrace.cli", "run", "p.yaml", "--log", "json"]
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=self.said.open("w"),
            text=True,
        )

    def row(self) -> int:
        """Return the next printed row."""
        assert self.process.stdout is not None
        return int(json.loads(self.process.stdout.readline())["x"])

    def checkpoints(self) -> int:
        """Return the number of complete checkpoints."""
        return self.said.read_text().count('"event":"checkpoint"')

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        self.process.communicate()


def main(keys: int = KEYS) -> None:
    """Print the figure; on stderr, the time of a start from scratch."""
    compile_all()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "p.yaml").write_text(PIPELINE.replace("KEYS", str(keys)), "utf-8")
        again, fresh = [], []
        for _ in range(TIMES):
            fresh.append(_first_row_s(folder, "--home", "other", "--fresh"))
        running = Run(folder)
        for _ in range(TIMES):
            _wait(running, keys)
            start = perf_counter()
            running.kill()
            running = Run(folder)
            running.row()
            again.append(perf_counter() - start)
        running.kill()
    print(f"after_kill {median(again):.2f} s")
    print(f"{median(fresh):.2f} s for a start from scratch", file=sys.stderr)
    print(f"of {TIMES}: {', '.join(f'{s:.2f}' for s in sorted(again))}", file=sys.stderr)


def _first_row_s(folder: Path, *arguments: str) -> float:
    start = perf_counter()
    running = Run(folder, *arguments)
    running.row()
    took = perf_counter() - start
    running.kill()
    return took


def _wait(running: Run, keys: int) -> None:
    """Wait until all keys are stored and a checkpoint was taken after that."""
    for at in count():
        row = running.row()
        if at == 0 or row < keys:
            before = running.checkpoints()
        elif running.checkpoints() > before + 1:
            return


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
