"""`headrace test --create N` writes a test of the first rows of the real sources."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import limited
from tests.support.cli.tested_pipelines import BATCHED, HEAD
from tests.support.cli.worker_jobs import wait_for

FILES = HEAD.replace(
    'kafka: {brokers: "localhost:9092", topic: orders, group: shop}',
    'files: {path: "in/*.json"}',
)
ROWS = """\
{"ts": "2026-01-31T10:00:05Z", "user": "a", "amount": 5}
{"ts": "2026-01-31T10:01:30Z", "user": "b: c", "amount": null}
{"ts": "2026-02-01T10:00:00Z", "user": "a", "amount": 7}
"""
CREATED = """\
  - name: the first 2 rows
    date: 2026-01-31
    given:
      - orders:
          - {ts: "10:00:05", user: a, amount: 5}
          - {ts: "10:01:30", user: "b: c", amount: null}
    expect:
      totals: [{user: a, total: 5}, {user: "b: c", total: null}]
      late: []
      broken: []
      running: [{user: a, n: 1}, {user: "b: c", n: 1}]
"""


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def write(text: str = FILES, **files: str) -> None:
    """Write a pipeline and its input, by default one file."""
    Path("in").mkdir()
    Path("shop.yaml").write_text(text, "utf-8")
    for name, rows in (files or {"a": ROWS}).items():
        Path(f"in/{name}.json").write_text(rows, "utf-8")


def test_a_test_of_the_first_rows_is_written_beside_the_pipeline(headrace: Headrace) -> None:
    write()
    ran = headrace("test", "shop.yaml", "--create", "2")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "created: the first 2 rows\n  shop.test.yaml:2:11\n"
    assert Path("shop.test.yaml").read_text("utf-8") == f"tests:\n{CREATED}"
    assert Path("shop.yaml").read_text("utf-8") == FILES
    assert headrace("test").err.startswith("1 test: 1 passed")


def test_a_test_is_appended_to_those_that_are_there(headrace: Headrace) -> None:
    write()
    before = "# mine\ntests:\n  # one\n  - name: one\n    expect: {late: []} # none\n\n# end\n"
    Path("shop.test.yaml").write_text(before, "utf-8")
    for _ in range(2):
        assert headrace("test", "shop.test.yaml", "--create", "2").status == 0
    second = CREATED.replace("the first 2 rows", '"the first 2 rows, 2"')
    assert Path("shop.test.yaml").read_text("utf-8") == before.replace(
        "\n\n# end", f"\n{CREATED}{second}\n# end"
    )
    assert headrace("test").err.startswith("3 tests: 3 passed")


def test_a_test_is_written_into_the_section_of_the_pipeline(headrace: Headrace) -> None:
    write(f"{FILES}tests: [] # none\n")
    assert headrace("test", "shop.yaml", "--create", "2").status == 0
    assert Path("shop.yaml").read_text("utf-8") == f"{FILES}tests: # none\n{CREATED}"


def test_the_rows_of_several_splits_and_bad_records_are_given(headrace: Headrace) -> None:
    write(a='{"ts": 1\n' + ROWS, b="\n".join(ROWS.splitlines()[:2]))
    assert headrace("test", "shop.yaml", "--create", "10").status == 0
    assert """\
  - name: the first 5 rows
    date: 2026-01-31
    given:
      - splits:
          orders:
            - - {ts: "10:00:05", user: a, amount: 5}
              - {ts: "10:01:30", user: "b: c", amount: null}
              - {ts: "2026-02-01T10:00:00Z", user: a, amount: 7}
            - - {ts: "10:00:05", user: a, amount: 5}
              - {ts: "10:01:30", user: "b: c", amount: null}
      - bad: {orders: ["{\\"ts\\": 1"]}
""" in Path("shop.test.yaml").read_text("utf-8")
    assert headrace("test").status == 0


def test_tables_are_left_to_be_written(headrace: Headrace) -> None:
    write("""\
name: t
sources: {rows: {generate: {rows: 5, columns: {id: id}}}}
steps:
  named:
    from: rows
    lookup:
      http: {url: "http://localhost:1/{id}", headers: {Authorization: "Bearer sesame"}}
      on: {id: id}
      add: {land: {column: country, type: string}}
sinks: {a: {from: named, console: {}}}
""")
    ran = headrace("test", "shop.yaml", "--create", "1")
    assert ran.status == 0, ran.out
    assert ran.err == 'write the rows of the table of "named", then --fix the test\n'
    text = Path("shop.test.yaml").read_text("utf-8")
    assert "      - rows:\n          rows:\n            - {id: 0}\n" in text
    assert "    tables: {named: []}\n" in text
    assert "sesame" not in text


def test_changes_of_a_table_are_given(headrace: Headrace) -> None:
    head = FILES.replace("    event_time: ts\n    watermark: {delay: 10s}\n", "")
    head = head[: head.index("steps:")].replace("on_error: {to: broken}", "table: {key: [user]}")
    head += "sinks: {a: {from: orders, console: {}}}\n"
    deletion = '{"user": "a", "_change": "delete"}\n'
    write(head, a=ROWS.splitlines()[0] + "\n" + deletion)
    ran = headrace("test", "shop.yaml", "--create", "2")
    assert ran.status == 0, ran.out + ran.err
    text = Path("shop.test.yaml").read_text("utf-8")
    assert '          - {ts: "10:00:05", user: a, amount: 5}\n' in text
    assert "          - {ts: null, user: a, amount: null, _change: delete}\n" in text
    assert "      orders: []\n" in text


def test_a_test_that_gives_other_rows_in_other_ways_is_not_written(headrace: Headrace) -> None:
    Path("code.py").write_text(
        "import polars as pl\n\ndef count(rows):\n"
        "    return pl.DataFrame({'n': [len(rows)]}, schema={'n': pl.Int32})\n"
    )
    write(BATCHED.replace("rows: 1", "rows: 9"))
    ran = headrace("test", "shop.yaml", "--create", "5")
    assert ran.status == 1
    assert "  not created: the rows differ between the ways of running the test" in ran.out
    assert not Path("shop.test.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--create", "2"), "--create wants one pipeline or test file"),
        (("shop.yaml", "--create", "2", "--fix"), "--fix does not go with --create"),
        (("shop.yaml", "--create", "2", "-k", "x"), "-k does not go with --create"),
        (("shop.yaml", "--create", "0"), 'wanted a whole number from 1 to 1000, got "0"'),
        (("shop.yaml", "shop.yaml", "--create", "1"), "--create wants one pipeline"),
    ],
)
def test_wrong_options_are_refused(
    headrace: Headrace, arguments: tuple[str, ...], message: str
) -> None:
    write()
    ran = headrace("test", *arguments)
    assert (ran.status, message in ran.err) == (2, True), ran.err


def test_sources_that_cannot_be_read_are_told(headrace: Headrace) -> None:
    write(FILES.replace("in/*.json", "out/*.json"))
    ran = headrace("test", "shop.yaml", "--create", "2")
    assert ran.status == 2
    assert "orders: no file matches" in ran.err
    Path("shop.yaml").write_text(FILES, "utf-8")
    Path("in/a.json").write_text("", "utf-8")
    ran = headrace("test", "shop.yaml", "--create", "2")
    assert (ran.status, "the sources gave no rows" in ran.err) == (2, True)


def test_tests_in_brackets_are_left_as_they_are(headrace: Headrace) -> None:
    write(f"{FILES}tests: [{{name: t, expect: {{late: []}}}}]\n")
    ran = headrace("test", "shop.yaml", "--create", "2")
    assert (ran.status, "the list is written in brackets" in ran.err) == (2, True)


JOB = """\
name: shop
settings: {checkpoint: {every: 100ms}}
sources:
  orders:
    files: {path: "in/*.json", watch: 100ms}
    schema: {id: int}
steps:
  totals: {from: orders, aggregate: {n: count(*)}}
sinks:
  seen: {from: orders, files: {path: seen}}
  out: {from: totals, files: {path: out}, format: json}
"""


def test_a_test_is_made_of_the_rows_after_the_last_checkpoint_of_a_job(headrace: Headrace) -> None:
    write(JOB, a='{"id": 1}\n{"id": 2}\n')
    ran = headrace("test", "shop.yaml", "--create", "5", "--job")
    assert (ran.status, ran.err.splitlines()[0]) == (
        2,
        'headrace: there is no job "shop" in .headrace',
    )
    with limited(start_headrace("run", "shop.yaml", "--quiet", cwd=Path.cwd())) as job:
        wait_for(lambda: any(Path("seen").glob("*.jsonl")), "the first checkpoint")
        job.send_signal(signal.SIGSTOP)  # it runs, and reads nothing more
        Path("in/b.json").write_text('{"id": 3}\n', "utf-8")
        ran = headrace("test", "shop.yaml", "--create", "5", "--job")
        job.kill()
    assert ran.status == 0, ran.out + ran.err
    assert ran.out.startswith("created: the first row after checkpoint ")
    made = Path("shop.test.yaml").read_text("utf-8")
    assert "    given:\n      - orders:\n          - {id: 3}\n" in made
    assert "totals: [{n: 1}]" in made
    assert headrace("test").err.startswith("1 test: 1 passed")


def test_job_goes_with_create(headrace: Headrace) -> None:
    write()
    ran = headrace("test", "shop.yaml", "--job")
    assert ran.status == 2
    assert "--job goes with --create" in ran.err
