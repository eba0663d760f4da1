"""What windows cost by their kind, over W3's keys: CPU seconds per 1 M records, decoding left out.

Sliding 60 s every 1 s is the figure; on stderr the same for tumbling 10 s and sessions of 10 s, per
record and per row that is put out, and for a step that only passes rows on: what is not windows.
The rows are decoded once, before, and the sink drops what it gets. Of the rounds it is the least.
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
    ran(STEPS["no window"], made, 1)  # the first run of anything imports
    taken: dict[str, list[Ran]] = {name: [] for name in STEPS}
    for _ in range(int(rounds)):
        for name, step in STEPS.items():
            taken[name].append(ran(step, made, many))
    least = {name: min(runs, key=lambda run: run.cpu_s) for name, runs in taken.items()}
    print(f"windows_cost {least[FIGURE].cpu_s / int(millions):.2f} CPU s per 1 M records")
    for name, run in least.items():
        print(f"{_told(run, least['tumbling 10 s'], int(millions))}  {name}", file=sys.stderr)


def _told(run: Ran, tumbling: Ran, millions: int) -> str:
    """A line of figures."""
    a_record, times = run.cpu_s / millions, run.cpu_s / tumbling.cpu_s
    return (
        f"{a_record:.3f} s per 1 M records ({1 / a_record:.1f} M/s), {times:.1f} times tumbling;"
        f" {run.cpu_s / run.rows * MILLION:.2f} us a row, of {run.rows:,}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
