"""A job that writes tables of PostgreSQL, killed and started again in its folder.

Many random kills: `python -m tests.support.tables.killed_sql_job 200 [SEED]`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import ended, limited
from tests.support.tables.databases import Database, fresh_schema
from tests.support.tables.postgres import running

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
POINTS = (
    *("sink.flushed", "sink.prepared", "manifest.before", "manifest.after", "completed"),
    *("sink.committing", "sink.applied", "sink.committed", "noting", "noted"),
)
"""The points at which it can be killed."""
AT_ONCE = ("--set", "sources.numbers.generate.rate=10000000/s")


class KilledSqlJob:
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
            start_headrace(
                *("run", "p.yaml", "--log", "json", *arguments),
                cwd=self.folder,
                stdout=pipe,
                stderr=pipe,
                text=True,
                env=environment,
            )
        )

    def kill(self, after_s: float, *arguments: str) -> None:
        """Run it until it is killed at a time, unless it ends before."""
        process = self.start(*arguments)
        with suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
        process.kill()
        ended(process)

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


def kill_at_random(job: KilledSqlJob, chance: Random, kills: int) -> None:
    """Kill the job that often, at points and at times, with changing parallelism."""
    for _ in range(kills):
        parallelism = ("--parallelism", str(chance.randint(1, 3)))
        if chance.random() < 0.5:
            environment = f"{chance.choice(POINTS)}:{chance.randint(1, 5)}"
            process = job.start(*parallelism, fault=environment)
            ended(process)
        else:
            job.kill(1 + 2 * chance.random(), *parallelism)


def main() -> None:
    """Run jobs with random kills, ten each, and check their tables."""
    kills, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with running() as server:
        for at in range(seed, seed + max(1, kills // 10)):
            with tempfile.TemporaryDirectory() as folder, fresh_schema(server) as database:
                job = KilledSqlJob(Path(folder), database)
                kill_at_random(job, Random(at), min(kills, 10))
                job.finish()
                job.check()
                print(f"seed {at}: each row once")


if __name__ == "__main__":
    main()
