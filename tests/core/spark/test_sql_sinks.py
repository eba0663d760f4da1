"""Tables of PostgreSQL that a batch writes: in one transaction when all of it is staged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.core.api.failures import ConnectorError
from tests.support.spark.sink_runs import Batches
from tests.support.tables.databases import Database, fresh_schema
from tests.support.tables.postgres import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3000
PIPELINE = f"""\
sources:
  numbers: {{generate: {{rows: {ROWS}, columns: {{id: id, k: id % 7}}}}}}
steps:
  totals: {{from: numbers, key: k, aggregate: {{many: count(*), last: max(id)}}}}
  some: {{from: totals, where: k > 2}}
sinks:
  all: {{from: numbers, sql: {{url: URL, table: numbers, create: true}}}}
  last: {{from: numbers, sql: {{url: URL, table: last, key: k, create: true}}}}
  some_out: {{from: some, sql: {{url: URL, table: some, create: true}}}}
"""
TOTALS = f"""
select n % 7, count(*), max(n) from generate_series(0, {ROWS - 1}) n where n % 7 > 2
group by 1 order by 1
"""


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with running() as server, fresh_schema(server) as database:
        yield database


@pytest.fixture
def batches(spark: SparkSession, tmp_path: Path) -> Batches:
    return Batches(tmp_path, spark)


def test_a_batch_writes_tables_of_rows_and_changes(batches: Batches, database: Database) -> None:
    pipeline, rows = PIPELINE.replace("URL", f'"{database.url}"'), database.rows
    outcome = batches.run(pipeline)
    assert outcome is not None and outcome.sink_rows == {
        "all": ROWS,
        "last": 7,
        "some_out": 4,
    }
    assert database.staged() == []
    assert rows("select count(*), count(distinct id) from numbers") == [(ROWS, ROWS)]
    assert rows('select * from "some" order by 1') == rows(TOTALS)
    assert rows("select id, k from last order by 1") == [
        (id, id % 7) for id in range(ROWS - 7, ROWS)
    ]
    # What a killed run has recorded is committed by the next one, once.
    batches.die(pipeline, after_call=True)
    assert batches.run(pipeline) is None
    assert database.staged() == []
    assert rows("select count(*), count(distinct id) from numbers") == [(2 * ROWS, ROWS)]


def test_a_batch_whose_first_commit_is_refused_writes_nothing(
    batches: Batches, database: Database
) -> None:
    database.rows("create table few (id bigint unique, k bigint); insert into few values (5, 5)")
    sink = f'{{from: numbers, sql: {{url: "{database.url}", table: few}}}}'
    source = PIPELINE.partition("steps:")[0]
    pipeline = f"{source}sinks:\n  few: {sink}\n"
    with pytest.raises(ConnectorError, match=r"duplicate key .* \(id\)=\(5\)"):
        batches.run(pipeline)
    assert database.rows("select * from few") == [(5, 5)]
    database.rows("delete from few")
    assert batches.run(pipeline) is not None
    assert database.rows("select count(*) from few") == [(ROWS,)]
    assert database.staged() == []
