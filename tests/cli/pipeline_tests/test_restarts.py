"""Tests of pipelines whose jobs are killed, saved and rescaled."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli.command_line import Headrace
from tests.support.cli.tested_pipelines import FIVE, STRICT, check_passes, run_test


def test_a_restart_loses_what_is_after_the_last_checkpoint_and_reads_it_again(
    headrace: Headrace,
) -> None:
    check_passes(
        headrace,
        f"""
        given:
          - {FIVE}
          - checkpoint
          - {FIVE}
          - restart
          - restart
          - expect: {{running: [{{user: a, n: 2}}]}}
        expect:
          totals: [{{user: a, total: 10}}]
        """,
    )


def test_a_job_resumes_from_a_savepoint_in_a_new_home(headrace: Headrace) -> None:
    check_passes(
        headrace,
        f"""
        given:
          - {FIVE}
          - expect: {{running: [{{user: a, n: 1}}]}}
          - {FIVE}
          - savepoint
          - {FIVE}
          - restart
          - expect: {{running: [{{user: a, n: 3}}]}}
          - savepoint
          - savepoint
          - rescale: 2
        expect:
          running: [{{user: a, n: 3}}]
          totals: [{{user: a, total: 15}}]
        """,
    )


def test_a_failed_job_takes_no_savepoint(headrace: Headrace) -> None:
    ran = run_test(headrace, "given: [bad: {orders: 'x'}, savepoint]\n", head=STRICT)
    assert ran.status == 1
    assert "shop.yaml:23:13: the job has failed: orders: bad record" in ran.out
    expected = "given: [bad: {orders: 'x'}, expect: {fails: bad record}, savepoint]\n"
    ran = run_test(headrace, expected, head=STRICT)
    assert ran.status == 1
    assert "the job has failed" in ran.out


def test_a_restart_before_any_checkpoint_begins_anew(headrace: Headrace) -> None:
    test = f"given: [{FIVE}, restart]\nexpect: {{running: [{{user: a, n: 1}}]}}\n"
    check_passes(headrace, test)


def test_a_restart_loads_user_code_anew(headrace: Headrace) -> None:
    code = "seen = []\n\ndef number(rows):\n    seen.extend(rows['amount'])\n"
    code += "    return rows.with_columns(n=len(seen)).select('n')\n"
    Path("code.py").write_text(
        "import polars as pl\n" + code.replace("len(seen)", "pl.lit(len(seen))")
    )
    head = """\
name: t
sources: {orders: {generate: {rows: 1, columns: {amount: id}}}}
steps: {numbered: {from: orders, map: {python: code.py:number, returns: {n: int}}}}
sinks: {a: {from: numbered, console: {}}}
"""
    given = (
        "given: [orders: [{amount: 1}], expect: {numbered: [{n: 1}]}, %s orders: [{amount: 1}]]\n"
    )
    check_passes(headrace, given % "restart," + "expect: {numbered: [{n: 1}]}\n", head)
    check_passes(headrace, given % "" + "expect: {numbered: [{n: 2}]}\n", head)


def test_a_restart_loads_modules_that_user_code_imports_anew(headrace: Headrace) -> None:
    Path("parts").mkdir()
    Path("parts/__init__.py").write_text("")
    Path("parts/counted.py").write_text("seen = []\n")
    Path("shared.py").write_text("from parts.counted import seen\n")
    code = "import polars as pl\nfrom shared import seen\n\ndef number(rows):\n"
    code += "    seen.extend(rows['amount'])\n"
    Path("code.py").write_text(f"{code}    return pl.DataFrame({{'n': [len(seen)]}})\n")
    head = """\
name: t
sources: {orders: {generate: {rows: 1, columns: {amount: id}}}}
steps: {numbered: {from: orders, map: {python: code.py:number, returns: {n: bigint}}}}
sinks: {a: {from: numbered, console: {}}}
"""
    given = "given: [orders: [{amount: 1}], expect: {numbered: [{n: 1}]}, restart,"
    test = f"{given} orders: [{{amount: 1}}], expect: {{numbered: [{{n: 1}}]}}]\n"
    check_passes(headrace, test, head)


def test_a_job_is_rescaled(headrace: Headrace) -> None:
    check_passes(
        headrace,
        f"""
        given:
          - {FIVE}
          - rescale: 4
          - {FIVE}
          - restart
        expect: {{totals: [{{user: a, total: 10}}]}}
        """,
    )
