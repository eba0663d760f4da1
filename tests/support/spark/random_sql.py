"""Random queries as steps of a stream, compared with Spark's result of the same text; one of each
pipeline is also run in batch.

`python -m tests.support.spark.random_sql COUNT SEED` runs more of them, some at a time over the
same tables. Where Spark and DuckDB do not agree, the text has no single meaning: that is printed
too.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.plan import nodes
from tests.support.reference.random_sql_tables import RandomTables, to_frame
from tests.support.reference.random_sql_values import TABLES
from tests.support.runtime.committed_output import Values, ended, shown
from tests.support.runtime.memory_pipelines import (
    bounds_of,
    cut,
    job_of_plan,
    plan_of,
    run_simulated,
)
from tests.support.spark.batches import batch
from tests.support.spark.quick import hurried
from tests.support.spark.session import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 10
"""The queries of one pipeline."""
THREADS = 3


@dataclass(slots=True)
class Comparison:
    """The number of equal rows, and what differs."""

    equal: int = 0
    wrong: list[str] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)
    """Where DuckDB gives other rows than Spark."""


def compare_queries(spark: SparkSession, seed: str, queries: int = AT_ONCE) -> Comparison:
    """Compare queries over the same tables."""
    random, found = Random(seed), Comparison()
    tables = RandomTables.draw(random, queries)
    streamed, changing = run_stream(tables, random.randrange(100))
    batched = run_batch(spark, tables, changes="q0_out" in changing)
    with tables.open_database() as database:
        own = spark.newSession()
        with hurried(own), ThreadPoolExecutor(THREADS) as threads:
            for name in TABLES:
                create_view(own, name, tables.list_columns(name), database.table(name).fetchall())
            results = threads.map(lambda sql: run_spark(own, sql), tables.queries)
            for at, (sql, wanted) in enumerate(zip(tables.queries, results, strict=True)):
                found.equal += wanted.total()
                runs = {"stream": streamed[at], **({} if at else {"batch": batched})}
                for run, rows in runs.items():
                    if rows != wanted:
                        found.wrong.append(
                            f"{seed}, {run}: {sql}\n{_show_difference(rows, wanted)}"
                        )
                duck = tables.run(database, sql)
                if duck != wanted:
                    found.disagreements.append(f"{seed}: {sql}\n{_show_difference(duck, wanted)}")
    return found


def _show_difference(found: Counter[Values], wanted: Counter[Values]) -> str:
    return f"    not {dict(found - wanted)} but {dict(wanted - found)}"[:1500]


def run_stream(tables: RandomTables, seed: int) -> tuple[list[Counter[Values]], frozenset[str]]:
    """Return the final rows of each query as a step of a stream, and the streams of changes."""
    size = (2, 7, 100)[seed % 3]
    memory = InMemoryData(
        {
            name: {
                str(at): cut(to_frame(name.removesuffix("_rows"), rows), size)
                for at, rows in enumerate(splits)
            }
            for name, splits in tables.splits.items()
        }
    )
    with TemporaryDirectory() as folder:
        text = tables.write_pipeline()
        plan = plan_of(Path(folder), text, {"memory": memory.build_connector()})
        job = job_of_plan(Path(folder), plan, memory, KernelExecutor(), bounds_of(seed))
        outcome = run_simulated(job, seed)
    assert outcome.failure is None, outcome.failure
    found, changing = [], set[str]()
    for sink in (part for part in plan if isinstance(part, nodes.Sink)):
        stream, kind = plan.streams[sink.input.partition("@")[0]], plan.streams[sink.input].kind
        if not isinstance(kind, nodes.Append):
            changing.add(sink.name)
        if stream.name not in TABLES:
            output = InMemoryData(outputs={"out": memory.outputs.get(sink.name, [])})
            found.append(ended(output, kind, stream.schema.names))
    return found, frozenset(changing)


def run_batch(spark: SparkSession, tables: RandomTables, *, changes: bool) -> Counter[Values]:
    """Return the rows of the first query as a step of a pipeline in batch."""
    more = ", changelog: full" if changes else ""

    def connect(name: str) -> str:
        return f"files: {{path: {name}{more if name == 'q0_out' else ''}}}, format: parquet"

    with TemporaryDirectory() as folder:
        root, (query,) = Path(folder), tables.queries[:1]
        for name, splits in tables.splits.items():
            (root / name).mkdir()
            for at, rows in enumerate(splits):
                frame = to_frame(name.removesuffix("_rows"), rows)
                frame.write_parquet(root / name / f"{at}.parquet")
        unread = [name for name in TABLES if f" {name} as " not in query]
        one = replace(tables, queries=[query])
        text = one.write_pipeline(connect=connect, tables=unread)
        (root / "p.yaml").write_text(f"name: test\n{text}")
        with hurried(spark):
            batch(spark, root / "p.yaml")
        return _read_parts(root / "q0_out")


def _read_parts(folder: Path) -> Counter[Values]:
    frames = (pl.read_parquet(part) for part in sorted(folder.glob("part-*")))
    return Counter(shown(row) for each in frames for row in each.select(cs.exclude("^_.*$")).rows())


def create_view(
    spark: SparkSession, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[object]]
) -> None:
    """Create a view of rows, which are a part of the query: a scan would start jobs of its own."""

    def write(value: object) -> str:
        text = str(value) if isinstance(value, datetime) else value
        return "null" if text is None else repr(text)

    values = ", ".join(f"({', '.join(map(write, row))})" for row in rows)
    if not rows:
        values = f"({', '.join('null' for _ in columns)})"
    where = "" if rows else " where false"
    table = f"values {values} as {name}({', '.join(columns)})"
    casts = (f"cast({column} as {type}) as {column}" for column, type in columns.items())
    select = ", ".join(casts)
    spark.sql(f"create or replace temp view {name} as select {select} from {table}{where}")


def run_spark(spark: SparkSession, sql: str) -> Counter[Values]:
    """Return Spark's rows of a query."""
    return Counter(shown(row) for row in spark.sql(sql).collect())


def compare_many(spark: SparkSession, count: int, seed: int) -> Iterator[Comparison]:
    """Compare that many queries; a failure is a difference."""
    for at in range(count // AT_ONCE):
        try:
            yield compare_queries(spark, f"{seed} {at}")
        except Exception as error:
            yield Comparison(wrong=[f"{seed} {at}: {type(error).__name__}: {error}"[:1500]])


def main() -> None:
    """Compare as many queries as the arguments say."""
    count, seed, equal, wrong = int(sys.argv[1]), int(sys.argv[2]), 0, 0
    with started() as spark:
        for each in compare_many(spark, count, seed):
            equal, wrong = equal + each.equal, wrong + len(each.wrong)
            for text in (*each.wrong, *(f"DuckDB, {one}" for one in each.disagreements)):
                print(text, flush=True)
    print(f"{count} queries, {equal} equal rows, {wrong} differ")


if __name__ == "__main__":
    main()
