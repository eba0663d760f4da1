"""Time of `headrace run` for ten rows: median of 7 processes, in seconds."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.timing import compile_all

PIPELINE = """\
name: ten
sources: {numbers: {generate: {rows: 10, columns: {x: id, y: id * 2}}}}
steps: {some: {from: numbers, where: x > 2, with: {z: y + 1}}}
sinks: {out: {from: some, files: {path: out, mode: overwrite}}}
"""


def main() -> None:
    """Print the figure; on stderr, its ratio to an empty interpreter."""
    compile_all()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "ten.yaml")
        file.write_text(PIPELINE, "utf-8")
        took = _median_s("-m", "headrace.cli", "run", str(file), "--quiet")
    empty = _median_s("-c", "pass")
    print(f"run_ten_rows {took:.2f} s")
    print(f"x {took / empty:.0f} of an empty Python ({empty * 1000:.0f} ms)", file=sys.stderr)


def _median_s(*arguments: str) -> float:
    times = []
    for _ in range(7):
        start = perf_counter()
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        times.append(perf_counter() - start)
    return median(times)


if __name__ == "__main__":
    main()
