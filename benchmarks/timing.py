"""CPU time of work: the least of several rounds, because the machine has other work too.

A command is a process: its times include the start.
"""

from __future__ import annotations

import compileall
import resource
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

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


@dataclass(frozen=True, slots=True)
class Took:
    """The times of a process, or of several at the same time."""

    wall_s: float
    cpu_s: float


def measure(*commands: Sequence[str]) -> Took:
    """Run commands at the same time to their ends."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    running = [subprocess.Popen(each, cwd=Path(__file__).parent.parent) for each in commands]
    for process in running:
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, process.args)
    wall_s = perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall_s, cpu_s)


def compile_all() -> None:
    """Compile all modules, as installing them does; a work tree may have no bytecode."""
    root = Path(__file__).parent.parent
    for folder in ("cli", "connectors", "core", "state"):
        compileall.compile_dir(root / folder, quiet=1)
