"""What work costs: CPU time, of several rounds the cheapest, for others use the machine too."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

ROUNDS = 12


def cpu_us(work: Callable[[], object], rows: int) -> float:
    """Microseconds of CPU a row, all threads together."""
    work()
    took = []
    for _ in range(ROUNDS):
        start = process_time()
        work()
        took.append(process_time() - start)
    return min(took) / rows * 1e6
