"""The dashboards of configs/dashboards, killed and rescaled, held to Spark.

    python -m tests.support.spark.dashboards ROUNDS [SEED]

runs a job a round: it is killed, stopped and resumed at other parallelisms, also from savepoints.
At its checkpoints and at its end the rows are those of `--batch` over the rows so far.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from random import Random
from shutil import copy
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.plan import nodes
from tests.support.recovery.killed_dashboards import CONFIG, KilledDashboards, Tables
from tests.support.recovery.shop_tables import KEYS, SEQUENCE, find_rows, write_lines
from tests.support.runtime.committed_output import Values
from tests.support.spark.batches import batch
from tests.support.spark.quick import hurried
from tests.support.spark.random_sql import create_view
from tests.support.spark.session import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES, LIVES = 1500, 7
"""The changes of all tables of a job, and the number of its lives before the last one."""
AS_JSON = """map('ignoreNullFields', 'false',
    'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")"""


def compute_rows(spark: SparkSession, tables: Tables) -> Mapping[str, Counter[Values]]:
    """Return the rows that Spark has for the text of each query over the rows of the tables."""
    plan = check_pipeline(str(CONFIG), ()).plan
    assert plan is not None
    own, found = spark.newSession(), dict[str, Counter[Values]]()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    with hurried(own):
        for name in KEYS:
            columns = {f.name: str(f.type) for f in plan.streams[name].schema if f.name != SEQUENCE}
            rows = find_rows(name, tables[name])
            create_view(own, name, columns, [[row[column] for column in columns] for row in rows])
        for sink in (part for part in plan if isinstance(part, nodes.Sink)):
            name = sink.name.removesuffix("_out")
            sql = CONFIG.with_name(f"{name}.sql").read_text("utf-8")
            lines = own.sql(f"select to_json(struct(*), {AS_JSON}) from (\n{sql}\n)").collect()
            read = (json.loads(line, parse_float=Decimal) for (line,) in lines)
            found[name] = Counter(tuple(row.values()) for row in read)
    return found


def compute_batch(
    spark: SparkSession, job: KilledDashboards, tables: Tables
) -> Mapping[str, Counter[Values]]:
    """Return the rows that the job writes with `--batch` over these records."""
    with TemporaryDirectory(dir=job.folder) as folder:
        site = Path(folder)
        (site / "in").mkdir()
        for query in job.folder.glob("*.sql"):
            copy(query, site)
        (site / "p.yaml").write_text((job.folder / "whole.yaml").read_text())
        for name in KEYS:
            (site / "in" / f"{name}-0.jsonl").write_text(write_lines(tables[name]))
        with hurried(spark):
            batch(spark, site / "p.yaml")
        return dict(job.read_output(site / "out"))


def run_round(
    spark: SparkSession,
    folder: Path,
    seed: str,
    changes: int,
    lives: Sequence[str],
    *,
    batches: bool,
) -> KilledDashboards:
    """Run a job through lives that end like this, and to its end.

    Its rows are those of Spark for the text of the queries, and those of `--batch` at the end; with
    `batches` those of both at all times.
    """
    random = Random(seed)

    def compute(tables: Tables) -> Mapping[str, Counter[Values]]:
        if is_last and not batches:
            return compute_batch(spark, job, tables)
        wanted = compute_rows(spark, tables)
        if batches:
            found = compute_batch(spark, job, tables)
            differing = [name for name in wanted if found[name] != wanted[name]]
            job.wrong += [f"--batch: {n}: {found[n]} in place of {wanted[n]}" for n in differing]
        return wanted

    is_last = False
    job = KilledDashboards(folder, random, changes, compute)
    parallelism = cycle(random.sample((1, 3), 2))
    for how in lives:
        job.live(how, next(parallelism))
    is_last = True
    job.finish(next(parallelism))
    return job


def main(rounds: int, seed: int = 0) -> None:
    """Run that many jobs."""
    wrong = compared = 0
    with started() as spark:
        for at in range(seed, seed + rounds):
            with TemporaryDirectory() as folder:
                lives = Random(at).choices(("kill", "kill", "stop", "savepoint"), k=LIVES)
                job = run_round(spark, Path(folder), f"{at}", CHANGES, lives, batches=True)
            wrong, compared = wrong + len(job.wrong), compared + job.compared
            print(f"seed {at}: {', '.join(job.lives)}; compared {job.compared} times", flush=True)
            for text in job.wrong:
                print(text, flush=True)
    print(f"{rounds} jobs, {compared} comparisons, {wrong} differ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
