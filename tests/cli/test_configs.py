"""Every pipeline that ships runs, and gives the same rows at any parallelism.

Each runs as users run it, and again on the simulated loop: the same connectors, in an order of
tasks drawn from a seed, with what is read cut anew.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import polars as pl
import pytest

from docs.snippets import ROOT
from headrace.cli.pipelines import check
from headrace.connectors.registry import REGISTRY
from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from headrace.core.compile import Setting
from headrace.core.contracts import Connectors, Surroundings
from headrace.core.job import Job
from headrace.state.memory import MemoryBackend
from tests.cli.ran import Headrace
from tests.runtime.recut import CUTS, recut
from tests.runtime.running import run_simulated

CONFIGS = sorted(path.name for path in (ROOT / "configs").glob("*.yaml"))
BIDS = "sources.bids.nexmark.events={}"
EVENTS = {"demo.yaml": BIDS, "windows.yaml": BIDS, "changes.yaml": BIDS}
"""How many rows a pipeline reads, where that is more than a test needs."""
CHANGES = {
    "changes/totals": ("channel",),
    "changes/dearest": ("rank",),
    "demo/totals": ("channel",),
}
"""Folders of changes, with the key that tells them apart: the last row of a key counts."""
NOT_STEADY = {"late.yaml": "which rows are late depends on how watermarks and rows interleave"}
STEADY = [name for name in CONFIGS if name not in NOT_STEADY]

Row = tuple[object, ...]
Rows = Counter[Row]


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A copy of the folder, because pipelines write beside it."""
    copied = tmp_path / "site" / "configs"
    shutil.copytree(ROOT / "configs", copied)
    return copied


def overrides(name: str, events: str, parallelism: int) -> tuple[str, ...]:
    """What is set otherwise than the file says."""
    fewer = (EVENTS[name].format(events),) if name in EVENTS else ()
    return (*fewer, f"settings.parallelism={parallelism}")


def run(headrace: Headrace, config: Path, *values: str) -> Rows:
    """What a pipeline prints and writes when it is run as users run it."""
    ran = headrace("run", str(config), *(word for value in values for word in ("--set", value)))
    assert ran.status == 0, ran.err
    return output(config, ran.out)


def simulated(config: Path, connectors: Connectors, seed: int, *values: str) -> None:
    """Run a pipeline on virtual time; whatever waits for a disk does so on the loop."""
    plan = check(str(config), values).plan
    assert plan is not None
    read = frozenset(edge.stream for edge in plan.edges)
    surroundings = Surroundings(config.parent, f"{seed:08x}" * 4, Bench())
    setting = Setting(lambda: seed, config.parent, read, MemoryBackend())
    outcome = run_simulated(Job(plan, connectors, surroundings, setting, Bounds(rows=3)), seed)
    assert outcome.failure is None, f"seed {seed}: {outcome.failure}"


def output(config: Path, printed: str) -> Rows:
    """The rows of all sinks: those on the screen by their words, those in files by their folder."""
    rows: Rows = Counter(("console", *line.split()) for line in printed.splitlines())
    build = config.parent.parent / "build"
    for path in build.rglob("*"):
        if path.is_file():
            folder = path.parent.relative_to(build).as_posix()
            found = written(path)
            if folder in CHANGES:
                found = ended(found, CHANGES[folder])
            rows.update((folder, *row) for row in found)
    return rows


def named(row: Row) -> dict[str, object]:
    """The values of a row of JSON by their names."""
    return dict(cast("tuple[tuple[str, object], ...]", row))


def ended(changes: Iterator[tuple[object, ...]], key: tuple[str, ...]) -> Iterator[Row]:
    """The table that the changes of a part end as: a key's changes are all in one part."""
    table: dict[Row, Row] = {}
    for row in changes:
        values = named(row)
        name = tuple(values[column] for column in key)
        if values.pop("_delete", False):
            table.pop(name, None)
        else:
            table[name] = tuple(values.items())
    yield from table.values()


def written(path: Path) -> Iterator[tuple[object, ...]]:
    """The rows of a file; when a dead letter was written is not part of it."""
    match path.suffix:
        case ".jsonl":
            for line in path.read_text("utf-8").splitlines():
                row = json.loads(line)
                if "raw" in row:
                    del row["at"]
                yield tuple(row.items())
        case ".csv":
            yield from ((line,) for line in path.read_text("utf-8").splitlines()[1:])
        case ".parquet":
            yield from pl.read_parquet(path).rows()


@pytest.mark.parametrize("name", STEADY)
def test_a_config_gives_the_same_rows_at_any_parallelism(
    headrace: Headrace, configs: Path, name: str
) -> None:
    rows = run(headrace, configs / name, *overrides(name, "100K", 1))
    assert rows.total() > 5
    assert run(headrace, configs / name, *overrides(name, "100K", 3)) == rows


@pytest.mark.slow
@pytest.mark.parametrize("name", STEADY)
def test_a_config_gives_the_same_rows_in_any_order_of_tasks_and_however_it_is_cut(
    headrace: Headrace, configs: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    rows = run(headrace, configs / name, *overrides(name, "1K", 1))
    for seed in range(6):
        connectors = recut(REGISTRY, CUTS[seed % 3], seed)
        simulated(configs / name, connectors, seed, *overrides(name, "1K", 1 if seed < 3 else 3))
        assert output(configs / name, capsys.readouterr().out) == rows, f"seed {seed}"


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_row_is_in_a_window_or_late(headrace: Headrace, configs: Path, parallelism: int) -> None:
    run(headrace, configs / "late.yaml", f"settings.parallelism={parallelism}")
    build = configs.parent / "build" / "late"
    days = ended(
        (row for path in build.glob("days/*") for row in written(path)),
        ("shop", "window_start", "window_end"),
    )
    late = [row for path in build.glob("rest/*") for row in written(path)]
    counted = sum(int(str(named(row)["orders"])) for row in days)
    assert counted + len(late) == 5000
