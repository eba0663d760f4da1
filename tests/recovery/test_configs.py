"""Every shipped pipeline that ends: killed after some checkpoint and run again, with the same rows.

At parallelism 2, then 3 and through a savepoint, then 1; and rescaled as it runs. On the simulated
loop, with the input recut, so that checkpoints come anywhere in it; and those that read much, in
real processes.
"""

import json
import random
import shutil
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import TypeAlias

import pytest

from docs.snippets import ROOT
from headrace.connectors.registry import REGISTRY
from headrace.core.api.state_backend import StateBackend
from headrace.core.dataflow.channel import ChannelBounds
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from tests.support.cli.processes import ended, start
from tests.support.cli.shipped_pipelines import CONFIGS, STEADY, Rows, accounted, files, overrides
from tests.support.cli.shipped_pipelines import EVENTS as EVENTS_OF
from tests.support.recovery.killed_pipelines import Lives
from tests.support.runtime.memory_pipelines import bounds_of
from tests.support.runtime.recut_sources import recut

EVENTS = "160"
BATCHES = {"late.yaml": 200, "route.yaml": 40, **dict.fromkeys(EVENTS_OF, 40)}
"""The rows of a batch, where three would take long."""
ORDERS = 2_000
"""The rows that late.yaml reads here: a window ends, is corrected, and rows are too late."""
OFTEN, SELDOM = 4, 26
"""A life ends after fewer checkpoints than that, where few rows are read and where many."""
SHORT = ("bad_records.yaml",)
"""The configs that end in their second life."""
BACKENDS: dict[str, Callable[[Path], StateBackend]] = {
    "memory": lambda folder: MemoryBackend(),
    "rocksdb": lambda folder: RocksBackend(str(folder), 1 << 20),
}


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    copied = tmp_path / "site" / "configs"
    shutil.copytree(ROOT / "configs", copied)
    return copied


def values_of(name: str, parallelism: int) -> tuple[str, ...]:
    fewer = (f"sources.orders.generate.rows={ORDERS}",) if name == "late.yaml" else ()
    return (*fewer, *overrides(name, EVENTS, parallelism))


def lives_of(configs: Path, name: str, backend: str, seed: int) -> Lives:
    connectors = recut(REGISTRY, "one", seed)
    values = values_of(name, 2)
    chance, bounds = random.Random(seed), bounds_of(seed)
    if name in BATCHES:
        bounds = ChannelBounds(rows=BATCHES[name])
    return Lives(configs / name, values, connectors, BACKENDS[backend], chance, bounds)


def words(printed: str) -> set[tuple[str, ...]]:
    """The rows on the screen, which may be there more than once."""
    return {tuple(line.split()) for line in printed.splitlines()}


Output: TypeAlias = "tuple[Rows, set[tuple[str, ...]]]"
"""Rows in files, and the words of those on the screen."""
Undisturbed: TypeAlias = "Callable[[str], Output]"


@pytest.fixture(scope="module")
def kept() -> dict[str, Output]:
    return {}


@pytest.fixture
def undisturbed(
    configs: Path,
    capsys: pytest.CaptureFixture[str],
    kept: dict[str, Output],
) -> Undisturbed:
    """Each config is run once, in memory, its input in the chunks in which it comes.

    Its rows are the same whatever state is kept in, and however the input is cut.
    """

    def rows(name: str) -> Output:
        if name not in kept:
            lives = lives_of(configs, name, "memory", 0)
            lives.connectors, lives.bounds = REGISTRY, ChannelBounds()
            lives.run()
            kept[name] = files(configs / name), words(capsys.readouterr().out)
            shutil.rmtree(configs.parent / "build", ignore_errors=True)
        return kept[name]

    return rows


def killed_and_finished(lives: Lives, kills: int, before: int = OFTEN) -> None:
    name = lives.config.name
    for parallelism in islice(cycle([2, 3, 1]), kills):
        lives.values = values_of(name, parallelism)
        lives.run(after=lives.chance.randrange(1, before), stop=parallelism == 3)
        if lives.finished:
            break
    else:
        lives.run()
    assert lives.finished
    assert lives.killed
    assert lives.saved or name in SHORT
    hidden = list((lives.config.parent.parent / "build").rglob(".*"))
    assert not hidden


@pytest.mark.parametrize("backend", ["memory", pytest.param("rocksdb", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STEADY)
def test_a_config_killed_after_a_checkpoint_gives_the_same_rows(
    configs: Path,
    capsys: pytest.CaptureFixture[str],
    undisturbed: Undisturbed,
    name: str,
    backend: str,
) -> None:
    wanted = undisturbed(name)
    killed_and_finished(lives_of(configs, name, backend, 1), kills=3)
    assert (files(configs / name), words(capsys.readouterr().out)) == wanted


@pytest.mark.parametrize("backend", ["memory", pytest.param("rocksdb", marks=pytest.mark.slow)])
def test_a_row_is_in_a_window_or_late_wherever_it_is_killed(configs: Path, backend: str) -> None:
    killed_and_finished(lives_of(configs, "late.yaml", backend, 2), 4, SELDOM)
    assert accounted(configs / "late.yaml") == ORDERS


@pytest.mark.parametrize("name", STEADY)
def test_a_config_that_is_rescaled_as_it_runs_gives_the_same_rows(
    configs: Path, capsys: pytest.CaptureFixture[str], undisturbed: Undisturbed, name: str
) -> None:
    wanted = undisturbed(name)
    lives = lives_of(configs, name, "memory", 3)
    lives.rescales = [values_of(name, parallelism) for parallelism in (3, 1, 2)]
    lives.run()
    assert lives.finished
    assert lives.rescaled
    assert (files(configs / name), words(capsys.readouterr().out)) == wanted


def killed_behind(config: Path, checkpoints: int, *values: str) -> bool:
    """Run it in a process, and kill it after that many checkpoints.

    Return whether there were as many.
    """
    words = [word for value in values for word in ("--set", value)]
    process = start(config.parent, config.name, "--log", "json", *words)
    assert process.stderr is not None
    taken = (line for line in process.stderr if json.loads(line)["event"] == "checkpoint")
    last = next(islice(taken, checkpoints - 1, None), None)
    process.kill()
    ended(process)
    return last is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["changes.yaml", "demo.yaml", "windows.yaml"])
def test_a_config_whose_process_is_killed_after_a_checkpoint_gives_the_same_rows(
    configs: Path, name: str
) -> None:
    values = (*overrides(name, "40K", 2), "settings.checkpoint.every=30ms")
    assert not killed_behind(configs / name, 1_000_000, *values)
    wanted = files(configs / name)
    shutil.rmtree(configs.parent / "build")
    kills = 0
    while killed_behind(configs / name, 1 + kills, *values) and kills < 2:
        kills += 1
    if kills == 2:
        assert not killed_behind(configs / name, 1_000_000, *values)
    assert kills
    assert files(configs / name) == wanted


def test_every_config_takes_part() -> None:
    assert {*STEADY, "late.yaml"} == set(CONFIGS)
