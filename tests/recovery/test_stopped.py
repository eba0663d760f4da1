"""A job that was stopped: what may happen to its output meanwhile, and what a refusal leaves."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import ended, start, stop_behind

ROWS = 30_000
PIPELINE = f"""\
name: stopped
settings: {{checkpoint: {{every: 100ms}}}}
sources:
  numbers: {{generate: {{rows: {ROWS}, rate: 10000/s, columns: {{x: id}}}}}}
sinks:
  out: {{from: numbers, files: {{path: out}}}}
"""
MANIFESTS = Path(".headrace/stopped/checkpoints/manifests")
AT_ONCE = ("--set", "sources.numbers.generate.rate=10000000/s")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that was stopped on its way, with several checkpoints."""
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "p.yaml").write_text(PIPELINE)
    stop_behind(folder, 4)
    return folder


def taken_away() -> list[int]:
    """Remove the committed output, as an external process might. Return its rows."""
    rows = []
    for part in Path("out").iterdir():
        rows += [json.loads(line)["x"] for line in part.read_text().splitlines()]
        part.unlink()
    return rows


def test_output_may_be_taken_away_when_it_is_seen(job: Headrace) -> None:
    rows = taken_away()
    assert 0 < len(rows) < ROWS
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 0, ran.err
    assert Counter(rows + taken_away()) == Counter(range(ROWS))


def test_a_fresh_run_that_is_refused_forgets_nothing(job: Headrace) -> None:
    ran = job("run", "p.yaml", "--fresh")
    assert (ran.status, "holds output of another run" in ran.err) == (3, True)
    ran = job("run", "p.yaml", *AT_ONCE)
    assert (ran.status, "resumed from checkpoint" in ran.err) == (0, True)
    assert Counter(taken_away()) == Counter(range(ROWS))


def test_an_older_checkpoint_that_is_refused_takes_no_newer_one_with_it(job: Headrace) -> None:
    before = sorted(path.name for path in MANIFESTS.iterdir())
    oldest = min(int(path.stem) for path in MANIFESTS.iterdir())
    (Path("out") / "part-00000000-0-0.jsonl").write_text("{}\n")
    ran = job("run", "p.yaml", "--from-checkpoint", str(oldest))
    assert (ran.status, "holds output of another run" in ran.err) == (3, True)
    assert sorted(path.name for path in MANIFESTS.iterdir()) == before


def test_a_home_that_goes_is_not_taken_for_a_new_job(job: Headrace) -> None:
    """What it has written would be written again, from the first row on."""
    process = start(
        Path(),
        "p.yaml",
        "--log",
        "json",
        "--set",
        "settings.restart.delay=10ms",
        "--set",
        "settings.restart.strategy=fixed",
    )
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line)["event"] == "checkpoint":
            Path(".headrace/stopped/checkpoints").rename("elsewhere")
            break
    _, said = ended(process)
    assert process.returncode == 3, said
    assert "is missing from the job's home" in said
