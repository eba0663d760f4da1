"""Lookups in databases: SQLite, and a real PostgreSQL."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from headrace.connectors.tables.sql_engine import SqlQuery
from headrace.core.api.failures import ConnectorError
from headrace.core.plan.explain import explain
from tests.support.tables.lookups import IDS, SCHEMA, Asking
from tests.support.tables.postgres import PASSWORD, Server

MADE = """
create table customers (id bigint primary key, name text, tier integer, since date,
  seen timestamp, owed numeric(10, 2), active boolean);
insert into customers values (4, 'Ann', 1, '2020-01-31', '2026-01-31 08:00:00', 12.50, true),
  (6, null, null, null, null, null, null);
create table rates (land text, currency text, rate double precision);
insert into rates values ('DE', 'EUR', 1.5), ('DE', 'DEM', 2.5), ('FR', 'EUR', 3.5);
create view big as select id, name from customers where id > 4;
"""
ADD = """{name: string, tier: int, since: date, seen: timestamp, owed: "decimal(10,2)",
  active: boolean}"""
ANN = ("Ann", 1, date(2020, 1, 31), datetime(2026, 1, 31, 8, tzinfo=UTC), Decimal("12.50"), True)


@pytest.fixture(scope="module")
def postgres(server: Server) -> Server:
    engine = sa.create_engine(server.url)
    with engine.begin() as connection:
        connection.exec_driver_sql(MADE)
    engine.dispose()
    return server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Create a database with these tables."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        return server.url
    made = sqlite3.connect(tmp_path / "c.db")
    made.executescript(MADE)
    made.close()
    return "sqlite:///c.db"


def asking(
    folder: Path, url: str, *more: str, table: str = "customers", add: str = ADD, after: str = ""
) -> Asking:
    """Build a lookup in a database."""
    lines = (f'sql: {{url: "{url}", table: {table}}}', "on: {id: customer}", f"add: {add}", *more)
    return Asking(folder, "\n".join(lines), SCHEMA, after)


def test_rows_of_all_types_are_found(tmp_path: Path, url: str) -> None:
    job = asking(tmp_path, url)
    outcome, _ = job.run(IDS)
    assert outcome.failure is None, outcome.failure
    nothing = (None,) * 6
    assert [row[2:] for row in job.rows()] == [ANN, nothing, nothing, nothing]


def test_without_types_columns_are_texts(tmp_path: Path, url: str) -> None:
    job = asking(tmp_path, url, add="[name, tier, since, seen, active]", table="customers")
    outcome, _ = job.run(IDS.head(1))
    assert outcome.failure is None, outcome.failure
    seen = "2026-01-31T08:00:00.000000Z"
    assert job.rows() == [(0, 4, "Ann", "1", "2020-01-31", seen, "true")]


def test_a_key_of_several_columns(tmp_path: Path, url: str) -> None:
    lookup = f"""
sql: {{url: "{url}", table: rates, keys_per_query: 2}}
on: {{land: "upper(l)", currency: c}}
add: {{rate: double}}
"""
    job = Asking(tmp_path, lookup, "{l: string, c: string}")
    rows = pl.DataFrame({"l": ["de", "de", "fr", "fr"], "c": ["EUR", "DEM", "EUR", "DEM"]})
    outcome, _ = job.run(rows)
    assert outcome.failure is None, outcome.failure
    assert [row[2] for row in job.rows()] == [1.5, 2.5, 3.5, None]


def test_a_day_that_python_has_not_is_not_there_and_others_are_found(
    tmp_path: Path, url: str
) -> None:
    lookup = f'sql: {{url: "{url}", table: customers}}\non: {{since: at}}\nadd: [name]'
    job = Asking(tmp_path, lookup, "{at: date}", "select: {name: name}")
    of_ann = (ANN[2] - date(1970, 1, 1)).days
    at = pl.Series("at", [2_932_897, of_ann, 2**31 - 1], dtype=pl.Int32)
    outcome, _ = job.run(at.cast(pl.Date).to_frame())
    assert outcome.failure is None, outcome.failure
    assert job.rows() == [(None,), ("Ann",), (None,)]


def test_a_view_is_a_table_and_misses_are_dropped(tmp_path: Path, url: str) -> None:
    job = asking(tmp_path, url, "on_miss: drop", table="big", add="[name]")
    outcome, _ = job.run(IDS)
    assert outcome.failure is None, outcome.failure
    assert job.rows() == [(3, 6, None)]


def test_several_rows_for_a_key_are_reported(tmp_path: Path, url: str) -> None:
    lookup = f'sql: {{url: "{url}", table: rates}}\non: {{land: l}}\nadd: {{rate: double}}'
    outcome, _ = Asking(tmp_path, lookup, "{l: string}").run(pl.DataFrame({"l": ["FR", "DE"]}))
    assert outcome.failure is not None
    assert outcome.failure.message.startswith("the table has several rows for land = DE")


@pytest.mark.parametrize("keys_per_query", [1, 500])
def test_several_rows_for_a_key_fail_the_rows_of_that_key_alone(
    tmp_path: Path, url: str, keys_per_query: int
) -> None:
    lookup = f"""
sql: {{url: "{url}", table: rates, keys_per_query: {keys_per_query}}}
on: {{land: l}}
add: {{rate: double}}
cache: {{rows: 10, ttl: 1m}}
"""
    job = Asking(tmp_path, lookup, "{l: string}", "on_error: {to: bad}")
    job.sinks = "dead: {from: bad, memory: {data: dead}}"
    rows = pl.DataFrame({"l": ["FR", "DE", "IT", "DE", "FR"]})
    outcome, counts = job.run(rows, rows)
    assert outcome.failure is None, outcome.failure
    assert job.rows() == [("FR", 3.5), ("IT", None), ("FR", 3.5)] * 2
    assert counts.bad_rows == 4
    dead = str(pl.concat(job.memory.outputs["dead"]).rows())
    error = "the table has several rows for land = DE: a lookup needs one row per key"
    assert dead.count(error) == 4


def test_what_is_not_there_is_reported_at_the_start(tmp_path: Path, url: str) -> None:
    error = asking(tmp_path, url, table="customer").refusal(IDS)
    assert error.message == 'there is no table "customer"'
    assert error.hint == 'did you mean "customers"?'
    error = asking(tmp_path, url, add="[nam]").refusal(IDS)
    assert error.message == 'the table "customers" has no column "nam"'
    assert error.hint == 'did you mean "name"?'
    with pytest.raises(ConnectorError, match="has no column"):
        asking(tmp_path, url, add="[nam]").look()
    assert asking(tmp_path, url).look().endswith(", table customers")


def test_a_key_of_another_type_is_reported_at_the_start(tmp_path: Path, url: str) -> None:
    lookup = f'sql: {{url: "{url}", table: customers}}\non: {{name: customer}}\nadd: [tier]'
    error = Asking(tmp_path, lookup, SCHEMA).refusal(IDS)
    assert error.message == '"name" is TEXT in the database, and bigint in on'


def test_a_value_that_does_not_fit_fails_its_row_alone(tmp_path: Path, url: str) -> None:
    job = asking(tmp_path, url, add="{name: int}", after="on_error: skip")
    outcome, counts = job.run(IDS)
    assert outcome.failure is None, outcome.failure
    assert [row[0] for row in job.rows()] == [1, 2, 3]
    assert counts.bad_rows == 1
    outcome, _ = asking(tmp_path, url, add="{name: int}").run(IDS)
    assert outcome.failure is not None
    said = 'column "name": wanted int, the table has "Ann" (lookup of id = 4)'
    assert outcome.failure.message == said


def test_a_password_is_never_shown(tmp_path: Path, postgres: Server) -> None:
    job = asking(tmp_path, postgres.url)
    for text in (explain(job.plan()), job.look()):
        assert "://****@127.0.0.1" in text
        assert "cret" not in text
    wrong = postgres.url.replace("se%40cret", "guessed")
    error = asking(tmp_path, wrong).refusal(IDS)
    assert "password authentication failed" in error.message
    assert "guessed" not in error.message
    assert PASSWORD not in error.message


@pytest.mark.parametrize("url", ["me:se/same@host/db", "me:se?same@host/db", "me:se#same@h/db"])
def test_a_password_with_signs_in_it_is_not_shown_either(tmp_path: Path, url: str) -> None:
    job = asking(tmp_path, f"postgresql+psycopg://{url}")
    assert "(url postgresql+psycopg://****, table customers)" in explain(job.plan())


def test_a_port_that_is_none_is_reported_without_what_stands_there(tmp_path: Path) -> None:
    error = asking(tmp_path, "postgresql+psycopg://me:sesame/db").refusal(IDS)
    assert "number" in error.message
    assert "sesame" not in f"{error.message} {error.hint}"


def test_a_query_that_takes_too_long_is_broken_off_in_the_database(
    tmp_path: Path, postgres: Server
) -> None:
    engine = sa.create_engine(postgres.url)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "create or replace view slow as select id, name from customers, pg_sleep(600)"
        )
    start = time.monotonic()
    job = asking(tmp_path, postgres.url, "timeout: 300ms", "retries: 0", table="slow", add="[name]")
    outcome, _ = job.run(IDS)
    assert time.monotonic() - start < 300
    assert outcome.failure is not None
    assert outcome.failure.message == "no answer within 300ms (lookup of id = 4)"
    busy = "select count(*) from pg_stat_activity where query ~ 'slow' and state = 'active' "
    with engine.connect() as connection:
        while connection.exec_driver_sql(busy + "and pid <> pg_backend_pid()").scalar():
            assert time.monotonic() - start < 300, "the query goes on"
            connection.exec_driver_sql("select pg_sleep(0.05)")
    engine.dispose()


def test_a_query_that_has_not_reached_the_database_yet_is_cancelled_there() -> None:
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n"
    query = SqlQuery()
    with closing(sqlite3.connect(":memory:")) as connection:
        with pytest.raises(sqlite3.OperationalError, match="interrupted"), query.use(connection):
            thread = threading.Thread(target=query.cancel)
            thread.start()
            while not query.is_cancelled:
                time.sleep(0.001)
            connection.execute(endless).fetchall()
        thread.join()
        with pytest.raises(ConnectorError, match="was cancelled"), query.use(connection):
            raise AssertionError("a cancelled query has begun")


def test_a_file_of_sqlite_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    error = asking(tmp_path, "sqlite:///none.db").refusal(IDS)
    assert error.message == "there is no file none.db"
    assert not (tmp_path / "none.db").exists()


def test_a_database_nobody_knows_and_a_driver_that_is_missing_are_reported(tmp_path: Path) -> None:
    error = asking(tmp_path, "nodb://host/db").refusal(IDS)
    assert "nodb" in error.message
    error = asking(tmp_path, "mysql+pymysql://host/db").refusal(IDS)
    assert error.message == 'the driver "pymysql" of this database is not installed'


@pytest.mark.parametrize(
    ("lookup", "module", "said", "extra"),
    [
        ('sql: {url: "sqlite:///c.db", table: c}', "sqlalchemy", "SQLAlchemy", "sql"),
        ('http: {url: "http://h/{id}"}', "aiohttp", "aiohttp", "http"),
    ],
)
def test_a_package_that_is_missing_is_reported_with_what_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lookup: str, module: str, said: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    job = Asking(tmp_path, f"{lookup}\non: {{id: customer}}\nadd: [name]", SCHEMA)
    error = job.refusal(IDS)
    assert error.message == f"this lookup needs {said}, which is not installed"
    assert error.hint == f'pip install "headrace[{extra}]"'
