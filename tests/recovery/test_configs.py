"""Every pipeline that ships and ends: killed behind some checkpoint and run again, the same rows.

On the simulated loop, with what is read cut anew, so that checkpoints come anywhere in it.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.snippets import ROOT
from headrace.connectors.registry import REGISTRY
from headrace.core.channel import Bounds
from headrace.core.state import StateBackend
from headrace.state.memory import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from tests.cli.shipped import CONFIGS, ORDERS, STEADY, accounted, files, overrides
from tests.recovery.lives import Lives
from tests.runtime.recut import recut

EVENTS = "400"
BATCHES = {
    "late.yaml": 100,
    "route.yaml": 20,
    "windows.yaml": 10,
    "changes.yaml": 10,
    "demo.yaml": 10,
}
"""How many rows go on together, where three would take long."""
BACKENDS: dict[str, Callable[[Path], StateBackend]] = {
    "memory": lambda folder: MemoryBackend(),
    "rocksdb": lambda folder: RocksBackend(str(folder), 1 << 20),
}


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    copied = tmp_path / "site" / "configs"
    shutil.copytree(ROOT / "configs", copied)
    return copied


def lives_of(configs: Path, name: str, backend: str, seed: int) -> Lives:
    connectors = recut(REGISTRY, "one", seed)
    values = overrides(name, EVENTS, 2)
    chance, bounds = random.Random(seed), Bounds(rows=BATCHES.get(name, 3))
    return Lives(configs / name, values, connectors, BACKENDS[backend], chance, bounds)


def words(printed: str) -> set[tuple[str, ...]]:
    """The rows on the screen, which may be there more than once."""
    return {tuple(line.split()) for line in printed.splitlines()}


def killed_and_finished(lives: Lives, kills: int) -> None:
    for _ in range(kills):
        lives.run(behind=lives.chance.randrange(1, 4))
        if lives.finished:
            break
    else:
        lives.run()
    assert lives.finished
    assert lives.killed
    hidden = list((lives.config.parent.parent / "build").rglob(".*"))
    assert not hidden


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", STEADY)
def test_a_config_that_is_killed_behind_a_checkpoint_gives_the_same_rows(
    configs: Path, capsys: pytest.CaptureFixture[str], name: str, backend: str
) -> None:
    lives_of(configs, name, backend, 0).run()
    wanted, printed = files(configs / name), words(capsys.readouterr().out)
    shutil.rmtree(configs.parent / "build", ignore_errors=True)
    killed_and_finished(lives_of(configs, name, backend, 1), kills=4)
    assert files(configs / name) == wanted
    assert words(capsys.readouterr().out) == printed


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_is_in_a_window_or_late_wherever_it_is_killed(configs: Path, backend: str) -> None:
    killed_and_finished(lives_of(configs, "late.yaml", backend, 2), kills=4)
    assert accounted(configs / "late.yaml") == ORDERS


def test_every_config_takes_part() -> None:
    assert {*STEADY, "late.yaml"} == set(CONFIGS)
