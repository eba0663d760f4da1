"""Pipelines over memory, run with the real runtime: on an ordinary loop or on a simulated one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import polars as pl

from headrace.connectors.memory import Memory
from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from headrace.core.compile import Setting
from headrace.core.connector import Connectors
from headrace.core.contracts import Surroundings
from headrace.core.job import Job, Outcome
from headrace.core.pipeline.load import load
from headrace.core.plan import Plan, build
from headrace.core.state import StateBackend
from headrace.state.memory import MemoryBackend
from tests.simulation import SimulatedLoop


def _now_us() -> int:
    return int(asyncio.get_running_loop().time() * 1e6)


def plan_of(folder: Path, text: str, connectors: Connectors) -> Plan:
    """The plan of a text without a mistake."""
    file = folder / "p.yaml"
    file.write_text(f"name: test\n{dedent(text)}")
    plan, problems = build(load(file, connectors, env={}))
    assert plan is not None, problems
    return plan


def job_of(
    folder: Path,
    text: str,
    memory: Memory,
    bench: Bench,
    bounds: Bounds,
    backend: Callable[[], StateBackend] | None = None,
) -> Job:
    """A job over that memory, on that bench; its state is in memory unless it is said where."""
    connectors = {"memory": memory.connector()}
    plan = plan_of(folder, text, connectors)
    read = frozenset(edge.stream for edge in plan.edges)
    surroundings = Surroundings(folder, "0" * 32, bench)
    setting = Setting(_now_us, folder, read, (backend or MemoryBackend)())
    return Job(plan, connectors, surroundings, setting, bounds)


def simulated(
    folder: Path, text: str, memory: Memory, seed: int, bounds: Bounds | None = None
) -> Outcome:
    """Run on virtual time, in an order of tasks drawn from the seed."""
    return run_simulated(job_of(folder, text, memory, Bench(), bounds or Bounds(rows=3)), seed)


def run_simulated(job: Job, seed: int) -> Outcome:
    """Run a job on virtual time."""
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(seed)) as runner:
        return runner.run(job.run())


def threaded(folder: Path, text: str, memory: Memory) -> Outcome:
    """Run on this machine's clock, kernels in threads."""
    with ThreadPoolExecutor(2) as executor:
        return asyncio.run(job_of(folder, text, memory, Bench(executor), Bounds()).run())


def rows(memory: Memory, name: str) -> Counter[tuple[object, ...]]:
    """Return the rows committed under a name, as a multiset."""
    frames = memory.outputs.get(name, [])
    return Counter(row for frame in frames for row in frame.rows())


def cut(frame: pl.DataFrame, size: int) -> list[pl.DataFrame]:
    """The frame in pieces of that many rows."""
    return [frame.slice(at, size) for at in range(0, frame.height, size)]
