"""From `kill -9` to the first new row, when the same command is run again: median of 5, in seconds.

A row that is printed is the first that can be seen; files are seen when the first checkpoint behind
it is complete, and when that is, the pipeline says. `after_kill 1000` keeps a thousand keys only:
what the others cost is the restore.
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
    """The command, running; what is said of it is in a file."""

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
        """The next row that it prints."""
        assert self.process.stdout is not None
        return int(json.loads(self.process.stdout.readline())["x"])

    def checkpoints(self) -> int:
        """How many are complete."""
        return self.said.read_text().count('"event":"checkpoint"')

    def kill(self) -> None:
        """It is no more."""
        self.process.kill()
        self.process.communicate()


def main(keys: int = KEYS) -> None:
    """Print the figure; on stderr, what a start from nothing takes in the same way."""
    compile_all()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "p.yaml").write_text(PIPELINE.replace("KEYS", str(keys)), "utf-8")
        again, anew = [], []
        for _ in range(TIMES):
            anew.append(_first_row_s(folder, "--home", "other", "--fresh"))
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
    print(f"{median(anew):.2f} s where there is nothing to go on from", file=sys.stderr)
    print(f"of {TIMES}: {', '.join(f'{s:.2f}' for s in sorted(again))}", file=sys.stderr)


def _first_row_s(folder: Path, *arguments: str) -> float:
    start = perf_counter()
    running = Run(folder, *arguments)
    running.row()
    took = perf_counter() - start
    running.kill()
    return took


def _wait(running: Run, keys: int) -> None:
    """Until all keys are kept, and a checkpoint has been taken behind that."""
    for at in count():
        row = running.row()
        if at == 0 or row < keys:
            before = running.checkpoints()
        elif running.checkpoints() > before + 1:
            return


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
