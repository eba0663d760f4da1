"""A job that writes a real PostgreSQL, killed at each step: each row is in the table once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cli.processes import RUN, ended, limited
from tests.support.tables.databases import Database

ROWS = 40_000
KEYS = 7
PIPELINE = f"""\
name: made
settings:
  checkpoint: {{every: 100ms, retain: 20}}
  restart: {{strategy: fixed, attempts: 100, delay: 10ms}}
sources:
  numbers: {{generate: {{rows: {ROWS}, rate: RATE, columns: {{id: id, k: id % {KEYS}}}}}}}
steps:
  totals: {{from: numbers, key: k, aggregate: {{many: count(*), last: max(id)}}}}
  # A row of it is deleted, and comes again, each time that its key has counted 500 more rows.
  some: {{from: totals, where: many div 500 % 2 = 0}}
sinks:
  all: {{from: numbers, sql: {{url: "${{env:DB}}", table: numbers}}}}
  totals_out: {{from: totals, sql: {{url: "${{env:DB}}", table: totals}}}}
  some_out: {{from: some, sql: {{url: "${{env:DB}}", table: some}}}}
"""
TABLES = """
create table numbers (id bigint, k bigint);
create table totals (k bigint primary key, many bigint, last bigint);
create table "some" (k bigint unique, many bigint, last bigint, seen timestamptz default now());
"""
POINTS = ("sink.flushed", "manifest.after", "sink.applied", "sink.committed", "noting")
AT_ONCE = ("--set", "sources.numbers.generate.rate=10000000/s")


class Made:
    """The job in its folder."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self.database = database
        (folder / "p.yaml").write_text(PIPELINE.replace("RATE", "5000/s"))
        database.rows(TABLES)

    def start(self, *arguments: str, fault: str = "") -> subprocess.Popen[str]:
        """Start it."""
        environment = os.environ | {"DB": self.database.url} | {"HEADRACE_FAULT": fault}
        pipe = subprocess.PIPE
        return limited(
            subprocess.Popen(
                [*RUN, "p.yaml", "--log", "json", *arguments],
                cwd=self.folder,
                stdout=pipe,
                stderr=pipe,
                text=True,
                env=environment,
            )
        )

    def die(self, point: str, *arguments: str) -> None:
        """Run it until it is killed at a point."""
        process = self.start(*arguments, fault=point)
        _, said = ended(process)
        assert process.returncode == -signal.SIGKILL, said

    def finish(self, *arguments: str) -> str:
        """Run it to its end; return what it reported."""
        process = self.start(*arguments, *AT_ONCE)
        _, said = ended(process)
        assert process.returncode == 0, said
        return said

    def check(self) -> None:
        """Check that all tables are what they would be without failures."""
        numbers = "select count(*), count(distinct id), min(id), max(id) from numbers"
        assert self.database.rows(numbers) == [(ROWS, ROWS, 0, ROWS - 1)]
        self.check_totals()

    def check_totals(self) -> None:
        """Check the tables of changes, and that nothing else is left."""
        rows = self.database.rows
        totals = "select k, count(distinct id), max(id) from numbers group by k order by k"
        assert rows("select * from totals order by k") == rows(totals)
        some = "select * from totals where many / 500 % 2 = 0 order by k"
        assert rows('select k, many, last from "some" order by k') == rows(some)
        assert self.database.tables() == ["numbers", "some", "totals"]


@pytest.fixture
def made(tmp_path: Path, database: Database) -> Made:
    return Made(tmp_path, database)


def test_a_job_that_is_killed_at_each_step_and_rescaled_writes_each_row_once(made: Made) -> None:
    for at, point in enumerate(POINTS):
        made.die(f"{point}:{1 + at % 3}", "--parallelism", str(1 + at % 3))
        assert made.database.staged()
    made.finish("--parallelism", "2")
    made.check()


def test_a_job_whose_connections_break_restarts_and_writes_each_row_once(made: Made) -> None:
    process = made.start("--parallelism", "2", "--set", "sources.numbers.generate.rate=10000/s")
    rows = made.database.rows
    for count in (2000, 8000):
        while process.poll() is None and rows("select count(*) from numbers") < [(count,)]:
            time.sleep(0.02)
        with made.database.connection.transaction():
            rows("lock table numbers in exclusive mode")
            while not rows("select 1 from pg_locks where not granted"):
                assert process.poll() is None
                time.sleep(0.02)
            rows(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
    _, said = ended(process)
    assert process.returncode == 0, said
    assert said.count("terminating connection due to administrator command") >= 2, said
    made.check()


def test_an_older_checkpoint_and_a_fresh_run_repeat_inserted_rows_and_leave_the_same_changes(
    made: Made,
) -> None:
    made.die("noted:4", "--parallelism", "2")
    before = made.database.rows("select id from numbers")
    made.finish("--from-checkpoint", "2")
    after = Counter(made.database.rows("select id from numbers"))
    assert after >= Counter(before) and len(after) == ROWS and max(after.values()) == 2
    made.check_totals()
    made.die("sink.prepared:8", "--parallelism", "3")
    assert len(made.database.staged()) == 3
    count = made.database.rows("select count(*) from numbers")[0][0]
    made.finish("--fresh")
    assert made.database.rows("select count(*) from numbers") == [(count + ROWS,)]
    made.check_totals()
