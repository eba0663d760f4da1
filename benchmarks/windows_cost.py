"""Cost of windows by kind, over W3's keys: CPU seconds per 1 M records, without decoding.

The figure is for sliding windows of 60 s every 1 s. On stderr: the same for tumbling windows of
10 s and sessions of 10 s, per record and per emitted row, and for a step without windows, which
only passes rows on. The rows are decoded once, beforehand, and the sink drops its rows. All figures
are the least of the rounds.
`python -m benchmarks.windows_cost [ROUNDS] [MILLIONS]`
"""

from __future__ import annotations

import sys

from benchmarks.windowed import MILLION, TOGETHER, Ran, again_and_again, ran, window

STEPS = {
    "tumbling 10 s": window("auction", "tumble: 10s"),
    "sliding 60 s every 1 s": window("auction", "slide: 60s, every: 1s"),
    "sessions of 10 s": window("auction", "session: 10s"),
    "no window": "where: price > 0",
}
FIGURE = "sliding 60 s every 1 s"


def main(rounds: str = "3", millions: str = "2") -> None:
    """Print the figure."""
    made, many = again_and_again(), int(millions) * MILLION // TOGETHER
    ran(STEPS["no window"], made, 1)  # the first run imports modules
    taken: dict[str, list[Ran]] = {name: [] for name in STEPS}
    for _ in range(int(rounds)):
        for name, step in STEPS.items():
            taken[name].append(ran(step, made, many))
    least = {name: min(runs, key=lambda run: run.cpu_s) for name, runs in taken.items()}
    print(f"windows_cost {least[FIGURE].cpu_s / int(millions):.2f} CPU s per 1 M records")
    for name, run in least.items():
        print(f"{_told(run, least['tumbling 10 s'], int(millions))}  {name}", file=sys.stderr)


def _told(run: Ran, tumbling: Ran, millions: int) -> str:
    """Format a line of figures."""
    a_record, times = run.cpu_s / millions, run.cpu_s / tumbling.cpu_s
    return (
        f"{a_record:.3f} s per 1 M records ({1 / a_record:.1f} M/s), {times:.1f} times tumbling;"
        f" {run.cpu_s / run.rows * MILLION:.2f} us a row, of {run.rows:,}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
