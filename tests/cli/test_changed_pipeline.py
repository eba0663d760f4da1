"""`headrace run` of a pipeline that was changed since it was stopped."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import ended, finished, start

ROWS = 4000
PIPELINE = f"""\
name: changed
sources:
  numbers: {{generate: {{rows: {ROWS}, rate: 2000/s, columns: {{x: id}}}}}}
steps:
  all: {{from: numbers, where: x >= 0}}
  counts: {{from: all, key: {{odd: x % 2}}, aggregate: {{n: count(*)}}}}
sinks:
  screen: {{from: counts, stdout: {{}}, format: json}}
"""


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A folder with a job that was stopped after it had emitted a row."""
    (tmp_path / "p.yaml").write_text(PIPELINE)
    process = start(tmp_path, "p.yaml")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = ended(process)
    assert (process.returncode, "resumes from checkpoint" in err) == (0, True)
    return tmp_path


def changed(folder: Path, before: str, now: str) -> None:
    """Change the pipeline."""
    assert before in PIPELINE
    (folder / "p.yaml").write_text(PIPELINE.replace(before, now))


def last(out: str) -> dict[int, dict[str, int]]:
    """The last row of each key."""
    return {row["odd"]: row for row in map(json.loads, out.splitlines())}


def test_a_changed_pipeline_resumes_and_reports_the_changes(stopped: Path) -> None:
    changed(stopped, "n: count(*)", "since: count(x), n: COUNT( * )")
    (stopped / "p.yaml").write_text((stopped / "p.yaml").read_text().replace(">= 0", "> -1"))
    ran = finished(stopped, "p.yaml")
    assert ran.returncode == 0
    told = ran.stderr.splitlines()
    assert "  counts has count(x) of bigint only for new rows" in told
    assert "  upstream of counts: all has changed: was where (x >= 0), is where (x > -1)" in told
    assert [row["n"] for row in last(ran.stdout).values()] == [ROWS // 2] * 2
    assert all(0 < row["since"] < row["n"] for row in last(ran.stdout).values())


def test_a_changed_meaning_is_refused_until_state_is_reset(stopped: Path) -> None:
    changed(stopped, "x % 2", "x % 3")
    refused = finished(stopped, "p.yaml")
    assert (refused.returncode, refused.stdout) == (3, "")
    shown = refused.stderr.splitlines()
    assert shown[0].endswith(" is not compatible: the state of counts has another key")
    assert shown[1:] == [
        "      was: key (x % 2) bigint; aggregate of count(*)",
        "      is:  key (x % 3) bigint; aggregate of count(*)",
        "      --reset-state counts drops its state; --fresh starts from scratch, without state",
    ]
    ran = finished(stopped, "p.yaml", "--reset-state", "counts")
    assert ran.returncode == 0
    assert "  counts starts fresh, without its state" in ran.stderr.splitlines()
    assert 0 < sum(row["n"] for row in last(ran.stdout).values()) < ROWS


def test_state_that_is_gone_may_be_lost(stopped: Path) -> None:
    changed(stopped, "  counts:", "  counted:")
    (stopped / "p.yaml").write_text(
        (stopped / "p.yaml").read_text().replace("from: counts", "from: counted")
    )
    refused = finished(stopped, "p.yaml")
    assert refused.returncode == 3
    assert "it has the state of counts, which is not in the pipeline" in refused.stderr
    ran = finished(stopped, "p.yaml", "--allow-lost-state")
    assert ran.returncode == 0
    assert "  resumes without the state of counts" in ran.stderr.splitlines()


def test_what_keeps_nothing_cannot_be_reset(headrace: Headrace) -> None:
    Path("p.yaml").write_text(PIPELINE)
    ran = headrace("run", "p.yaml", "--reset-state", "all")
    assert ran.status == 2
    wanted = 'wanted a source or a step with state, got "all": there are numbers, counts'
    assert wanted in ran.err
    assert 'did you mean "counts"?' in headrace("run", "p.yaml", "--reset-state", "count").err


def test_reset_options_are_refused_without_checkpoints(headrace: Headrace) -> None:
    Path("p.yaml").write_text(PIPELINE)
    options = ["--reset-state", "counts"], ["--allow-lost-state"], ["--take-over"], ["--fresh"]
    for option in options:
        ran = headrace("run", "p.yaml", "--limit", "1", *option)
        assert ran.status == 2
        assert "a run with --limit or of standard input takes no checkpoints" in ran.err
