"""Pipelines over memory, run with the real runtime: on an ordinary loop or on a simulated one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import polars as pl

from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.state_backend import StateBackend
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.spec import JobSpec
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan.connector import Connectors
from headrace.core.plan.nodes import Plan
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.state.memory.backend import MemoryBackend


def _now_us() -> int:
    return int(asyncio.get_running_loop().time() * 1e6)


def plan_of(folder: Path, text: str, connectors: Connectors) -> Plan:
    """Return the plan of a valid pipeline text."""
    file = folder / "p.yaml"
    file.write_text(f"name: test\n{dedent(text)}")
    plan, problems = build_plan(load_pipeline(file, connectors, env={}))
    assert plan is not None, problems
    return plan


def job_of(
    folder: Path,
    text: str,
    memory: InMemoryData,
    bench: KernelExecutor,
    bounds: ChannelBounds,
    backend: Callable[[], StateBackend] | None = None,
    now_us: Callable[[], int] = _now_us,
) -> Job:
    """Return a job over that memory and kernel executor; its state is in memory by default."""
    plan = plan_of(folder, text, {"memory": memory.build_connector()})
    return job_of_plan(folder, plan, memory, bench, bounds, backend, now_us)


def job_of_plan(
    folder: Path,
    plan: Plan,
    memory: InMemoryData,
    bench: KernelExecutor,
    bounds: ChannelBounds,
    backend: Callable[[], StateBackend] | None = None,
    now_us: Callable[[], int] = _now_us,
) -> Job:
    """Return a job of a plan over that memory and kernel executor."""
    read = frozenset(edge.stream for edge in plan.edges)
    surroundings = RunContext(folder, "0" * 32, bench)
    setting = OperatorContext(now_us, folder, read, (backend or MemoryBackend)())
    connectors = {"memory": memory.build_connector()}
    return Job(JobSpec(plan, connectors, surroundings, setting, bounds))


def bounds_of(seed: int) -> ChannelBounds:
    """Return bounds that cut every batch, some batches or none."""
    return ChannelBounds(rows=(3, 30, 3000)[seed % 3])


def simulated(
    folder: Path, text: str, memory: InMemoryData, seed: int, bounds: ChannelBounds | None = None
) -> JobOutcome:
    """Run a pipeline on virtual time, in an order of tasks drawn from the seed."""
    return run_simulated(
        job_of(folder, text, memory, KernelExecutor(), bounds or bounds_of(seed)), seed
    )


def run_simulated(job: Job, seed: int) -> JobOutcome:
    """Run a job on virtual time."""
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(seed)) as runner:
        return runner.run(job.run())


def threaded(folder: Path, text: str, memory: InMemoryData) -> JobOutcome:
    """Run a pipeline on this machine's clock, with kernels in threads."""
    with ThreadPoolExecutor(2) as executor:
        return asyncio.run(
            job_of(folder, text, memory, KernelExecutor(executor), ChannelBounds()).run()
        )


def run_plan(folder: Path, plan: Plan, memory: InMemoryData, bench: KernelExecutor) -> JobOutcome:
    """Run a plan on this machine's clock."""
    return asyncio.run(job_of_plan(folder, plan, memory, bench, ChannelBounds()).run())


def rows(memory: InMemoryData, name: str) -> Counter[tuple[object, ...]]:
    """Return the committed rows of an output, as a multiset."""
    frames = memory.outputs.get(name, [])
    return Counter(row for frame in frames for row in frame.rows())


def cut(frame: pl.DataFrame, size: int) -> list[pl.DataFrame]:
    """Split the frame into chunks of that many rows."""
    return [frame.slice(at, size) for at in range(0, frame.height, size)]
