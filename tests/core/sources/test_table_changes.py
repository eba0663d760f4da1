"""The records of a table become upserts and deletes by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.core.api.sources import Chunk
from headrace.core.api.splits import Split
from headrace.core.plan import nodes
from headrace.core.sources.table_changes import TableRecords
from headrace.core.types.elements import DELETE
from tests.support.plans import plan_of

TEXT = """
    name: t
    sources:
      c:
        files: {path: in}
        schema: {id: bigint, v: string not null, at: timestamp}
        event_time: at
        table: {key: id}
    sinks: {out: {from: c, console: {}}}
"""
Record = tuple[int, str | None, str | None, bool | None]
"""The key, the value, `_change` and `_delete`."""


@pytest.fixture
def records(tmp_path: Path) -> TableRecords:
    source = plan_of(tmp_path, TEXT).part("c")
    assert isinstance(source, nodes.Source)
    return TableRecords(source)


def converted(
    records: TableRecords, *rows: Record, timed: bool = True
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the changes, and the errors of bad records."""
    types = {"id": pl.Int64(), "v": pl.String(), "_change": pl.String(), "_delete": pl.Boolean()}
    frame = pl.DataFrame([*rows], types, orient="row")
    at = pl.lit(0 if timed else None, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    found = records.convert(Chunk(Split("c", "in"), frame.with_columns(at=at), 1))
    assert "_change" not in found.frame.columns
    return found.frame["id", "v", DELETE].rows(), [bad.error for bad in found.bad_records]


def test_a_record_is_an_upsert_unless_it_says_something_else(records: TableRecords) -> None:
    rows: list[Record] = [
        *((1, "a", None, None), (2, "b", "insert", None), (3, "c", "update_after", False)),
        *((4, None, "delete", None), (5, None, None, True)),
    ]
    assert converted(records, *rows) == (
        [(1, "a", False), (2, "b", False), (3, "c", False), (4, None, True), (5, None, True)],
        [],
    )


def test_an_update_of_a_row_is_one_upsert(records: TableRecords) -> None:
    before, after = (1, "a", "update_before", None), (1, "b", "update_after", None)
    assert converted(records, before, after)[0] == [(1, "b", False)]


def test_bad_changes_have_the_positions_of_their_records(records: TableRecords) -> None:
    rows = [(1, "a", "update_before"), (1, "b", "update_after"), (2, "a", "no"), (3, "c", None)]
    frame = pl.DataFrame(rows, ["id", "v", "_change"], orient="row").with_columns(
        at=pl.lit(0).cast(pl.Datetime("us", "UTC"))
    )
    at = [5, 11, 17, 23]
    found = records.convert(Chunk(Split("c", "in"), frame, 29, list_positions=lambda: at))
    assert [bad.position for bad in found.bad_records] == [17]
    assert found.locate_rows([1, 0]) == [23, 11]
    unknown = Chunk(Split("c", "in"), frame, 29, list_positions=lambda: at[:3])
    assert records.convert(unknown).bad_records[0].position is None


def test_an_update_of_the_key_deletes_the_old_row(records: TableRecords) -> None:
    before, after = (1, "a", "update_before", None), (2, "a", "update_after", None)
    assert converted(records, before, after)[0] == [(1, "a", True), (2, "a", False)]


def test_an_update_that_is_cut_in_two_gives_the_same_row_in_the_end(records: TableRecords) -> None:
    assert converted(records, (1, "a", "update_before", None))[0] == [(1, "a", True)]
    assert converted(records, (1, "b", "update_after", None))[0] == [(1, "b", False)]


def test_an_update_to_a_bad_row_deletes_the_old_row_however_it_is_cut(
    records: TableRecords,
) -> None:
    before, after = (1, "a", "update_before", None), (1, None, "update_after", None)
    assert converted(records, before, after)[0] == [(1, "a", True)]
    assert converted(records, before)[0] == [(1, "a", True)]
    assert converted(records, after)[0] == []


def test_with_a_sequence_each_part_of_an_update_has_its_own(tmp_path: Path) -> None:
    text = TEXT.replace("{key: id}", "{key: id, sequence: v}")
    source = plan_of(tmp_path, text).part("c")
    assert isinstance(source, nodes.Source)
    before, after = (1, "5", "update_before", None), (1, "4", "update_after", None)
    found = converted(TableRecords(source), before, after)[0]
    assert found == [(1, "5", True), (1, "4", False)]


def test_other_kinds_are_bad_records(records: TableRecords) -> None:
    rows, errors = converted(records, (1, "a", "upsert", None), (2, "b", "INSERT", None))
    assert rows == []
    wanted = "_change: wanted insert, update_before, update_after or delete"
    assert errors == [f'{wanted}, got "upsert"', f'{wanted}, got "INSERT"']


def test_upserts_need_what_deletes_do_not(records: TableRecords) -> None:
    found = converted(records, (1, None, None, None), (2, None, "delete", None))
    assert found == ([(2, None, True)], ['column "v": wanted string not null, got null'])
    rows, errors = converted(records, (1, "a", None, None), (2, None, None, True), timed=False)
    assert rows == [(2, None, True)]
    assert errors == ['column "at": wanted timestamp not null, got null']
