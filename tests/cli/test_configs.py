"""Every pipeline that ships runs, and gives the same rows at any parallelism.

Each runs as users run it, and again on the simulated loop: the same connectors, in an order of
tasks drawn from a seed, and input cut into other chunks.
"""

import shutil
from pathlib import Path

import pytest

from docs.snippets import ROOT
from headrace.cli.pipeline_file import check_pipeline
from headrace.connectors.registry import REGISTRY
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.job.job import Job
from headrace.core.job.spec import JobSpec
from headrace.core.plan.connector import Connectors
from headrace.state.memory.backend import MemoryBackend
from tests.support.cli.command_line import Headrace
from tests.support.cli.shipped_pipelines import ORDERS, STEADY, Rows, accounted, output, overrides
from tests.support.runtime.memory_pipelines import bounds_of, run_simulated
from tests.support.runtime.recut_sources import CUTS, recut


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A copy of the folder, because pipelines write next to it."""
    copied = tmp_path / "site" / "configs"
    shutil.copytree(ROOT / "configs", copied)
    return copied


def run(headrace: Headrace, config: Path, *values: str) -> Rows:
    """The printed and written output of a pipeline run by its command."""
    ran = headrace("run", str(config), *(word for value in values for word in ("--set", value)))
    assert ran.status == 0, ran.err
    return output(config, ran.out)


def simulated(config: Path, connectors: Connectors, seed: int, *values: str) -> None:
    """Run a pipeline on virtual time; whatever waits for a disk does so on the loop."""
    plan = check_pipeline(str(config), values).plan
    assert plan is not None
    read = frozenset(edge.stream for edge in plan.edges)
    surroundings = RunContext(config.parent, f"{seed:08x}" * 4, KernelExecutor())
    setting = OperatorContext(lambda: seed, config.parent, read, MemoryBackend())
    outcome = run_simulated(
        Job(JobSpec(plan, connectors, surroundings, setting, bounds_of(seed))), seed
    )
    assert outcome.failure is None, f"seed {seed}: {outcome.failure}"


def test_every_config_has_tests() -> None:
    configs = ROOT / "configs"
    pipelines = [*configs.glob("*.yaml"), *configs.glob("match/*.yaml")]
    pipelines.append(configs / "dashboards" / "dashboards.yaml")
    untested = [path.name for path in pipelines if "\ntests:" not in path.read_text("utf-8")]
    assert len(pipelines) > 10
    assert untested == []


def test_the_tests_in_configs_pass(headrace: Headrace, configs: Path) -> None:
    ran = headrace("test", str(configs), str(configs / "dashboards"), str(configs / "match"))
    assert (ran.status, ran.out) == (0, ""), ran.out + ran.err
    assert ran.err.startswith("29 tests: 29 passed")


@pytest.mark.parametrize("name", sorted(each.stem for each in ROOT.glob("configs/match/*.yaml")))
def test_a_pattern_is_found_in_its_data(headrace: Headrace, configs: Path, name: str) -> None:
    ran = headrace("run", str(configs / "match" / f"{name}.yaml"), "--quiet")
    assert (ran.status, ran.err) == (0, "")
    assert len(ran.out.splitlines()) >= 2


@pytest.mark.parametrize("name", STEADY)
def test_a_config_gives_the_same_rows_at_any_parallelism(
    headrace: Headrace, configs: Path, name: str
) -> None:
    rows = run(headrace, configs / name, *overrides(name, "20K", 1))
    assert rows.total() > 5
    assert run(headrace, configs / name, *overrides(name, "20K", 3)) == rows


@pytest.mark.slow
@pytest.mark.parametrize("name", STEADY)
def test_a_config_gives_the_same_rows_in_any_order_of_tasks_and_however_it_is_cut(
    headrace: Headrace, configs: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    rows = run(headrace, configs / name, *overrides(name, "400", 1))
    for seed in range(6):
        connectors = recut(REGISTRY, CUTS[seed % 3], seed)
        simulated(configs / name, connectors, seed, *overrides(name, "400", 1 if seed < 3 else 3))
        assert output(configs / name, capsys.readouterr().out) == rows, f"seed {seed}"


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_row_is_in_a_window_or_late(headrace: Headrace, configs: Path, parallelism: int) -> None:
    run(headrace, configs / "late.yaml", f"settings.parallelism={parallelism}")
    assert accounted(configs / "late.yaml") == ORDERS
