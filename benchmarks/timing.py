"""What work costs: CPU time, of several rounds the cheapest, for others use the machine too."""

from __future__ import annotations

import compileall
from collections.abc import Callable
from pathlib import Path
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


def compile_all() -> None:
    """Leave bytecode beside the modules, as installing them does; a work tree may have none."""
    root = Path(__file__).parent.parent
    for folder in ("cli", "connectors", "core", "state"):
        compileall.compile_dir(root / folder, quiet=1)
