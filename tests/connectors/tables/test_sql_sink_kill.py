"""A job that writes a real PostgreSQL, killed at each step: each row is in the table once.

Many more kills: `python -m tests.support.tables.killed_sql_job 200`.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cli.processes import ended
from tests.support.tables.databases import Database
from tests.support.tables.killed_sql_job import ROWS, KilledSqlJob

POINTS = ("sink.flushed", "manifest.after", "sink.applied", "sink.committed", "noting")


@pytest.fixture
def made(tmp_path: Path, database: Database) -> KilledSqlJob:
    return KilledSqlJob(tmp_path, database)


def test_a_job_that_is_killed_at_each_step_and_rescaled_writes_each_row_once(
    made: KilledSqlJob,
) -> None:
    for at, point in enumerate(POINTS):
        made.die(f"{point}:{1 + at % 3}", "--parallelism", str(1 + at % 3))
        assert made.database.staged()
    made.finish("--parallelism", "2")
    made.check()


def test_a_job_whose_connections_break_restarts_and_writes_each_row_once(
    made: KilledSqlJob,
) -> None:
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
    made: KilledSqlJob,
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
