"""Cost of a record in tumbling windows after many others: 20 M against 1 M records.

The figure is the CPU per record relative to the shorter run, each in a process with a warm-up run.
On stderr: the figures, and the memory peaks, most of it the text of the bids before decoding. All
figures are the least of the rounds.
`python -m benchmarks.windows_flat [ROUNDS] [SHAPE]`, such as `"session: 10s"`.
"""

from __future__ import annotations

import resource
import subprocess
import sys

from benchmarks.windowed import MILLION, TOGETHER, again_and_again, ran, window

FEW, MANY = 1, 20


def main(rounds: str = "3", shape: str = "tumble: 10s", millions: str = "") -> None:
    """Print the figure; with a number of millions, their cost in this process."""
    if millions:
        step, made = window("auction", shape), again_and_again()
        ran(step, made, MILLION // TOGETHER)
        run = ran(step, made, int(millions) * MILLION // TOGETHER)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(run.cpu_s / int(millions), peak_mb)
        return
    taken = {many: [_process(shape, many) for _ in range(int(rounds))] for many in (FEW, MANY)}
    least = {many: min(cpu_s for cpu_s, _ in runs) for many, runs in taken.items()}
    print(f"windows_flat {least[MANY] / least[FEW]:.2f}")
    for many, runs in taken.items():
        peaks = ", ".join(f"{peak:.0f}" for _, peak in runs)
        print(f"{least[many]:.3f} CPU s per 1 M of {many} M, peaks {peaks} MB", file=sys.stderr)


def _process(shape: str, millions: int) -> tuple[float, float]:
    """Return the CPU seconds per million, and the memory peak in megabytes."""
    command = [sys.executable, "-m", "benchmarks.windows_flat", "1", shape, str(millions)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()
    return float(said[0]), float(said[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
