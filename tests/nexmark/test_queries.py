"""The queries of Nexmark that ship: each gives the rows that DuckDB has, over the same events.

At parallelism 3; those that are killed (`test_killed.py`) come to their end at 1.
"""

import shutil
from pathlib import Path

import pytest

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.job.job import Job
from headrace.core.job.spec import JobSpec
from headrace.state.memory.backend import MemoryBackend
from tests.support.nexmark import CONFIGS, QUERIES, connectors, output, wanted
from tests.support.runtime.memory_pipelines import run_simulated


def run(site: Path, query: str, seed: int) -> None:
    """Run it on virtual time."""
    folder = shutil.copytree(CONFIGS, site / "configs" / "nexmark")
    plan = check_pipeline(str(folder / f"{query}.yaml"), ("settings.parallelism=3",)).plan
    assert plan is not None
    read = frozenset(edge.stream for edge in plan.edges)
    surroundings = RunContext(folder, "5eed" * 8, KernelExecutor())
    setting = OperatorContext(lambda: seed, folder, read, MemoryBackend())
    outcome = run_simulated(Job(JobSpec(plan, connectors(query), surroundings, setting)), seed)
    assert outcome.failure is None, outcome.failure


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_rows_that_duckdb_has(tmp_path: Path, query: str) -> None:
    run(tmp_path, query, seed=3)
    rows = wanted(query)
    assert rows
    assert output(query, tmp_path) == rows
