"""Rows with a time that Python lacks, where they would become Python values."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.api.failures import ConnectorError
from headrace.core.types.data_types import TIMESTAMP, to_polars
from tests.support.runtime.memory_pipelines import simulated

FAR = {
    9223372036825200000: "+294247-01-10T04:00:25.200000Z",
    253402300800000000: "+10000-01-01T00:00:00.000000Z",
    -62135596800000001: "0000-12-31T23:59:59.999999Z",
}
TEXT = """
sources: {s: {memory: {data: in}, schema: {id: bigint, at: timestamp}}}
steps: {m: {from: s, %s}}
sinks:
  out: {from: m, memory: {data: out}}
  %s
"""
MAP = 'map: {python: "f.py:f", returns: {id: bigint}, mode: row}'
LOOKUP = "lookup: {memory: {data: names}, on: {id: id}, add: {name: string}}"
TO_BAD = "letters: {from: bad, memory: {data: bad}}"


def rows(us: int) -> InMemoryData:
    """Return three timestamps, the second out of range."""
    at = pl.Series([0, us, 253402300799999999]).cast(to_polars(TIMESTAMP))
    failing = LookupTableData(
        pl.DataFrame({"id": [1], "name": ["a"]}),
        find_failure=lambda number, keys: ConnectorError("no"),
    )
    return InMemoryData(
        {"in": {"a": [pl.DataFrame({"id": range(3), "at": at})]}}, tables={"names": failing}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f.py").write_text("def f(row): return {'id': row['id']}\n")
    return tmp_path


@pytest.mark.parametrize("us", FAR)
def test_a_function_by_row_fails_with_the_column_and_the_row(folder: Path, us: int) -> None:
    failure = simulated(folder, TEXT % (MAP, ""), rows(us), 0).failure
    assert failure is not None
    assert failure.message == (
        "f.py:f: column at has a time outside the years 1 to 9999"
        f" (in the row {{'id': 1, 'at': '{FAR[us]}'}})"
    )


@pytest.mark.parametrize("us", FAR)
def test_of_a_function_by_row_no_other_row_fails(folder: Path, us: int) -> None:
    memory = rows(us)
    outcome = simulated(folder, TEXT % (f"{MAP}, on_error: {{to: bad}}", TO_BAD), memory, 0)
    assert outcome.failure is None
    assert pl.concat(memory.outputs["out"])["id"].to_list() == [0, 2]
    (letter,) = pl.concat(memory.outputs["bad"])["raw"]
    assert json.loads(letter) == {"id": 1, "at": FAR[us]}


@pytest.mark.parametrize("us", FAR)
def test_a_row_that_cannot_be_looked_up_is_a_letter(folder: Path, us: int) -> None:
    memory = rows(us)
    outcome = simulated(folder, TEXT % (f"{LOOKUP}, on_error: {{to: bad}}", TO_BAD), memory, 0)
    assert outcome.failure is None
    letters = [json.loads(raw) for raw in pl.concat(memory.outputs["bad"])["raw"]]
    assert letters[1] == {"id": 1, "at": FAR[us]}
    assert [letter["id"] for letter in letters] == [0, 1, 2]
