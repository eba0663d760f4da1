"""Mistakes in tests: each with its place, all at once, and exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace

PIPELINE = """\
name: shop
sources:
  orders:
    kafka: {brokers: "localhost:9092", topic: orders, group: shop}
    schema: {ts: timestamp, user: string not null, amount: "decimal(4,2)", tags: array<int>}
    event_time: ts
    on_error: skip
  plain:
    generate: {rows: 3, columns: {id: id}}
steps:
  totals: {from: orders, key: user, window: {tumble: 1m}, aggregate: {total: sum(amount)}}
  running: {from: orders, key: user, aggregate: {n: count(*)}}
  named: {from: plain, lookup: {file: {path: t.csv}, on: {id: id}, add: {land: string}}}
sinks:
  a: {from: totals, console: {}}
  b: {from: running, console: {}}
  c: {from: named, console: {}}
tests:
  - name: t
    tables: {named: []}
"""

READABLE = '{"ts": "2026-01-31T10:00:00Z", "user": "a"}'
ROW = "user: a, amount: 1"

GIVEN = [
    ("- order: []", ":22:9", 'there is no source or step "order"', 'did you mean "orders"?'),
    ("- nothing: []", ":22:9", 'no source or step "nothing"', "the sources are orders, plain"),
    ("- watermark: {totals: 2026-01-31}", ":22:21", '"totals" is no source', "as in - totals:"),
    ("- ordres: {x: 1}", ":22:17", "ordres: wanted a list of rows", "got a mapping"),
    ("- orders: [5]", ":22:18", "orders: wanted a row, such as", 'got "5"'),
    ("- orders: [{user: a, usr: a}]", ":22:28", 'there is no column "usr"', 'did you mean "user"?'),
    ("- orders: [{amount: 1}]", ":22:18", 'the row has no value of "user"', "which cannot be null"),
    ("- orders: [{user: ~}]", ":22:18", 'the row has no value of "user"', ""),
    ("- orders: [{user: [a]}]", ":22:26", "user: wanted string, got a list", ""),
    (f"- orders: [{{{ROW}23}}]", ":22:36", 'wanted decimal(4,2), got "123"', ""),
    (f"- orders: [{{{ROW}.005}}]", ":22:36", 'wanted decimal(4,2), got "1.005"', ""),
    (f"- orders: [{{{ROW}, tags: [1, x]}}]", ":22:49", 'tags: wanted int, got "x"', ""),
    (f"- orders: [{{{ROW}, ts: noon}}]", ":22:43", 'ts: wanted timestamp, got "noon"', "as in"),
    (f'- orders: [{{{ROW}, ts: "10:00"}}]', ":22:44", 'ts: "10:00" has no day', "add date:"),
    ("- orders: []\n        plain: []", ":22:9", "wanted one event in an item of the list", "dash"),
    ("- chekpoint", ":22:9", 'got "chekpoint"', 'did you mean "checkpoint"?'),
    ("- restart: now", ":22:9", "restart: has no value", "write it as - restart"),
    ("- advance: 5 minutes", ":22:18", "advance: wanted a duration", 'did you mean "5m"?'),
    ("- rescale: 0", ":22:18", "rescale: wanted a whole number from 1 to 64", ""),
    ("- watermark: 2026-01-31", ":22:20", "watermark: wanted a mapping by source", ""),
    ("- watermark: {}", ":22:20", "watermark: wanted a source, got none", ""),
    ("- watermark: {orders: soon}", ":22:29", 'wanted a time, got "soon"', "as in"),
    ("- watermark: {plain: 2026-01-31}", ":22:21", 'the rows of "plain" have no event time', ""),
    ("- idle: {orders: 1}", ":22:24", '"orders" has no split 1', "its only split is 0"),
    ("- splits: {orders: []}", ":22:26", "orders: wanted rows of each split, got none", ""),
    (
        '- bad: {orders: \'{"ts": "2026-01-31T10:00:00Z", "user": "a"}\'}',
        ":22:24",
        '"orders" can read this record',
        "as a row",
    ),
]

EXPECTED = [
    ("{}", ":21:13", "expect: wanted a stream, got none", ""),
    ("{total: []}", ":21:14", 'there is no stream "total"', 'did you mean "totals"?'),
    ("{b: []}", ":21:14", '"b" is a sink', 'it writes "running"'),
    ("{running: 3}", ":21:23", "running: wanted a list of rows ([] is none)", ""),
    ("{running: [{user: a}]}", ":21:24", 'the expected row has no "n"', "match: subset"),
    ("{running: [{user: a, n: x}]}", ":21:37", 'n: wanted bigint, got "x"', ""),
    ("{running: {match: subset}}", ":21:14", "running: nothing is compared", "add one of"),
    ("{running: {counts: 1}}", ":21:24", 'unknown key "counts"', 'did you mean "count"?'),
    ("{running: {count: 1, within: 2}}", ":21:34", "within: there are no rows to compare", ""),
    ("{running: {where: n}}", ":21:31", "where: wanted a condition", "type bigint"),
    ("{running: {where: m > 1}}", ":21:31", 'unknown column "m"', ""),
    ("{totals: {count: 1, changelog: true}}", ":21:14", "it has no changelog", "remove"),
    ("{metrics: {latte: 1}}", ":21:24", 'unknown key "latte"', 'did you mean "late"?'),
]


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def check(headrace: Headrace, text: str, *messages: str) -> None:
    """Check that both commands report these texts, and nothing else."""
    Path("shop.yaml").write_text(text, "utf-8")
    ran = headrace("test", "shop.yaml")
    assert ran.status == 2
    for message in messages:
        assert message in ran.out
    problems = [line for line in ran.out.splitlines() if line.startswith("shop.yaml:")]
    assert len(problems) == 1, ran.out
    validated = headrace("validate", "shop.yaml")
    assert validated.status == 2
    assert ran.out in validated.out


@pytest.mark.parametrize(("event", "place", "message", "hint"), GIVEN)
def test_a_mistake_in_an_event_has_its_place(
    headrace: Headrace, event: str, place: str, message: str, hint: str
) -> None:
    check(headrace, f"{PIPELINE}    given:\n      {event}\n", f"shop.yaml{place}: ", message, hint)


@pytest.mark.parametrize(("expected", "place", "message", "hint"), EXPECTED)
def test_a_mistake_in_an_expectation_has_its_place(
    headrace: Headrace, expected: str, place: str, message: str, hint: str
) -> None:
    check(headrace, f"{PIPELINE}    expect: {expected}\n", f"shop.yaml{place}: ", message, hint)


def test_all_mistakes_are_reported_at_once(headrace: Headrace) -> None:
    given = "    given:\n      - order: []\n      - orders: [{usr: a, user: b, amount: x}]\n"
    Path("shop.yaml").write_text(f"{PIPELINE}{given}      - chekpoint\n    expect: 3\n", "utf-8")
    ran = headrace("test", "shop.yaml")
    places = [line.split(":")[1] for line in ran.out.splitlines() if line.startswith("shop.yaml:")]
    assert places == ["22", "23", "23", "24", "25"]


def test_a_watermark_can_not_go_back(headrace: Headrace) -> None:
    later, earlier = (f"      - watermark: {{orders: 2026-01-31T10:0{n}:00Z}}\n" for n in (1, 0))
    text = f"{PIPELINE}    given:\n{later}{earlier}"
    check(headrace, text, 'shop.yaml:23:29: test "t": the watermark of "orders" goes back')


def test_a_lookup_needs_the_rows_of_its_table(headrace: Headrace) -> None:
    text = PIPELINE.replace("    tables: {named: []}\n", "    given: []\n")
    message = 'test "t": the step "named" looks up a table, and the test has no rows of it'
    hint = "add tables: {named: [{id: ..., land: ...}]}"
    check(headrace, text, f"shop.yaml:19:11: {message}", hint)


QUERY = """\
name: shop
sources:
  orders: {generate: {rows: 3, columns: {id: id, land: "cast(id as string)"}}}
steps:
  named:
    lookups:
      people: {file: {path: p.csv}, on: [id], add: {name: string}}
      lands: {file: {path: l.csv}, on: [land], add: {zone: string}}
    sql: |
      select o.id, p.name, l.zone from orders o
      join people for system_time as of current_timestamp() as p on p.id = o.id
      left join lands for system_time as of current_timestamp() as l on l.land = o.land
sinks:
  out: {from: named, console: {}}
tests:
  - name: t
    given:
      - orders: [{id: 1, land: at}, {id: 2, land: it}]
    tables: {people: [{id: 1, name: ann}], lands: [{land: at, zone: east}]}
    expect: {named: [{id: 1, name: ann, zone: east}]}
"""


def test_tables_of_a_query_have_the_names_of_its_lookups(headrace: Headrace) -> None:
    Path("shop.yaml").write_text(QUERY, "utf-8")
    assert headrace("test", "shop.yaml").status == 0
    message = 'the query "named" looks up "people", and the test has no rows of it'
    hint = "add tables: {people: [{id: ..., name: ...}]}, or {people: []}"
    check(headrace, QUERY.replace("{people: [{id: 1, name: ann}], ", "{"), message, hint)
    message = 'no step looks up a table "persons"'
    check(headrace, QUERY.replace("{people: [", "{persons: [], people: ["), message)


@pytest.mark.parametrize(
    ("tests", "place", "message"),
    [
        ("  - nam: t\n    given: []\n", ":19:5", 'unknown key "nam"'),
        ("  - given: []\n", ":19:5", 'a test without "name"'),
        ("  - name: t\n", ":19:5", "neither given nor expect"),
        ("  - t\n", ":19:5", "tests: wanted a test, such as"),
        ("  name: t\n", ":19:3", "tests: wanted a list of tests, got a mapping"),
        ("  - {name: t, given: [], date: today}\n", ":19:32", "date: wanted a date"),
    ],
)
def test_a_mistake_in_the_form_of_a_test_has_its_place(
    headrace: Headrace, tests: str, place: str, message: str
) -> None:
    text = PIPELINE[: PIPELINE.index("  - name: t")]
    lookup = "lookup: {file: {path: t.csv}, on: {id: id}, add: {land: string}}"
    text = text.replace(lookup, "where: id > 1")
    check(headrace, f"{text}{tests}", message, f"shop.yaml{place}")


def test_two_tests_of_one_name_are_a_mistake(headrace: Headrace) -> None:
    tests = "    given: []\n  - {name: t, given: [], tables: {named: []}}\n"
    message = 'a second test "t", the first is on line 19'
    check(headrace, f"{PIPELINE}{tests}", "shop.yaml:22:12: ", message)


def test_a_test_file_names_its_pipeline(headrace: Headrace) -> None:
    Path("other.test.yaml").write_text("tests: []\n", "utf-8")
    ran = headrace("test", "other.test.yaml")
    assert (ran.status, ran.out.splitlines()[0]) == (
        2,
        "other.test.yaml:1:1: there is no other.yaml beside this file",
    )
    Path("other.test.yaml").write_text("pipeline: shp.yaml\ntest: []\n", "utf-8")
    ran = headrace("test", "other.test.yaml")
    assert "other.test.yaml:1:11: there is no file shp.yaml" in ran.out
    assert 'other.test.yaml:2:1: unknown key "test"' in ran.out


def test_a_pipeline_with_a_mistake_is_not_tested(headrace: Headrace) -> None:
    text = PIPELINE.replace("sum(amount)", "sum(amont)") + "    given: []\n"
    check(headrace, text, 'unknown column "amont"')


def test_no_tests_and_no_matching_test_are_refused(headrace: Headrace) -> None:
    ran = headrace("test")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "headrace: there are no tests")
    Path("shop.yaml").write_text(f"{PIPELINE}    given: []\n", "utf-8")
    ran = headrace("test", "-k", "x")
    assert (ran.status, ran.err) == (2, 'headrace: no test has "x" in its name\n')
    assert headrace("test", "-k", "T").status == 0


def test_a_test_file_is_validated_with_its_pipeline(headrace: Headrace) -> None:
    Path("shop.yaml").write_text(f"{PIPELINE}    given: [nonsense]\n", "utf-8")
    tests = "tests:\n  - {name: u, tables: {named: []}, expect: {total: []}}\n"
    Path("shop.test.yaml").write_text(tests, "utf-8")
    ran = headrace("validate", "shop.test.yaml")
    assert ran.status == 2
    errors = [line for line in ran.out.splitlines() if line.startswith("shop.test.yaml")]
    assert errors == ['shop.test.yaml:2:45: test "u": there is no stream "total"']
    assert "nonsense" not in ran.out
    Path("shop.test.yaml").write_text(tests.replace("total:", "totals:"), "utf-8")
    ran = headrace("validate", "shop.test.yaml")
    assert ran.status == 0
    assert "1 warning; checked 2 sources" in ran.err
    Path("alone.test.yaml").write_text(tests, "utf-8")
    ran = headrace("validate", "alone.test.yaml")
    assert ran.status == 2
    assert "alone.test.yaml:1:1: there is no alone.yaml beside this file" in ran.out
