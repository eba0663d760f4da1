"""Columns in the names of folders, and Parquet files with different columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from tests.support.file_pipelines import run
from tests.support.plans import built

SCHEMA = "schema: {id: bigint, city: string, day: date}"
WRITE = f"""
sources:
  s: {{memory: {{data: in}}, {SCHEMA}}}
sinks:
  o: {{from: s, format: FORMAT, files: {{path: out, partition_by: [city, day]}}}}
"""
READ = f"""
sources:
  s: {{files: {{path: out, partition_by: [city, day]}}, format: FORMAT, {SCHEMA}}}
sinks:
  o: {{from: s, memory: {{data: out}}}}
"""
COUNT = """
sources:
  s: {files: {path: out, partition_by: [city, day]}, format: FORMAT, SCHEMA}
steps:
  n: {from: s, key: [city], aggregate: {n: count(*)}}
sinks:
  o: {from: n, memory: {data: out}}
""".replace("SCHEMA", SCHEMA)
CITIES = ("Oslo", None, "", "a/b", "__HIVE_DEFAULT_PARTITION__", "50%")
ROWS = [
    (at, CITIES[at % len(CITIES)], None if at % 4 == 3 else date(2026, 1, 1 + at % 2))
    for at in range(40)
]


def collect(memory: InMemoryData) -> list[tuple[object, ...]]:
    return [row for frame in memory.outputs["out"] for row in frame.rows()]


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_folders_that_a_sink_wrote_are_read_back(tmp_path: Path, format: str) -> None:
    types = {"id": pl.Int64(), "city": pl.String(), "day": pl.Date()}
    memory = InMemoryData({"in": {"0": [pl.DataFrame(ROWS, types, orient="row")]}})
    assert run(tmp_path, WRITE.replace("FORMAT", format), memory=memory).failure is None
    back = InMemoryData()
    assert run(tmp_path, READ.replace("FORMAT", format), memory=back).failure is None
    assert sorted(collect(back)) == ROWS
    counted = InMemoryData()
    assert run(tmp_path, COUNT.replace("FORMAT", format), memory=counted).failure is None
    last = {row[0]: row[1] for row in collect(counted)}
    assert last == {city: sum(row[1] == city for row in ROWS) for city in CITIES}


@pytest.mark.parametrize(
    ("file", "schema", "message"),
    [
        ("day=1/a.jsonl", "{id: bigint, day: date}", 'wanted date, got "1"'),
        (
            "day=__HIVE_DEFAULT_PARTITION__/a.jsonl",
            "{id: bigint, day: date not null}",
            "wanted date, got null",
        ),
        ("a.jsonl", "{id: bigint, day: date}", 'in/a.jsonl is in no folder "day=..."'),
    ],
)
def test_a_folder_without_a_value_of_the_type_fails(
    tmp_path: Path, file: str, schema: str, message: str
) -> None:
    path = tmp_path / "in" / file
    path.parent.mkdir(parents=True)
    path.write_text('{"id": 1}\n')
    source = f"{{files: {{path: in, partition_by: day}}, schema: {schema}}}"
    text = f"sources:\n  s: {source}\nsinks:\n  o: {{from: s, memory: {{data: out}}}}\n"
    failure = run(tmp_path, text, memory=InMemoryData()).failure
    assert failure is not None and message in failure.message


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("dy", 'partition_by: unknown column "dy"'),
        ("[id, day]", "no column is left for the records"),
    ],
)
def test_columns_of_folders_are_declared_beside_those_of_files(
    tmp_path: Path, columns: str, message: str
) -> None:
    source = f"{{files: {{path: in, partition_by: {columns}}}, schema: {{id: bigint, day: date}}}}"
    text = f"name: t\nsources:\n  s: {source}\nsinks:\n  o: {{from: s, console: {{}}}}\n"
    assert message in [each.message for each in built(tmp_path, text)[1]]


UNION = """
sources:
  s:
    files: {path: in}
    format: parquet
    parquet: {union_by_name: true}
    schema: {id: bigint not null, n: double, at: timestamp, name: string}
sinks:
  o: {from: s, memory: {data: out}}
"""


def test_parquet_files_with_different_columns_are_read_together(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pl.DataFrame({"id": [1], "n": [7], "name": ["a"]}).write_parquet(folder / "1.parquet")
    day = date(2026, 1, 31)
    pl.DataFrame({"at": [day], "n": [1.5], "id": [2]}).write_parquet(folder / "2.parquet")
    memory = InMemoryData()
    assert run(tmp_path, UNION, memory=memory).failure is None
    at = datetime(2026, 1, 31, tzinfo=UTC)
    assert sorted(collect(memory)) == [(1, 7.0, None, "a"), (2, 1.5, at, None)]
    failure = run(tmp_path, UNION.replace("union_by_name: true", "")).failure
    assert failure is not None
    assert failure.message == 'column "n": wanted double, the file has bigint'
    pl.DataFrame({"n": [1.5]}).write_parquet(folder / "3.parquet")
    failure = run(tmp_path, UNION).failure
    assert failure is not None and failure.message == 'the file has no column "id"'
