"""The cost of latency markers every second: CPU of a run relative to one without, least of 5.

The runs are paced by a clock. One marker a second costs less than the noise of a measurement, so
the measured runs have a hundred a second, and a hundredth of their cost is added.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.timing import compile_all, measure

TIMES = 5
MANY = 100
"""The markers a second of the runs that are measured."""
SECONDS = 10
RATE = 2000
PIPELINE = """\
name: marked
settings: {latency_markers: MARKERS, parallelism: 2}
sources: {numbers: {generate: {rate: RATE/s, columns: {x: id}}}}
steps:
  totals: {from: numbers, key: {k: x % 100}, aggregate: {n: count(*)}}
  odd: {from: totals, where: n % 2 = 1}
sinks:
  out: {from: odd, files: {path: out, mode: overwrite}}
"""


def run_s(folder: Path, markers: str) -> float:
    """Return the CPU seconds of a run."""
    path = folder / "p.yaml"
    path.write_text(PIPELINE.replace("MARKERS", markers).replace("RATE", str(RATE)), "utf-8")
    rows = str(RATE * SECONDS)
    command = [sys.executable, "-m", "headrace.cli", "run", str(path), "--limit", rows, "--quiet"]
    return measure(command).cpu_s


def main() -> None:
    """Print the ratio."""
    compile_all()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = [(run_s(folder, "never"), run_s(folder, f"{1000 // MANY}ms")) for _ in range(TIMES)]
    without, with_many = (min(each) for each in zip(*pairs, strict=True))
    print(f"latency_markers {1 + (with_many - without) / MANY / without:.4f}")
    extra_us = (with_many - without) / (MANY * SECONDS) * 1e6
    print(f"{without:.2f} s without, {extra_us:.0f} us a marker of each source", file=sys.stderr)


if __name__ == "__main__":
    main()
