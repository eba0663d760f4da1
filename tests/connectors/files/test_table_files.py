"""Files with the changes of a table: written by the sink, and read back."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.types.elements import DELETE
from tests.support.file_pipelines import run

SCHEMA = "schema: {id: bigint, city: string not null}"
WRITE = f"""
settings: {{parallelism: 2}}
sources:
  c: {{memory: {{data: in}}, {SCHEMA[:-1]}, _change: string}}, table: {{key: id}}}}
sinks:
  o: {{from: c, format: FORMAT, files: {{path: out, roll: {{rows: 1}}}}}}
"""
READ = f"""
settings: {{parallelism: 3}}
sources:
  c: {{files: {{path: out}}, format: FORMAT, {SCHEMA}, table: {{key: id}}}}
sinks:
  o: {{from: c, memory: {{data: out}}}}
"""


def changes(*rows: tuple[int, str | None, str]) -> pl.DataFrame:
    types = {"id": pl.Int64(), "city": pl.String(), "_change": pl.String()}
    return pl.DataFrame(rows, types, orient="row")


def table_of(memory: InMemoryData) -> dict[int, str]:
    """Return the table that the output makes."""
    table: dict[int, str] = {}
    for frame in memory.outputs["out"]:
        for key, city, deletes in frame["id", "city", DELETE].rows():
            table[key] = city
            if deletes:
                del table[key]
    return table


def test_many_parts_are_read_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    pieces = [
        changes(*((key, f"city {at}", "insert") for key in range(25))) for at in range(3)
    ]  # a key's changes that arrive together are written as one, so that 25 parts are sure
    memory = InMemoryData({"in": {"0": [each for piece in pieces for each in (piece, 0.02)]}})
    assert run(tmp_path, WRITE.replace("FORMAT", "json"), memory=memory).failure is None
    assert len([*(tmp_path / "out").iterdir()]) >= 25
    back = InMemoryData()
    assert run(tmp_path, READ.replace("FORMAT", "json"), memory=back).failure is None
    assert table_of(back) == {key: "city 2" for key in range(25)}


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_changes_that_the_sink_wrote_read_back(tmp_path: Path, format: str) -> None:
    pieces = [
        changes((1, "Wien", "insert"), (2, "Roma", "insert")),
        changes((1, None, "delete"), (3, "Bonn", "insert")),
        changes((2, "Roma", "update_before"), (2, "Kiel", "update_after")),
        changes((3, None, "delete")),
        changes((3, "Bern", "insert")),
    ]
    memory = InMemoryData({"in": {"0": [each for piece in pieces for each in (piece, 0.02)]}})
    assert run(tmp_path, WRITE.replace("FORMAT", format), memory=memory).failure is None
    back = InMemoryData()
    assert run(tmp_path, READ.replace("FORMAT", format), memory=back).failure is None
    assert table_of(back) == {2: "Kiel", 3: "Bern"}


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_files_with_and_without_a_column_that_says_what_changed(
    tmp_path: Path, format: str
) -> None:
    (tmp_path / "out").mkdir()
    frames = [
        pl.DataFrame({"id": [1, 2], "city": ["Wien", "Roma"]}),
        pl.DataFrame({"id": [1], "city": ["?"], "_change": ["delete"]}),
        pl.DataFrame({"id": [2], "city": ["?"], "_delete": [True]}),
        pl.DataFrame({"id": [2], "city": ["Kiel"], "_change": ["insert"], "_delete": [False]}),
    ]
    for at, frame in enumerate(frames):
        path = tmp_path / f"out/{at}.{format.replace('json', 'jsonl')}"
        match format:
            case "json":
                frame.write_ndjson(path)
            case "csv":
                frame.write_csv(path)
            case _:
                frame.write_parquet(path)
    memory = InMemoryData()
    assert run(tmp_path, READ.replace("FORMAT", format), memory=memory).failure is None
    assert table_of(memory) == {2: "Kiel"}


def test_a_record_that_is_no_change_fails_the_job(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    record = {"id": 1, "city": "Wien", "_change": "replace"}
    (tmp_path / "out/0.jsonl").write_text(json.dumps(record))
    failure = run(tmp_path, READ.replace("FORMAT", "json")).failure
    assert failure is not None
    assert "_change: wanted insert, update_before, update_after or delete" in failure.message
