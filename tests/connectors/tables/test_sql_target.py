"""Tables that a SQL sink may write, and mistakes with their messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.core.api.failures import ConnectorError
from tests.support.plans import plan_of, said
from tests.support.tables.databases import Database
from tests.support.tables.opened_sql_sinks import APPENDS, CHANGES, Over, named
from tests.support.tables.postgres import PASSWORD, Server


def statements(hint: str) -> Sequence[str]:
    """Return the statements in a hint."""
    return [each for each in hint.split("; ") if each.startswith(("ALTER ", "CREATE "))]


@pytest.mark.parametrize(
    ("table", "text", "message"),
    [
        ("id bigint", APPENDS, 'table "t": it has no column "name"'),
        ("id int, name text", APPENDS, 'table "t": "id" is integer, and bigint in the rows'),
        ("k text, n bigint", CHANGES, 'table "t": it has no unique index on (k), the key'),
        (
            "k text, n numeric(18), primary key (k, n)",
            CHANGES,
            '"n" is numeric(18,0), and bigint in the rows; it has no unique index on (k)',
        ),
    ],
)
def test_a_hint_mends_a_table_that_does_not_fit(
    over: Over, database: Database, table: str, text: str, message: str
) -> None:
    database.rows(f"create table t ({table})")
    sink = over(database, text=text)
    error = sink.refusal()
    assert message in error.message
    for statement in statements(error.hint.replace(", or cast it in a step before", "")):
        database.rows(statement)
    sink.check()


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        (
            "id bigint, name text, more int not null",
            '"more" is not null and has no default, and the rows have no such column',
            "add it in a step before",
        ),
        (
            "id bigint, name text generated always as (id::text) stored",
            '"name" is computed by the database',
            'drop "name" in a step before',
        ),
    ],
)
def test_a_table_that_cannot_take_the_rows_is_refused(
    over: Over, database: Database, table: str, message: str, hint: str
) -> None:
    database.rows("create function pg_temp.f() returns int language sql as 'select 1'")
    database.rows(f"create table t ({table.replace('id::text', 'substr($$a$$, 1)')})")
    error = over(database).refusal()
    assert message in error.message and hint in error.hint


def test_a_missing_table_is_refused_with_the_statement_that_creates_it(
    over: Over, database: Database
) -> None:
    database.rows("create table totals (id bigint)")
    sink = over(database, "table: total, key: id", schema="id: bigint not null, n: float")
    error = sink.refusal()
    assert error.message == 'there is no table "total"'
    created = 'CREATE TABLE IF NOT EXISTS "total" ("id" bigint NOT NULL, "n" real, '
    assert error.hint == (
        f'did you mean "totals"? Or create: true creates it, as by {created}PRIMARY KEY ("id"))'
    )
    database.rows(error.hint.partition(" as by ")[2])
    sink.check()


def test_a_view_and_a_table_that_may_not_be_written_are_refused(
    over: Over, database: Database, server: Server
) -> None:
    database.rows("create table t (id bigint, name text); create view v as select * from t")
    assert over(database, "table: v").refusal().message.startswith('"v" is no table')
    (schema,) = database.rows("select current_schema()")[0]
    database.rows("drop role if exists guest; create role guest login password 'guest'")
    database.rows(f"grant usage on schema {schema} to guest; grant select on t to guest")
    guest = Database(database.url.replace("tester:se%40cret", "guest:guest"), database.connection)
    error = over(guest).refusal()
    assert error.message == 'the user lacks the privilege INSERT on "t"'
    database.rows("grant insert on t to guest")
    with pytest.raises(ConnectorError, match="permission denied for schema") as raised:
        over(guest).check()
    assert "GRANT CREATE ON SCHEMA" in raised.value.hint
    database.rows(f"grant create on schema {schema} to guest")
    over(guest).check()
    database.rows("drop owned by guest; drop role guest")


def test_a_password_is_never_shown(over: Over, database: Database) -> None:
    wrong = Database(database.url.replace("se%40cret", "sesame%21word"), database.connection)
    sink = over(wrong)
    with pytest.raises(ConnectorError, match="password authentication failed") as raised:
        sink.check()
    assert "sesame" not in raised.value.message
    database.rows("create table t (id bigint, name text)")
    sink = over(database)
    told = sink.do(sink.coordinator.describe())
    assert told.endswith(", table t") and "****@127.0.0.1" in told
    sink.check()
    handle = sink.prepare(named(1))
    assert PASSWORD not in str(handle) and "se%40cret" not in f"{handle}{told}"


def test_a_server_that_is_away_may_be_back_later(over: Over, database: Database) -> None:
    away = Database(database.url.replace("127.0.0.1:", "127.0.0.1:1"), database.connection)
    with pytest.raises(ConnectorError) as raised:
        over(Database("postgresql://u:p@127.0.0.1:1/d", away.connection)).check()
    assert not raised.value.is_final and "refused" in raised.value.message


SINK = "sql: {url: URL, table: t}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            APPENDS.replace("SQL", "sql: {url: 'sqlite:///a.db', table: t}"),
            "the sql sink writes PostgreSQL only, and this is sqlite",
        ),
        (APPENDS.replace("SQL", SINK.replace("t}", "t, key: idd}")), 'key: unknown column "idd"'),
        (APPENDS.replace("SQL", SINK.replace("t}", "t, keys: id}")), 'sql: unknown key "keys"'),
        (
            APPENDS.replace("SQL", SINK.replace("t}", "t}, format: json")),
            '"sql" has no format',
        ),
        (
            CHANGES.replace("SQL", SINK.replace("t}", "t, key: [k, n]}")),
            'key: the rows are changes of (k), and "n" is not in that key [remove key:]',
        ),
        (
            CHANGES.replace("SQL", SINK)
            .replace("from: some", "from: gone")
            .replace("sinks:", "  gone: {from: some, select: {n: n}}\nsinks:"),
            "are added and removed, and have no key by which sql could write them",
        ),
        (APPENDS.replace("SQL", "sql: {url: URL, table: '${secret:T}'}"), "secret"),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path: Path, text: str, message: str) -> None:
    text = text.replace("SCHEMA", "id: bigint").replace("URL", "'postgresql://u@h/d'")
    found = said(tmp_path, f"name: t\n{text}")
    assert any(message in line for line in found), found


def test_a_column_that_is_not_there_is_told_once(tmp_path: Path) -> None:
    text = CHANGES.replace("SQL", SINK.replace("t}", "t, key: nope}"))
    found = said(tmp_path, f"name: t\n{text.replace('URL', 'postgresql://u@h/d')}")
    assert [line for line in found if "nope" in line or "key:" in line] == [found[0]]
    assert 'key: unknown column "nope"' in found[0]


def test_rows_that_replace_each_other_reach_one_writer(tmp_path: Path) -> None:
    sink = SINK.replace("URL", "'postgresql://u@h/d'").replace("t}", "t, key: id}, parallelism: 3")
    text = APPENDS.replace("SQL", sink).replace("SCHEMA", "id: bigint")
    (edge,) = plan_of(tmp_path, f"name: t\n{text}").edges
    assert edge.exchange == "hash" and [each.name for each in edge.key] == ["id"]
