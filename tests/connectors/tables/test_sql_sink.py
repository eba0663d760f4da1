"""Tables of a real PostgreSQL as sinks: values, changes and commits."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from headrace.connectors.registry import REGISTRY
from headrace.core.api.failures import ConnectorError
from tests.support.tables.databases import Database
from tests.support.tables.opened_sql_sinks import APPENDS, CHANGES, Over, changes, named

TYPES = """flag: boolean, t: tinyint, s: smallint, i: int, b: bigint, f: float, d: double,
  n: "decimal(38,10)", text: string, bytes: binary, day: date, at: timestamp, here: timestamp_ntz,
  clock: time, tags: array<int>, who: "struct<name:string,born:date>", counts: "map<string,double>"
"""
VALUES: dict[str, tuple[Any, pl.DataType, Any]] = {
    "flag": (True, pl.Boolean(), True),
    "t": (-128, pl.Int8(), -128),
    "s": (32767, pl.Int16(), 32767),
    "i": (-(2**31), pl.Int32(), -(2**31)),
    "b": (2**63 - 1, pl.Int64(), 2**63 - 1),
    "f": (0.1, pl.Float32(), 0.1),
    "d": (float("-inf"), pl.Float64(), float("-inf")),
    "n": (Decimal("-1234567890123456789012345678.0123456789"), pl.Decimal(38, 10), ...),
    "text": ('a, "b"\n\\.\t\\N é', pl.String(), ...),
    "bytes": (b"\x00\xff\\x", pl.Binary(), ...),
    "day": (date(1, 1, 1), pl.Date(), ...),
    "at": (datetime(2026, 1, 31, 8, 0, 0, 123456, UTC), pl.Datetime("us", "UTC"), ...),
    "here": (datetime(2026, 3, 29, 2, 30), pl.Datetime("us"), ...),
    "clock": (time(23, 59, 59, 999999), pl.Time(), ...),
    "tags": ([1, None, 3], pl.List(pl.Int32()), ...),
    "who": (
        {"name": 'Zoë "Z"', "born": date(2000, 2, 29)},
        pl.Struct({"name": pl.String(), "born": pl.Date()}),
        {"name": 'Zoë "Z"', "born": "2000-02-29"},
    ),
    "counts": ({"a": 1.5, "b": None}, pl.Map(pl.String(), pl.Float64()), ...),
}
"""A value of each type, its type in Polars, and what the database gives back; `...`: the same."""


def test_values_of_all_types_and_nulls_are_written(over: Over, database: Database) -> None:
    sink = over(database, "table: t, create: true", TYPES)
    sink.check()
    columns = [pl.Series(name, [value, None], type) for name, (value, type, _) in VALUES.items()]
    sink.commit(sink.prepare(pl.DataFrame(columns)))
    expected = tuple(value if told is ... else told for value, _, told in VALUES.values())
    assert database.rows("select * from t") == [expected, (None,) * len(VALUES)]


def test_an_empty_text_is_no_null_and_times_of_a_table_without_zone_are_utc(
    over: Over, database: Database
) -> None:
    database.rows("create table t (name varchar(5), at timestamp, extra int default 7)")
    sink = over(database, schema="name: string, at: timestamp")
    sink.check()
    at = datetime(2026, 1, 31, 8, tzinfo=UTC)
    sink.commit(sink.prepare(pl.DataFrame({"name": ["", None], "at": [at, at]})))
    told = at.replace(tzinfo=None)
    assert database.rows("select * from t") == [("", told, 7), (None, told, 7)]


def test_a_commit_that_is_repeated_does_nothing(over: Over, database: Database) -> None:
    database.rows("create table t (id bigint, name text)")
    sink = over(database)
    sink.check()
    handles = [sink.prepare(named(1, 2), named(3)), sink.prepare(named(4), subtask=1)]
    assert database.rows("select count(*) from t") == [(0,)]
    for handle in handles:
        sink.commit(handle)
        sink.commit(handle)
    sink.reopen()
    for handle in handles:
        sink.commit(handle)
    assert database.rows("select * from t order by id") == named(1, 2, 3, 4).rows()


def test_marks_stay_until_commits_are_recorded(over: Over, database: Database) -> None:
    database.rows("create table t (id bigint, name text)")
    sink = over(database)
    sink.check()
    (staging,) = database.staged()
    first = sink.prepare(named(1))
    sink.commit(first)
    sink.commit(sink.prepare(named(2)))
    marks = f"select count(*) from {staging}"
    assert database.rows(marks) == [(2,)]
    sink.coordinator.on_commits_recorded()
    last = sink.prepare(named(3))
    sink.commit(last)
    assert database.rows(marks) == [(1,)]
    sink.do(sink.coordinator.close())
    assert database.staged()
    sink.reopen()
    sink.commit(last)
    with pytest.raises(ConnectorError) as raised:
        sink.commit(first)
    assert raised.value.is_final and "1 rows for table" in raised.value.message
    sink.check()
    assert database.rows(marks) == [(0,)]
    sink.do(sink.coordinator.close())
    assert database.tables() == ["t"]
    assert database.rows("select id from t order by id") == [(1,), (2,), (3,)]


def test_what_is_prepared_and_lost_is_reported(over: Over, database: Database) -> None:
    database.rows("create table t (id bigint, name text)")
    sink = over(database)
    sink.check()
    handle = sink.prepare(named(1, 2))
    (staging,) = database.staged()
    database.rows(f"delete from {staging} where id = 1")
    for _ in range(2):
        with pytest.raises(ConnectorError, match="2 rows for table") as raised:
            sink.commit(handle)
        assert raised.value.hint == "an earlier checkpoint or savepoint writes them again"
    database.rows(f"drop table {staging}")
    with pytest.raises(ConnectorError, match="2 rows for table"):
        sink.commit(handle)
    assert database.rows("select * from t") == []


def test_aborted_rows_those_of_lost_writers_and_those_of_an_attempt_before_are_removed(
    over: Over, database: Database
) -> None:
    database.rows("create table t (id bigint, name text)")
    sink = over(database)
    sink.check()
    (staging,) = database.staged()
    ids = f"select id from {staging} where id is not null order by id"
    aborted, kept = sink.prepare(named(1)), sink.prepare(named(2), subtask=1)
    for subtask in (1, 2, 3):
        sink.prepare(named(10 + subtask), subtask=subtask)
    sink.do(sink.coordinator.abort(aborted))
    assert database.rows(ids) == [(2,), (11,), (12,), (13,)]
    sink.commit(kept)
    sink.do(sink.coordinator.end_lost_writers([1, 3]))
    assert database.rows(ids) == [(12,)]
    sink.commit(kept)
    sink.check()
    assert database.rows(f"select * from {staging}") == []
    assert database.rows("select id from t") == [(2,)]


def test_a_writer_that_is_closed_leaves_only_what_it_has_prepared(
    over: Over, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connectors.tables.sql_writer.FLUSH_ROWS", 2)
    database.rows("create table t (id bigint, name text)")
    sink = over(database)
    sink.check()
    writer = sink.writer()
    sink.do(writer.write(named(1, 2)))
    handle = sink.do(writer.prepare())
    assert sink.do(writer.prepare()) is None
    sink.do(writer.write(named(3, 4)))
    sink.do(writer.write(named(5)))
    sink.do(writer.close())
    (staging,) = database.staged()
    assert database.rows(f"select id from {staging} order by id") == [(1,), (2,)]
    sink.commit(handle)
    assert database.rows("select id from t order by id") == [(1,), (2,)]


def test_the_staging_table_of_a_job_before_is_dropped_and_that_of_another_stays(
    over: Over, database: Database
) -> None:
    database.rows("create table t (id bigint, name text)")
    first = over(database)
    first.check()
    first.prepare(named(1))
    (old,) = database.staged()
    other = over(database, job="f" * 32)
    other.check()
    handle = other.prepare(named(5))
    fresh = over(database, job="e" * 32, notes=first.notes)
    fresh.check()
    assert old not in database.staged() and len(database.staged()) == 2
    fresh.commit(fresh.prepare(named(6)))
    other.commit(handle)
    assert database.rows("select id from t order by id") == [(5,), (6,)]


CREATED = ("create: true", "the table is there")


@pytest.mark.parametrize("made", CREATED)
def test_changes_are_upserted_and_deleted_by_key(over: Over, database: Database, made: str) -> None:
    if made != CREATED[0]:
        unique = "unique nulls not distinct (k)"
        database.rows(f"create table t (seen int default 7, n bigint, k text, {unique})")
    sink = over(database, "table: t, create: true", text=CHANGES)
    sink.check()
    sink.commit(sink.prepare(changes(("a", 1, False), ("b", 2, False), (None, 3, False))))
    if made != CREATED[0]:
        database.rows("update t set seen = 8 where k = 'a'")
    before = sink.prepare(
        changes(("a", 5, False), ("a", 6, False), ("b", None, True), ("c", 1, False)),
        changes(("c", None, True), ("d", None, True), ("e", None, True), ("e", 9, False)),
        changes((None, None, True)),
    )
    sink.commit(before)
    sink.commit(before)
    assert database.rows("select k, n from t order by k") == [("a", 6), ("e", 9)]
    if made != CREATED[0]:
        assert database.rows("select seen from t order by k") == [(8,), (7,)]
    sink.commit(sink.prepare(changes((None, 4, False))))
    sink.commit(sink.prepare(changes((None, 5, False))))
    assert database.rows("select n from t where k is null") == [(5,)]


def test_rows_replace_each_other_by_a_key_of_the_sink(over: Over, database: Database) -> None:
    database.rows('create table "T %s" ("the ""key""" bigint primary key, name text)')
    text = APPENDS.replace("schema: {SCHEMA}", "schema: {'the \"key\"': bigint, name: string}")
    options = "table: 'T %s', key: 'the \"key\"'"
    sink = over(database, options, text=text)
    sink.check()
    rows = named(1, 2, 1).rename({"id": 'the "key"'}).with_columns(name=pl.Series(list("abc")))
    sink.commit(sink.prepare(rows))
    assert database.rows('select * from "T %s" order by 1') == [(1, "c"), (2, "b")]


def test_rows_of_key_columns_alone_are_written_once(over: Over, database: Database) -> None:
    sink = over(database, "table: t, key: [id, name], create: true")
    sink.check()
    sink.commit(sink.prepare(named(1, 2, 1)))
    sink.commit(sink.prepare(named(2, 3)))
    assert database.rows("select id from t order by 1") == [(1,), (2,), (3,)]


def test_the_handles_of_a_batch_are_committed_in_one_transaction(
    over: Over, database: Database
) -> None:
    database.rows("create table t (id bigint primary key, name text)")
    sink, side = over(database), REGISTRY["sql"].sink
    assert side is not None and list(side.merge_handles(())) == []
    sink.check()
    parts = [sink.prepare(named(at), subtask=at) for at in range(3)]
    twice = [*parts, sink.prepare(named(1), subtask=7)]
    (all_of_it,) = side.merge_handles(twice)
    with pytest.raises(ConnectorError, match=r"duplicate key .*: Key \(id\)=\(1\)") as raised:
        sink.commit(all_of_it)
    assert raised.value.is_final and "stay staged" in raised.value.hint
    assert database.rows("select * from t") == []
    (merged,) = side.merge_handles(parts)
    sink.commit(merged)
    sink.commit(merged)
    assert database.rows("select id from t order by id") == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("table", "frame", "message"),
    [
        ("id bigint, name varchar(3)", named(10, 100), "value too long for type character"),
        ("id bigint, name uuid", named(1), 'invalid input syntax for type uuid: "n1": column name'),
        (
            "id bigint, name text not null",
            pl.DataFrame({"id": [1], "name": [None]}, {"id": pl.Int64, "name": pl.String}),
            '"name" is null in a row, and not in table "t"',
        ),
    ],
)
def test_what_a_column_cannot_hold_fails_before_a_checkpoint_names_it(
    over: Over, database: Database, table: str, frame: pl.DataFrame, message: str
) -> None:
    database.rows(f"create table t ({table})")
    sink = over(database)
    sink.check()
    with pytest.raises(ConnectorError) as raised:
        sink.prepare(frame)
    assert message in raised.value.message and raised.value.is_final


def test_a_null_in_a_key_needs_an_index_that_takes_nulls_for_equal(
    over: Over, database: Database
) -> None:
    database.rows("create table t (k text unique, n bigint)")
    sink = over(database, text=CHANGES)
    sink.check()
    for row in (None, 1, False), (None, None, True):
        with pytest.raises(ConnectorError, match='"k" is null in a row') as raised:
            sink.prepare(changes(row))
        assert "UNIQUE NULLS NOT DISTINCT" in raised.value.hint
    sink.commit(sink.prepare(changes(("a", 1, False))))
    assert database.rows("select * from t") == [("a", 1)]
