"""`headrace query`: SQL over files at the shell, and what it leaves behind."""

import gzip
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from os import terminal_size
from pathlib import Path

import polars as pl
import pytest

from headrace.cli.run_live import render_table
from headrace.cli.shell_query.early_files import BLOCK_BYTES, begin_early
from headrace.cli.shell_query.live_table import build_live_table
from headrace.cli.shell_query.pipeline import QueryInputs, plan_query
from headrace.connectors.collected_rows import CollectedRows
from headrace.connectors.files.source import begin_reading
from headrace.core.plan import nodes
from headrace.core.types.data_types import BIGINT, STRING, Field, Schema
from headrace.core.types.stream_kinds import Retract, Upsert
from tests.support.cli.command_line import Headrace
from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import limited
from tests.support.stopped_jobs import Stopped

ORDERS = (
    {"id": 1, "city": "Wien", "amount": 20, "at": "2026-01-01T00:00:00Z"},
    {"id": 2, "city": "Roma", "amount": 5, "at": "2026-01-01T00:00:05Z"},
    {"id": 3, "city": "Wien", "amount": 7, "at": "2026-01-01T00:00:12Z"},
    {"id": 4, "city": None, "amount": None, "at": "2026-01-01T00:00:13Z"},
)


NOT_USED = {
    "difflib",
    "core.checkpoint.manifest",
    "core.checkpoint.storage",
    "core.dataflow.lookup_task",
    "core.dataflow.loop_task",
    "core.errors.old_imports",
    "core.patterns.pattern",
    "core.pipeline.user_files.function_checks",
    "core.plan.fingerprint",
    "core.state_reader",
}
"""Modules that take time to import, and that a query over files does not use."""


@pytest.fixture
def files(headrace: Headrace) -> Path:
    """A working folder with orders in two files and cities in CSV."""
    Path("orders").mkdir()
    lines = [json.dumps(row) + "\n" for row in ORDERS]
    Path("orders/1.jsonl").write_text("".join(lines[:2]))
    Path("orders/2.jsonl.gz").write_bytes(gzip.compress("".join(lines[2:]).encode()))
    Path("cities.csv").write_text("city;people\nWien;2000000\nRoma;2800000\nLinz;210000\n")
    return Path.cwd()


def list_files(folder: Path) -> set[Path]:
    return {*folder.rglob("*")}


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "select city, count(*) as n from 'orders/*' group by city order by n desc, city",
            "city,n\nWien,2\n,1\nRoma,1\n",
        ),
        ("select id from 'orders/*' order by amount desc nulls last", "id\n1\n3\n2\n4\n"),
        ("select id, amount from 'orders/*' order by 2, id", "id,amount\n4,\n2,5\n3,7\n1,20\n"),
        ("select id from 'orders/*' order by amount % 7 desc limit 2", "id\n1\n2\n"),
        ("select id from 'orders/*' order by id limit 2 offset 1", "id\n2\n3\n"),
        (
            "select city, count(*) as n from 'orders/*' group by 1 order by n * 9 + max(id) desc",
            "city,n\nWien,2\n,1\nRoma,1\n",
        ),
        ("select id as n from 'orders/*' order by n * amount desc, amount", "n\n3\n1\n2\n4\n"),
        (
            "select *, id % 2 as odd from 'orders/1.jsonl' order by odd + amount",
            "id,city,amount,at,odd\n2,Roma,5,2026-01-01T00:00:05Z,0\n"
            "1,Wien,20,2026-01-01T00:00:00Z,1\n",
        ),
        (
            "select distinct * from cities.csv order by people % 1000000 limit 1",
            "city,people\nWien,2000000\n",
        ),
        ("select * from cities.csv limit 1", "city,people\nWien,2000000\n"),
        (
            "with large as (select distinct city from 'orders/*' where amount > 6)"
            " select (select count(*) from large) as c, count(*) as n from 'orders/*'",
            "c,n\n1,4\n",
        ),
        ("select city from cities.csv except select city from 'orders/*'", "city\nLinz\n"),
        (
            "select city from cities.csv union all select city from 'orders/1.jsonl' order by city",
            "city\nLinz\nRoma\nRoma\nWien\nWien\n",
        ),
        (
            "select c.city, orders.id from cities.csv c left join `orders/1.jsonl` as orders "
            "on c.city = orders.city order by c.people",
            "city,id\nLinz,\nWien,1\nRoma,2\n",
        ),
        (
            "with paid as (select * from orders where amount > 6) "
            "select o.city, count(*) from paid o group by o.city".replace("orders", "'orders'"),
            "city,count(*)\nWien,2\n",
        ),
        (
            "select cities.people from cities.csv left anti join 'orders/1.jsonl' as o "
            "on o.city = cities.city",
            "people\n210000\n",
        ),
        ("select cities.people from `cities.csv` where cities.city = 'Linz'", "people\n210000\n"),
        ("select id from 'orders/*' where id > 9 order by id", "id\n"),
        ("select max(amount) as most from orders", "most\n20\n"),
        (
            "select '' as e, city, 'a,b' from orders where id > 2 order by id",
            'e,city,"\'a,b\'"\n"",Wien,"a,b"\n"",,"a,b"\n',
        ),
    ],
)
def test_final_rows(headrace: Headrace, files: Path, sql: str, rows: str) -> None:
    before = list_files(files)
    ran = headrace("query", sql, "--format", "csv")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == rows
    assert list_files(files) == before


@pytest.mark.parametrize("folder", ["csv", "json", "parquet"])
def test_columns_that_a_file_does_not_have_are_null(headrace: Headrace, folder: str) -> None:
    Path(folder).mkdir()
    files = {"1": "id,name\n1,a\n2,b\n", "2": "extra,id\nx,3\n"}
    if folder == "json":
        files = {
            "1": '{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n',
            "2": '{"extra": "x", "id": 3}',
        }
    for name, text in files.items():
        file = Path(folder, f"{name}.{folder}")
        if folder == "parquet":
            pl.read_csv(io.StringIO(text)).write_parquet(file)
        else:
            file.write_text(text)
    ran = headrace(
        "query", f"select id, name, extra from '{folder}/*' order by id", "--format", "csv"
    )
    assert ran.out == "id,name,extra\n1,a,\n2,b,\n3,,x\n", ran.err


def test_formats(headrace: Headrace, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "select id, at from 'orders/1.jsonl' order by id"
    times = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"]
    assert headrace("query", sql).out.splitlines()[1] == f" 1  {times[0]}"
    lines = headrace("query", sql, "--format", "json").out.splitlines()
    wanted = [{"id": at + 1, "at": time} for at, time in enumerate(times)]
    assert [json.loads(line) for line in lines] == wanted
    assert headrace("query", sql, "--to", "out.parquet").status == 0
    ran = headrace("query", "select id, at from out.parquet order by 1", "--format", "json")
    assert [json.loads(line) for line in ran.out.splitlines()] == wanted
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert headrace("query", sql, "--format", "parquet").err == (
        "headrace: wanted a file for parquet, got a terminal\n      --to FILE names it\n"
    )


@pytest.mark.parametrize("format", ["table", "json", "csv", "parquet"])
def test_first_rows_are_printed_once_all_are_read(
    headrace: Headrace, files: Path, format: str
) -> None:
    """Each file is a batch of its own, after which the first rows change."""
    for at, amount in enumerate((30, 90, 60), 3):
        Path(f"orders/{at}.jsonl").write_text(f'{{"id": {at}, "amount": {amount}}}\n')
    top = "select id, amount from 'orders/*' order by amount desc limit 2"
    for sql in (top, f"select * from ({top}) order by amount desc"):
        assert headrace("query", sql, "--format", format, "--to", f"out.{format}").status == 0
        if format == "parquet":
            assert pl.read_parquet("out.parquet").rows() == [(4, 90), (5, 60)]
        else:
            numbers = re.findall(r"\d+", Path(f"out.{format}").read_text())
            assert numbers == ["4", "90", "5", "60"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select cty from cities.csv", '1:8: unknown column "cty"'),
        ("select city\nfrom cities.csv\nwhere", "3:5: wanted a value, got the end"),
        ("select city from citys.csv", "1:18: no file matches citys.csv"),
        ("select city from 'x/*.jsonl'", "1:18: no file matches x/*.jsonl"),
        ("select a from notes.txt", "1:15: cannot detect the format of notes.txt"),
        ("select city from cities.csv order by 2", "1:38: wanted a position from 1 to 1, got 2"),
        ("select distinct city from cities.csv order by people", "1:47: after select distinct"),
        ("select city from cities.csv order by poeple", '1:38: unknown column "poeple"'),
        ("delete from cities.csv", '1:1: wanted "select", got "delete"'),
        (
            "select count(*) from 'orders/1.jsonl' group by tumble(at, interval 1 hour)",
            "1:55: tumble goes by the event time of rows, and at is not it",
        ),
        ("select o.city from cities.csv", '1:8: unknown input "o"'),
        (
            "select 1 from cities.csv join `cities.csv` on cities.city = cities.city",
            '1:31: two tables are called "cities"',
        ),
        ("from cities.csv", '1:1: wanted "select", got "from"'),
        ("select * from read_csv('cities.csv')", "1:15: a function is no table"),
        ("select * from orders/1.jsonl", "1:15: wanted the path of files in quotes, got orders/1"),
        ("select * from in/*.jsonl where id > 3", "1:15: wanted the path of files in quotes"),
        ("select * from cities.csv join ./b.csv on a = b", "1:31: wanted the path of files in"),
        ("select * from 'https://a.b/c.csv'", "1:15: https://a.b/c.csv is not on this machine"),
    ],
)
def test_mistakes_have_their_place(headrace: Headrace, files: Path, sql: str, message: str) -> None:
    Path("notes.txt").write_text("hello\n")
    ran = headrace("query", sql)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"query:{message}")
    assert "^" in ran.err


def test_a_record_that_does_not_fit_the_guess_fails(headrace: Headrace, files: Path) -> None:
    Path("orders/3.jsonl").write_text('{"id": 7}\n' * 40 + '{"id": "four"}\n')
    ran = headrace("query", "select sum(id) as n from 'orders/*'")
    assert (ran.status, ran.out) == (1, "")
    assert "3.jsonl" in ran.err
    assert "--skip-bad leaves such records out" in ran.err


def test_bad_records_are_left_out_and_counted(headrace: Headrace, files: Path) -> None:
    Path("orders/3.jsonl").write_text('{"id": 7}\n' * 40 + '{"id": "four"}\n{"id": \n')
    sql = "select sum(id) as n from 'orders/*'"
    ran = headrace("query", sql, "--skip-bad", "--format", "csv")
    assert (ran.status, ran.out) == (0, "n\n290\n")
    assert ran.err.endswith("orders/*: left out 2 bad records\n")


def test_a_column_that_is_only_an_alias_is_not_read(headrace: Headrace, files: Path) -> None:
    rows = [{"city": "Wien", "n": at} for at in range(20)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    Path("visits.jsonl").write_text(lines + '{"city": "Wien", "n": "many"}\n')
    sql = "select city, count(*) as n from visits.jsonl group by city"
    ran = headrace("query", sql, "--format", "csv")
    assert (ran.status, ran.out, ran.err) == (0, "city,n\nWien,21\n", "")


@pytest.mark.parametrize(
    ("sql", "is_early"),
    [
        ("select city, sum(amount) from 'orders/1.jsonl' where id > 0 group by city", True),
        ("select * from 'orders/1.jsonl' order by at", True),
        ("select a.id from 'orders/1.jsonl' a join 'orders/1.jsonl' b on a.id = b.amount", True),
        ("select count(*) as amount, city from 'orders/1.jsonl' group by city", False),
        ("select count(*) from 'orders/1.jsonl'", False),
    ],
)
def test_the_reading_begins_before_the_plan(files: Path, sql: str, is_early: bool) -> None:
    with begin_early(sql) as early:
        planned = plan_query(sql, QueryInputs(None, "", guesses=early.guesses))
        source = next(part for part in planned.plan if isinstance(part, nodes.Source))
        begun = early.readings.get(source.name)
        used = begin_reading(source, str(planned.folder), BLOCK_BYTES, begun)
        assert used is not None
        assert (used is begun) == is_early
        used.close()


def test_only_what_a_query_uses_is_imported(files: Path) -> None:
    sql = "select city, count(*) as n from 'orders/1.jsonl' group by city"
    script = (
        "import sys; from contextlib import ExitStack; from headrace.cli.main import "
        f"run_command_line; run_command_line(['query', {sql!r}], ExitStack()); "
        "print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=files, capture_output=True, text=True, check=True
    )
    assert "Wien" in ran.stdout
    imported = NOT_USED & {name.removeprefix("headrace.") for name in ran.stderr.split()}
    assert not imported, "imported at the start of a query, and not used"


def test_skip_bad_is_not_for_sources_of_a_pipeline(headrace: Headrace, files: Path) -> None:
    source = "{files: {path: orders}, schema: {id: tinyint}}"
    Path("p.yaml").write_text(
        f"name: p\nsources: {{ids: {source}}}\nsinks: {{all: {{from: ids, console: {{}}}}}}\n"
    )
    Path("orders/3.jsonl").write_text('{"id": 1000}\n')
    query = ("query", "select count(*) as n from ids", "-f", "p.yaml", "--format", "csv")
    ran = headrace(*query, "--skip-bad")
    assert ran.status == 2 and "--set sources.NAME.on_error=skip" in ran.err
    ran = headrace(*query, "--set", "sources.ids.on_error=skip")
    assert (ran.status, ran.out, ran.err) == (0, "n\n4\n", "ids: left out 1 bad record\n")


def test_columns_are_guessed_from_several_files(headrace: Headrace, files: Path) -> None:
    Path("orders/0.jsonl").write_text("\n")
    Path("orders/3.jsonl").write_text('{"id": 5, "amount": 1.5, "note": "late"}\n')
    ran = headrace("query", "select id, amount, note from orders order by 1", "--format", "csv")
    rows = "1,20.0,\n2,5.0,\n3,7.0,\n4,,\n5,1.5,late\n"
    assert (ran.status, ran.out) == (0, f"id,amount,note\n{rows}")
    Path("orders/4.csv").write_text("id\n1\n")
    assert "wanted files of one format, got orders/1.jsonl (json) and orders/4.csv (csv)" in (
        headrace("query", "select * from orders").err
    )


def test_values_in_names_of_folders_are_columns(headrace: Headrace, files: Path) -> None:
    values = (("day=2026-01-31/n=1", 1), ("day=2026-02-01/n=2", 2))
    for at, (folder, id) in enumerate(values):
        Path("days", folder).mkdir(parents=True)
        Path("days", folder, f"{at}.csv").write_text(f"id\n{id}\n")
    sql = "select *, n + 1 as m from days where day >= date '2026-01-31' order by day"
    ran = headrace("query", sql, "--format", "csv")
    rows = "1,2026-01-31,1,2\n2,2026-02-01,2,3\n"
    assert (ran.status, ran.err, ran.out) == (0, "", f"id,day,n,m\n{rows}")
    Path("days/day=2026-02-01/3.csv").write_text("id\n3\n")
    ran = headrace("query", "select * from days order by id", "--format", "csv")
    assert (ran.status, ran.out) == (0, "id,day\n1,2026-01-31\n2,2026-02-01\n3,2026-02-01\n")
    assert "not all files of days are in such a folder, which is therefore no column: n" in ran.err
    Path("days/n=4").mkdir()
    Path("days/n=4/4.csv").write_text("n,day\n9,8\n")
    ran = headrace("query", "select n, day from 'days/n=4'", "--format", "csv")
    assert ran.out == "n,day\n9,8\n"


def test_the_live_table_fits_the_terminal(headrace: Headrace, files: Path) -> None:
    planned = plan_query("select id, 'a [b] c' as text from orders", QueryInputs(None, "home"))
    rows = pl.DataFrame({"id": [1, 2], "text": ["[red]x", "y" * 60]})
    text = render_table(build_live_table(planned, rows, "2 rows"), terminal_size((20, 10)))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert [line.rstrip() for line in lines][:2] == ["id  text", " 1  [red]x"]
    assert len(lines) == 4 and max(map(len, lines)) <= 20
    narrow = build_live_table(planned, rows.head(1), "1 row after 2 s; Ctrl-C ends the query")
    text = render_table(narrow, terminal_size((60, 10)))
    assert "1 row after 2 s; Ctrl-C ends the query" in text


def test_state_is_a_table(headrace: Headrace, files: Path) -> None:
    Stopped(files, "from: rows, key: s, aggregate: {n: count(*), most: max(v)}", on_disk=True)
    sql = "select step.s, n from test.step where n > 1 order by s"
    ran = headrace("query", sql, "--home", "home", "--format", "csv")
    assert (ran.status, ran.err, ran.out) == (0, "", "s,n\na,2\nb,2\n")
    folder = headrace("state", "export", "test", "--home", "home").out.strip()
    sql = f"select step.s, city from '{folder}'.step left join cities.csv on n = length(city) - 2"
    ran = headrace("query", f"{sql} where s is not null order by 1, 2", "--format", "csv")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "s,city\na,Linz\na,Roma\na,Wien\nb,Linz\nb,Roma\nb,Wien\nc,\n"
    ran = headrace("query", f"select s from '{folder}'.setp")
    assert 'did you mean "step"?' in ran.err
    ran = headrace("query", f"select s from '{folder}'")
    assert f"as in '{folder}'.step" in ran.err


PIPELINE = """\
name: shop
sources:
  orders:
    files: {path: ../orders, watch: 1s}
    schema: {id: bigint, city: string, amount: bigint, at: timestamp}
    event_time: at
  newest:
    files: {path: ../orders}
    schema: {id: bigint, city: string, amount: bigint, at: timestamp}
    event_time: at
    table: {key: id}
steps:
  vienna: {from: orders, where: city = 'Wien'}
  cities:
    sql: select city, amount from newest
sinks:
  out: {from: vienna, files: {path: out}}
"""


def test_parts_of_a_pipeline_are_tables(headrace: Headrace, files: Path) -> None:
    Path("shop").mkdir()
    Path("shop/shop.yaml").write_text(PIPELINE)
    before = list_files(files)
    sql = "select n.city, amount, people from cities n join cities.csv c on n.city = c.city"
    ran = headrace("query", "-f", "shop/shop.yaml", f"{sql} order by 1, 2 desc", "--format", "csv")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "city,amount,people\nRoma,5,2800000\nWien,20,2000000\nWien,7,2000000\n"
    ran = headrace(
        "query",
        "with unread as (select * from orders) select count(*) as n from newest",
        *("-f", "shop/shop.yaml", "--format", "csv"),
    )
    assert (ran.status, ran.out) == (0, "n\n4\n")
    assert ran.err.startswith('query:1:6: warning: nothing reads the query "unread"')
    assert "shop.yaml" not in ran.err
    ran = headrace("query", "-f", "shop/shop.yaml", "select * from citis")
    assert ran.status == 2
    assert 'did you mean "cities"?' in ran.err
    assert list_files(files) == before


def test_rows_of_a_join_replace_the_rows_before(headrace: Headrace, files: Path) -> None:
    """Such rows are added and removed, and have a key by which they are collected."""
    rows = [{"id": at % 3, "city": "ab"[at % 2], "n": at} for at in range(9)]
    Path("moves.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = (
        "{files: {path: moves.jsonl}, schema: {id: bigint, city: string, n: bigint},"
        " table: {key: KEY, sequence: n}}"
    )
    sources = "".join(f"  by_{key}: {table.replace('KEY', key)}\n" for key in ("id", "city"))
    Path("p.yaml").write_text(
        f"name: p\nsources:\n{sources}sinks: {{out: {{from: by_id, files: {{path: out}}}}}}\n"
    )
    sql = "select a.id, b.city, b.n from by_id a join by_city b on a.city = b.city order by 1"
    small = ("--set", "settings.buffer.rows=2")
    ran = headrace("query", "-f", "p.yaml", sql, *small, "--format", "csv")
    assert (ran.status, ran.out, ran.err) == (0, "id,city,n\n0,a,8\n1,b,7\n2,a,8\n", "")


def test_a_step_takes_no_path(headrace: Headrace, files: Path) -> None:
    Path("p.yaml").write_text(
        PIPELINE.replace("../", "").replace("from newest", "from 'cities.csv'")
    )
    ran = headrace("validate", "p.yaml")
    assert ran.status == 2
    assert "wanted the name of a table, got 'cities.csv'" in ran.out
    assert "headrace query reads files by their path" in ran.out


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_changes_are_folded_however_they_are_batched(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connectors.collected_rows.MIN_PENDING_ROWS", 2)
    changes = [("a", 1, False), ("b", 1, False), ("a", 2, False), ("b", 1, True), ("c", 3, False)]
    frame = pl.DataFrame(changes * 3, ["key", "n", "_delete"], orient="row")
    columns = ("key", "n", "_delete")
    keyed = CollectedRows(None, Upsert(("key",), True), columns, True)
    counted = CollectedRows(None, Retract(), columns, True)
    for rows in frame.iter_slices(size):
        keyed.add_rows(rows)
        counted.add_rows(rows)
    schema = Schema((Field("key", STRING), Field("n", BIGINT)))
    assert sorted(keyed.take_rows(schema).rows()) == [("a", 2), ("c", 3)]
    wanted = [*[("a", 1)] * 3, *[("a", 2)] * 3, *[("c", 3)] * 3]
    assert sorted(counted.take_rows(schema).rows()) == wanted


WATCHED = """name: shop
sources:
  orders: {files: {path: in, watch: 200ms}, format: json, schema: {city: string}}
sinks:
  out: {from: orders, files: {path: out}}
"""


def test_a_followed_folder_is_read_until_ctrl_c(tmp_path: Path) -> None:
    """The table shows files that come later; Ctrl-C prints the rows so far, and is no failure."""
    (tmp_path / "shop.yaml").write_text(WATCHED)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.jsonl").write_text('{"city": "Wien"}\n')
    before = list_files(tmp_path)
    sql = "select city, count(*) as n from orders group by city order by city"
    ours, theirs = pty.openpty()
    arguments = ("query", "-f", "shop.yaml", "--follow", sql)
    env = {**os.environ, "TERM": "xterm"}
    process = limited(
        start_headrace(*arguments, cwd=tmp_path, env=env, stdout=theirs, stderr=theirs)
    )
    with process, os.fdopen(ours, "rb", buffering=0) as terminal:
        _read_until(terminal, r"Wien +1\b")
        added = tmp_path / "in/2.jsonl"
        added.write_text('{"city": "Wien"}\n{"city": "Roma"}\n')
        _read_until(terminal, r"Roma +1\b[\s\S]*Wien +2\b")
        process.send_signal(signal.SIGINT)
        shown = _read_until(terminal, r"\n *Roma +1 *\r\n *Wien +2 *\r\n$")
        assert process.wait(60) == 0, shown
        os.close(theirs)
    assert list_files(tmp_path) == before | {added}


ENDLESS = """name: endless
sources:
  numbers:
    generate: {columns: {x: id, at: timestamp_seconds(id)}}
    event_time: at
    watermark: {python: "seen.py:see"}
sinks: {out: {from: numbers, console: {}}}
"""
SEEN = """from pathlib import Path

def see(rows):
    Path("seen").touch()
"""


def test_a_query_that_is_stopped_says_that_its_rows_are_those_so_far(tmp_path: Path) -> None:
    (tmp_path / "endless.yaml").write_text(ENDLESS)
    (tmp_path / "seen.py").write_text(SEEN)
    arguments = (
        "query",
        "-f",
        "endless.yaml",
        "--format",
        "csv",
        "select count(*) as n from numbers",
    )
    pipe = subprocess.PIPE
    process = limited(start_headrace(*arguments, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True))
    while not (tmp_path / "seen").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "stopped: these are the rows so far\n")
    head, count = out.splitlines()
    assert head == "n"
    assert int(count) >= 0


def _read_until(terminal: io.RawIOBase, pattern: str) -> str:
    """Read what a terminal shows until it has the pattern, without the codes that draw it."""
    shown = ""
    while not re.search(pattern, shown):
        shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", (terminal.read(1 << 16) or b"").decode())
    return shown
