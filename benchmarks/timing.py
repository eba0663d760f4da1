"""CPU time of work: the least of several rounds, because the machine has other work too."""

from __future__ import annotations

import compileall
from collections.abc import Callable
from pathlib import Path
from time import process_time

ROUNDS = 12


def cpu_us(work: Callable[[], object], rows: int) -> float:
    """Return the microseconds of CPU per row, all threads together."""
    work()
    took = []
    for _ in range(ROUNDS):
        start = process_time()
        work()
        took.append(process_time() - start)
    return min(took) / rows * 1e6


def compile_all() -> None:
    """Compile all modules, as installing them does; a work tree may have no bytecode."""
    root = Path(__file__).parent.parent
    for folder in ("cli", "connectors", "core", "state"):
        compileall.compile_dir(root / folder, quiet=1)
