"""`headrace test --batch` and `--both`: tests of pipelines on Spark."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.tested_pipelines import FIVE, HEAD, run_test

pytestmark = pytest.mark.usefixtures("spark")

LATER = 'orders: [{ts: "10:05:00", user: b, amount: 1}]'


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def test_the_rows_of_a_test_are_the_input_of_a_batch(headrace: Headrace) -> None:
    ran = run_test(
        headrace,
        f"""
        given:
          - {FIVE}
          - expect: {{running: [{{user: a, n: 1}}]}}
          - checkpoint
          - {LATER}
          - restart
          - expect: {{totals: [{{user: a, total: 5}}]}}
          - bad: {{orders: '{{"ts": 1'}}
          - rescale: 2
        expect:
          totals: [{{user: b, total: 1}}]
          late: []
          running: [{{user: a, n: 1}}, {{user: b, n: 1}}]
          broken: {{count: 1, where: "source = 'orders'"}}
        """,
        "--both",
    )
    assert (ran.status, ran.out) == (0, ""), ran.out
    assert ran.err.startswith("1 test: 1 passed")


def test_a_difference_on_spark_is_shown(headrace: Headrace) -> None:
    test = f"given: [{FIVE}]\nexpect: {{totals: [{{user: a, total: 6}}]}}\n"
    ran = run_test(headrace, test, "--batch")
    assert ran.status == 1
    assert ran.out.startswith("failed: t (on Spark)\n  shop.yaml:26:14: totals: 1 row (-) did not")
    assert "    + a     5" in ran.out.splitlines()


SKIPPED = [
    ("given: [advance: 5m]\n", "time passes between its events (advance)"),
    ("given: []\nend: false\n", "its inputs do not end (end: false)"),
    (
        f"given: [{FIVE}, expect: {{totals: []}}]\n",
        "it compares totals between its events, and not",
    ),
    (
        "expect: {running: {changelog: true, rows: []}}\n",
        "it compares the changes of running as they",
    ),
    ("expect: {metrics: {late: 0}}\n", "it compares counters of a stream (metrics)"),
    (
        "given: [expect: {totals: {count: 0}}]\nexpect: {totals: []}\n",
        "it compares totals between its events by more than rows",
    ),
    (
        f'given: [{FIVE}, watermark: {{orders: "11:00"}}, {FIVE}]\nexpect: {{totals: []}}\n',
        "rows are late, and no row of a batch is",
    ),
]


@pytest.mark.parametrize(("test", "reason"), SKIPPED)
def test_a_test_that_needs_time_is_skipped(headrace: Headrace, test: str, reason: str) -> None:
    ran = run_test(headrace, test, "--batch", "--junit", "junit.xml")
    assert ran.status == 0
    assert ran.out.startswith(f"skipped: t\n  not run on Spark: {reason}")
    assert ran.err.startswith("1 test: 1 skipped")
    (suite,) = ElementTree.parse("junit.xml").getroot()
    assert suite.get("skipped") == "1"
    assert suite[0][0].tag == "skipped"


def test_a_step_that_a_batch_rejects_is_said_beside_the_result_here(headrace: Headrace) -> None:
    head = HEAD.replace("tumble: 1m, late_to: late", "tumble: 1m, time: processing")
    head = head.replace("  b: {from: late, console: {}}\n", "")
    ran = run_test(headrace, "given: []\nexpect: {totals: []}\n", "--both", head=head)
    assert ran.status == 0
    message = 'not run on Spark: step "totals": --batch has no windows of processing time'
    assert ran.out.startswith(f"passed: t\n  {message}")


def test_lookup_tables_and_rows_of_steps_are_given_on_spark(headrace: Headrace) -> None:
    head = """\
name: t
sources: {orders: {generate: {rows: 1, columns: {id: id}}}}
steps:
  named: {from: orders, lookup: {file: {path: t.csv}, on: {id: id}, add: {land: string}}}
  counts: {from: named, key: land, aggregate: {n: count(*)}}
  sizes: {from: counts, key: n, aggregate: {lands: count(*)}}
sinks: {a: {from: sizes, console: {}}}
"""
    test = """
    given: [orders: [{id: 1}, {id: 2}, {id: 3}]]
    tables: {named: [{id: 1, land: PL}, {id: 2, land: PL}]}
    expect: {counts: [{land: PL, n: 2}, {land: ~, n: 1}]}
    """
    ran = run_test(headrace, test, "--both", head=head)
    assert (ran.status, ran.out) == (0, ""), ran.out
    test = """
    given: [named: [{id: 1, land: PL}, {id: 2, land: DE}]]
    expect: {sizes: [{n: 1, lands: 2}]}
    """
    ran = run_test(headrace, test, "--both", head=head)
    assert (ran.status, ran.out) == (0, ""), ran.out


def test_a_failure_on_spark_is_shown_or_expected(headrace: Headrace) -> None:
    Path("code.py").write_text("def fail(rows):\n    raise ValueError('no such card')\n")
    head = """\
name: t
sources: {orders: {generate: {rows: 1, columns: {id: id}}}}
steps: {mapped: {from: orders, map: {python: code.py:fail, returns: {n: int}}}}
sinks: {a: {from: mapped, console: {}}}
"""
    given = "given: [orders: [{id: 1}]]\n"
    ran = run_test(headrace, f"{given}expect: {{fails: no such card}}\n", "--both", head=head)
    assert (ran.status, ran.out) == (0, ""), ran.out
    ran = run_test(headrace, given, "--batch", head=head)
    assert ran.status == 1
    assert "the job has failed: mapped: code.py:2: ValueError: no such card" in ran.out
    ran = run_test(headrace, "given: []\nexpect: {fails: card}\n", "--batch", head=head)
    assert 'the job was expected to fail with "card", and it did not fail' in ran.out


def test_expectations_are_not_fixed_on_spark(headrace: Headrace) -> None:
    ran = run_test(headrace, "given: []\n", "--batch", "--fix")
    assert ran.status == 2
    assert "--fix does not go with --batch or --both" in ran.err
