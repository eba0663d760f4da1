"""`headrace top`, asked of a job in a thread; on a terminal it is a process."""

from __future__ import annotations

import os
import pty
from pathlib import Path

from tests.support.cli.command_line import Headrace
from tests.support.cli.command_process import start_headrace
from tests.support.cli.controlled_jobs import running
from tests.support.cli.processes import limited


def test_all_jobs_have_a_row(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path) as job:
        job.until_read(10)
        ran = headrace("top", "--once", "--home", "home")
        assert (ran.status, ran.err) == (0, "")
        title, heads, row = ran.out.splitlines()
        assert title == "1 job, 1 running"
        assert heads.split()[:3] == ["job", "status", "uptime"]
        assert row.split()[:2] == ["test", "running"]


def test_parts_of_a_job_have_rows_rates_shares_and_findings(
    headrace: Headrace, tmp_path: Path
) -> None:
    with running(tmp_path) as job:
        job.until_read(10)
        ran = headrace("top", "p.yaml", "--once", "--home", "home")
        assert (ran.status, ran.err) == (0, "")
        title, heads, *rows = ran.out.splitlines()
        assert title.startswith("test is running, up ")
        assert heads.split()[:4] == ["subtasks", "rows", "in", "/s"]
        parts = {row.split()[0]: row.split()[1:] for row in rows[:3]}
        assert [*parts] == ["rows", "totals", "out"]
        assert [parts["rows"][at] for at in (0, 1, 3)] == ["2", "10", "10"]
        assert parts["totals"][1] == "10"
        assert all(
            sum(int(each[:-1]) for each in row[5:8]) in (99, 100, 101) for row in parts.values()
        )
        assert rows[3].startswith("- rows: 1 of 2 subtasks has no split to read")


def test_an_unknown_job_has_no_figures(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path):
        pass
    assert headrace("top", "tset", "--once", "--home", "home").status == 2
    assert headrace("top", "test", "--once", "--home", "home").status == 3


def test_on_a_terminal_the_figures_are_drawn_until_the_key_q(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with running(tmp_path) as job:
        job.until_read(10)
        shown = limited(
            start_headrace(
                *("top", "test", "--home", "home"),
                cwd=tmp_path,
                env={**os.environ, "TERM": "xterm"},
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
            )
        )
        os.close(theirs)
        drawn = b""
        while b"totals" not in drawn:
            drawn += os.read(ours, 4096)
        os.write(ours, b"q")
        while True:  # the command waits while nobody reads what it draws
            try:
                if not os.read(ours, 4096):
                    break
            except OSError:
                break
        assert shown.wait() == 0
    os.close(ours)
