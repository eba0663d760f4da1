"""A job whose newest manifests are gone is refused; going back on purpose survives every kill."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.recovery.test_damage import (
    AT_ONCE,
    CHECKPOINTS,
    PIPELINE,
    ROWS,
    bytes_of_all,
    counted,
    stop_with_new_rows,
)
from tests.recovery.test_damage import numbers as list_numbers
from tests.support.cli.command_line import Headrace
from tests.support.cli.command_process import run_headrace


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that was stopped on its way, with several checkpoints."""
    folder = tmp_path_factory.mktemp("missing")
    (folder / "p.yaml").write_text(PIPELINE.replace("BACKEND", "memory"))
    stop_with_new_rows(folder)
    return folder


def lose(*numbers: int) -> None:
    """Remove the manifests of these checkpoints."""
    for number in numbers:
        (CHECKPOINTS / "manifests" / f"{number}.json").unlink()


def test_a_job_whose_newest_manifest_is_gone_is_refused(job: Headrace) -> None:
    older, newest = list_numbers()[-2:]
    written = sum(counted().values())
    lose(newest)
    before = bytes_of_all()
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 3, ran.err
    assert (
        f"checkpoint {newest}'s output is committed, but its manifest is gone; "
        f"the newest manifest is {older}"
    ) in ran.err
    assert f"manifests/{newest}.json from a copy" in ran.err
    offered = re.search(
        rf"--from-checkpoint {older} writes rows after checkpoint {older} a second time: "
        r"up to ([\d,]+) of kept",
        ran.err,
    )
    assert offered, ran.err
    fresh = re.search(r"repeats all output: up to ([\d,]+) of kept", ran.err)
    assert fresh and int(fresh[1].replace(",", "")) == written, ran.err
    assert bytes_of_all() == before

    ran = job("run", "p.yaml", "--from-checkpoint", str(older), *AT_ONCE)
    assert ran.status == 0, ran.err
    assert f"rows are written a second time: up to {offered[1]} of kept" in ran.err
    twice = int(offered[1].replace(",", ""))
    assert counted() == Counter(range(ROWS)) + Counter(range(written - twice, written))


def test_a_job_without_any_manifest_is_refused(job: Headrace) -> None:
    newest = list_numbers()[-1]
    lose(*list_numbers())
    before = bytes_of_all()
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 3, ran.err
    assert f"checkpoint {newest}'s output is committed, but its manifest is gone" in ran.err
    assert "as are all others" in ran.err
    assert "--from-checkpoint" not in ran.err
    assert bytes_of_all() == before
    shutil.rmtree("kept")
    shutil.rmtree("totals")
    assert job("run", "p.yaml", "--fresh", *AT_ONCE).status == 0
    assert counted() == Counter(range(ROWS))


@pytest.mark.parametrize("kept", [True, False])
def test_a_job_whose_record_is_gone_is_refused(job: Headrace, kept: bool) -> None:
    newest = list_numbers()[-1]
    (CHECKPOINTS / "complete.json").unlink()
    if not kept:
        lose(*list_numbers())
        (CHECKPOINTS / "visible.json").unlink()
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 3, ran.err
    assert "complete.json is missing; it says which checkpoint is the newest" in ran.err
    assert (f"--from-checkpoint {newest} writes" in ran.err) == kept
    if kept:
        ran = job("run", "p.yaml", "--from-checkpoint", str(newest), *AT_ONCE)
        assert ran.status == 0, ran.err
        assert counted() == Counter(range(ROWS))


def test_an_older_checkpoint_that_is_damaged_is_not_offered(job: Headrace) -> None:
    oldest, older, newest = list_numbers()[-3:]
    lose(newest)
    path = CHECKPOINTS / "manifests" / f"{older}.json"
    path.write_bytes(path.read_bytes()[:-7])
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 3, ran.err
    assert f"--from-checkpoint {oldest} writes" in ran.err


def kill(fault: str, arguments: Sequence[str] = ()) -> None:
    """Run the job until it kills itself at a failpoint."""
    environment = {**os.environ, "HEADRACE_FAULT": fault}
    process = run_headrace("run", "p.yaml", *arguments, env=environment, timeout=60)
    assert process.returncode == -signal.SIGKILL, process.stderr


@pytest.mark.parametrize("fault", ["returning:1", "returned:1", "returned:2", "manifest.after:1"])
def test_a_kill_while_going_back_leaves_the_newest_or_the_requested_checkpoint(
    job: Headrace, fault: str
) -> None:
    oldest, _, newest = list_numbers()[-3:]
    written = sum(counted().values())
    first = json.loads((CHECKPOINTS / "manifests" / f"{oldest}.json").read_bytes())
    position = first["counts"]["parts"]["kept"][0]
    kill(fault, ["--from-checkpoint", str(oldest)])
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 0, ran.err
    twice: Counter[int] = Counter()
    if fault == "returning:1":
        assert f"resumed from checkpoint {newest} " in ran.err
    else:
        twice = Counter(range(position, written))
        number = newest + 1 if fault == "manifest.after:1" else oldest
        assert f"resumed from checkpoint {number} " in ran.err
    assert counted() == Counter(range(ROWS)) + twice


def test_a_second_loss_after_going_back_is_noticed_again(job: Headrace) -> None:
    """The next checkpoint clears the return."""
    oldest, _, newest = list_numbers()[-3:]
    kill("noted:2", ["--from-checkpoint", str(oldest)])
    assert list_numbers()[-2:] == [newest + 1, newest + 2]
    lose(newest + 1, newest + 2)
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 3, ran.err
    assert f"checkpoint {newest + 2}'s output is committed" in ran.err
