"""Time of `headrace --help`: the median of 15 processes, in milliseconds."""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from time import perf_counter


def main() -> None:
    """Print the figure; on stderr, its ratio to an empty interpreter."""
    took = _median_ms("-m", "headrace.cli", "--help")
    empty = _median_ms("-c", "pass")
    print(f"help_time {took:.0f} ms")
    print(f"x {took / empty:.1f} of an empty Python ({empty:.0f} ms)", file=sys.stderr)


def _median_ms(*arguments: str) -> float:
    times = []
    for _ in range(15):
        start = perf_counter()
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        times.append(perf_counter() - start)
    return median(times) * 1000


if __name__ == "__main__":
    main()
