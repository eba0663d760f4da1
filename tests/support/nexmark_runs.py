"""Runs of the queries of Nexmark on a simulated event loop."""

from __future__ import annotations

import shutil
from pathlib import Path

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.job.job import Job
from headrace.core.job.spec import JobSpec
from headrace.core.plan.connector import Connectors
from headrace.state.memory.backend import MemoryBackend
from tests.support.nexmark import CONFIGS
from tests.support.runtime.memory_pipelines import run_simulated


def run_query(site: Path, name: str, connectors: Connectors, seed: int) -> None:
    """Run a copy of a file of configs/nexmark below a site, at parallelism 3 on virtual time."""
    config = shutil.copytree(CONFIGS, site / "configs" / "nexmark") / name
    plan = check_pipeline(str(config), ("settings.parallelism=3",)).plan
    assert plan is not None
    read = frozenset(edge.stream for edge in plan.edges)
    surroundings = RunContext(config.parent, "5eed" * 8, KernelExecutor())
    setting = OperatorContext(lambda: seed, config.parent, read, MemoryBackend())
    outcome = run_simulated(Job(JobSpec(plan, connectors, surroundings, setting)), seed)
    assert outcome.failure is None, outcome.failure
