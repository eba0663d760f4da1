"""The queries of Nexmark, killed after checkpoints and run again, give DuckDB's rows.

At parallelism 2, then 3 and through a savepoint, then 1, on the simulated loop; some in processes.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from headrace.cli.pipeline_file import check_pipeline
from headrace.state.memory.backend import MemoryBackend
from tests.support.cli.processes import ended, start
from tests.support.nexmark import CONFIGS, QUERIES, connectors, output, wanted
from tests.support.recovery.killed_pipelines import Lives

REAL_EVENTS, REAL_STEP_US = 60_000, 100
"""In processes: six seconds of the events that the source itself makes, without a rate."""


def config(site: Path, query: str) -> Path:
    return shutil.copytree(CONFIGS, site / "configs" / "nexmark") / f"{query}.yaml"


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_is_killed_gives_the_rows_that_duckdb_has(tmp_path: Path, query: str) -> None:
    file, chance = config(tmp_path, query), random.Random(query)
    lives = Lives(file, (), connectors(query), lambda _: MemoryBackend(), chance, up=3)
    for parallelism in (2, 3, 1):
        lives.values = (f"settings.parallelism={parallelism}",)
        lives.run(after=chance.randrange(1, 3), stop=parallelism == 3)
    outcome = lives.run()
    assert outcome is not None and outcome.failure is None
    assert (lives.killed, lives.saved) == (2, 1)
    assert output(query, tmp_path) == wanted(query)


def killed_behind(config: Path, checkpoints: int) -> bool:
    """Run a query in a process, killed after that number of checkpoints; return whether it was."""
    sources = check_pipeline(str(config), ()).pipeline.sources
    fewer = (f"sources.{name}.nexmark.events={REAL_EVENTS}" for name in sources)
    values = (*fewer, "settings.checkpoint.every=50ms")
    words = [word for value in values for word in ("--set", value)]
    process = start(config.parent, config.name, "--parallelism", "2", "--log", "json", *words)
    assert process.stderr is not None
    for line in process.stderr:
        checkpoints -= json.loads(line)["event"] == "checkpoint"
        if not checkpoints:
            process.kill()
            break
    ended(process)
    return process.returncode != 0


@pytest.mark.slow
@pytest.mark.parametrize("query", ["q5", "q6", "q10", "q19"])
def test_a_process_that_is_killed_gives_the_rows_that_duckdb_has(
    tmp_path: Path, query: str
) -> None:
    file, kills = config(tmp_path, query), 0
    while kills < 2 and killed_behind(file, 1 + kills):
        kills += 1
    assert kills
    assert kills < 2 or not killed_behind(file, 1_000_000)
    assert output(query, tmp_path) == wanted(query, REAL_EVENTS, REAL_STEP_US)
