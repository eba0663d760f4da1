"""Lookups in files: formats, types, a file that changes, and errors in files."""

from __future__ import annotations

import asyncio
import gzip
import os
from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.tables.file import FileTable, build_index
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.lookup_tables import LOOKUP_KEY_INDEX
from headrace.core.api.run_context import RunContext
from headrace.core.plan.layout import get_lookup
from tests.support.tables.lookups import IDS, SCHEMA, Asking

ADDED = "{name: string, since: date}"
CSV = "id,name,since,other\n4,Ann,2020-01-31,x\n6,,2021-02-03,y\n,Nobody,,z\n"
JSON = '{"id": 4, "name": "Ann", "since": "2020-01-31"}\n{"id": 6, "since": "2021-02-03"}\n'


def asking(folder: Path, path: str, more: str = "", add: str = ADDED) -> Asking:
    """Build a lookup in a file."""
    lookup = f"file: {{path: {path}}}\non: {{id: customer}}\nadd: {add}\n{more}"
    return Asking(folder, lookup, SCHEMA)


def expected() -> list[tuple[object, ...]]:
    """Return the output for IDS."""
    return [
        (0, 4, "Ann", date(2020, 1, 31)),
        (1, 5, None, None),
        (2, None, None, None),
        (3, 6, None, date(2021, 2, 3)),
    ]


def written(folder: Path, name: str) -> None:
    """Write the same rows in the format of the name."""
    path = folder / name
    if name.endswith(".parquet"):
        since = [date(2020, 1, 31), date(2021, 2, 3)]
        pl.DataFrame({"id": [4, 6], "name": ["Ann", None], "since": since}).write_parquet(path)
        return
    text = (CSV if ".csv" in name else JSON).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)


@pytest.mark.parametrize("name", ["c.csv", "c.csv.gz", "c.jsonl", "c.json", "c.parquet"])
def test_rows_are_found_in_files_of_each_format(tmp_path: Path, name: str) -> None:
    written(tmp_path, name)
    job = asking(tmp_path, name)
    outcome, _ = job.run(IDS)
    assert outcome.failure is None
    assert job.rows() == expected()
    rows = 3 if ".csv" in name else 2
    assert job.look() == f"{name}, {min(rows, 2)} rows"


def test_a_file_that_has_changed_is_read_again_and_any_other_is_not(tmp_path: Path) -> None:
    path, new = tmp_path / "c.csv", tmp_path / "new"
    path.write_text("id,name\n4,Ann\n")
    lookup = get_lookup(asking(tmp_path, "c.csv", add="[name]").plan().part("found"))
    assert lookup is not None
    table = FileTable(lookup, RunContext(tmp_path, "0" * 32, KernelExecutor()))

    async def found() -> list[tuple[object, ...]]:
        return (await table.find(pl.DataFrame({"id": [4, 5]}))).rows()

    assert asyncio.run(found()) == asyncio.run(found()) == [(0, "Ann")]
    assert table.readings == 1
    new.write_text("id,name\n4,Bob\n5,Eve\n")
    os.replace(new, path)
    assert asyncio.run(found()) == [(0, "Bob"), (1, "Eve")]
    path.write_text("id,name\n")
    os.utime(path, (1, 1))
    assert asyncio.run(found()) == []
    path.write_text("")
    with pytest.raises(ConnectorError, match="is empty"):
        asyncio.run(found())
    path.unlink()
    with pytest.raises(ConnectorError, match="no such file") as raised:
        asyncio.run(found())
    assert not raised.value.is_final, "it may come back"
    new.write_text("id,name\n4,Cid\n")
    os.replace(new, path)
    assert asyncio.run(found()) == [(0, "Cid")]


def test_a_key_of_several_columns_and_types(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("country,day,rate\nDE,2026-01-31,1.5\nFR,2026-01-31,2.5\n")
    lookup = """
file: {path: r.csv}
on: {country: "upper(land)", day: to_date(at)}
add: {factor: {column: rate, type: "decimal(5,2)"}}
on_miss: drop
"""
    job = Asking(tmp_path, lookup, "{land: string, at: timestamp}")
    at = [datetime(2026, 1, 31, 8, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)]
    outcome, _ = job.run(pl.DataFrame({"land": ["fr", "de"], "at": at}))
    assert outcome.failure is None
    assert [(row[0], str(row[2])) for row in job.rows()] == [("fr", "2.50")]


def test_a_file_that_is_not_there_is_reported_at_the_start(tmp_path: Path) -> None:
    error = asking(tmp_path, "c.csv").refusal(IDS)
    assert error.message == "cannot read c.csv: no such file or directory"
    assert error.exit_status == 2


def test_a_column_that_is_not_there_is_reported_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("id,nam,since\n4,Ann,2020-01-31\n")
    error = asking(tmp_path, "c.csv").refusal(IDS)
    assert error.message == 'c.csv: the CSV header has no column "name"'


def test_a_header_that_is_none_is_reported_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text('"id"x,name,since\n')
    error = asking(tmp_path, "c.csv").refusal(IDS)
    assert error.message == "c.csv: a quote of the CSV header is out of place"
    assert error.hint == "its first line names the columns"
    (tmp_path / "c.csv").write_text("")
    error = asking(tmp_path, "c.csv").refusal(IDS)
    assert error.message == "c.csv is empty, without a header"


@pytest.mark.parametrize("name", ["c.csv", "c.jsonl", "c.parquet"])
def test_of_a_table_without_rows_every_row_misses(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("id,name,since\n" if name.endswith("csv") else "")
    if name.endswith("parquet"):
        schema = {"id": pl.Int64, "name": pl.String, "since": pl.Date}
        pl.DataFrame(schema=schema).write_parquet(path)
    job = asking(tmp_path, name)
    outcome, _ = job.run(IDS)
    assert outcome.failure is None
    assert [row[2:] for row in job.rows()] == [(None, None)] * 4
    assert job.look() == f"{name}, 0 rows"


def test_a_value_that_is_none_of_its_type_is_reported_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("id,name,since\n4,Ann,yesterday\n")
    error = asking(tmp_path, "c.csv").refusal(IDS)
    assert error.message.startswith("c.csv, position 14: ")
    assert "since" in error.message


def test_a_key_that_is_there_twice_is_reported_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("id,name,since\n4,Ann,2020-01-31\n4,Bob,2020-01-31\n")
    error = asking(tmp_path, "c.csv").refusal(IDS)
    assert error.message == "c.csv: the table has several rows for id = 4"


def test_an_index_finds_what_a_join_finds() -> None:
    keys = pl.DataFrame({"a": range(1000), "b": [str(i % 7) for i in range(1000)]})
    index = build_index(keys, pl.DataFrame({"v": range(1000)}))
    asked = pl.DataFrame({"a": [5, 2000, 999, 5], "b": ["5", "1", "5", "6"]})
    assert index.find(asked).rows() == [(0, 5), (2, 999)]
    nothing = build_index(keys.clear(), pl.DataFrame({"v": []}, schema={"v": pl.Int64}))
    assert nothing.find(asked).columns == [LOOKUP_KEY_INDEX, "v"]
    assert nothing.find(asked).height == 0
