"""`headrace test` runs pipelines in virtual time: its events, expectations and failures."""

from __future__ import annotations

import time
from pathlib import Path
from textwrap import indent
from xml.etree import ElementTree

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.tested_pipelines import (
    BATCHED,
    FAILING,
    FIVE,
    HEAD,
    STRICT,
    check_fails,
    check_passes,
    run_test,
)


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def test_the_test_of_the_documentation_passes_in_a_moment(headrace: Headrace) -> None:
    start = time.monotonic()
    check_passes(
        headrace,
        f"""
        given:
          - {FIVE}
          - watermark: {{orders: "10:01:30"}}
          - expect: {{totals: [{{user: a, total: 5}}]}}
          - checkpoint
          - restart
          - orders: [{{ts: "10:00:07", user: a, amount: 9}}]
          - advance: 100d
          - bad: {{orders: '{{"ts": 1'}}
        expect:
          totals: []
          late: {{count: 1}}
          broken: {{count: 1, where: "source = 'orders' and raw like '%ts%'"}}
          metrics: {{late: 1, bad: 1}}
        """,
    )
    assert time.monotonic() - start < 60, "the 100 days are virtual"


def test_the_parallelism_may_be_above_the_key_groups(headrace: Headrace) -> None:
    head = HEAD.replace("steps:", "settings: {key_groups: 2}\nsteps:", 1)
    body = f"given: [{FIVE}]\nexpect: {{running: [{{user: a, n: 1}}]}}"
    ran = run_test(headrace, body, "--parallelism", "3", head=head)
    assert (ran.status, ran.out) == (0, "")


def test_a_failed_test_shows_the_rows_that_differ(headrace: Headrace) -> None:
    check_fails(
        headrace,
        """
        given:
          - orders: [{ts: "10:00:05", user: a, amount: 5}, {ts: "10:00:05", user: b, amount: 1}]
        expect:
          totals: [{user: a, total: 6}, {user: b, total: 1}]
        """,
        "failed: t",
        "  shop.yaml:29:7: totals: 1 row (-) did not come, 1 row (+) came unexpectedly",
        "      user  total",
        "    - a     6",
        "    + a     5",
        "      b     1",
    )


def test_rows_are_expected_since_the_stream_was_last_compared(headrace: Headrace) -> None:
    later = 'orders: [{ts: "10:05:00", user: b, amount: 1}]'
    check_passes(
        headrace,
        f"""
        given:
          - {FIVE}
          - expect: {{totals: []}}
          - {later}
          - expect: {{totals: [{{user: a, total: 5}}]}}
          - expect: {{totals: []}}
        expect: {{totals: [{{user: b, total: 1}}]}}
        """,
    )


def test_a_changelog_is_compared_as_a_table_or_as_it_came(headrace: Headrace) -> None:
    check_passes(
        headrace,
        f"""
        given:
          - {FIVE}
          - expect: {{running: [{{user: a, n: 1}}]}}
          - {FIVE}
        expect:
          running: [{{user: a, n: 2}}]
        """,
    )
    check_passes(
        headrace,
        f"""
        given:
          - {FIVE}
          - expect: {{running: {{changelog: true, rows: [{{user: a, n: 1}}]}}}}
          - {FIVE}
        expect:
          running: {{changelog: true, rows: [{{user: a, n: 2}}]}}
        """,
    )


def test_deletions_of_a_table_are_given_and_expected(headrace: Headrace) -> None:
    head = """\
name: t
sources:
  users:
    kafka: {brokers: "localhost:9092", topic: users, group: t}
    schema: {id: int, tier: string}
    table: {key: [id]}
steps:
  tiers: {from: users, key: tier, aggregate: {n: count(*)}}
sinks:
  a: {from: tiers, console: {}}
"""
    check_passes(
        headrace,
        """
        given:
          - users: [{id: 1, tier: gold}, {id: 2, tier: gold}, {id: 3, tier: tin}]
          - expect: {tiers: [{tier: gold, n: 2}, {tier: tin, n: 1}]}
          - users: [{id: 1, _delete: true}, {id: 3, _change: delete}]
        expect:
          tiers: [{tier: gold, n: 1}]
          users: [{id: 2, tier: gold}]
        """,
        head,
    )


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("{contains: [{user: b, total: 1}]}", ""),
        ("{contains: [{user: b, total: 2}]}", "totals: 1 row did not come"),
        ("{rows: [{total: 1}, {total: 5}], match: subset}", ""),
        ("{rows: [{total: 5}], match: subset}", "totals: 1 row (+) came unexpectedly"),
        ("{count: 2}", ""),
        ("{count: 3}", "totals: wanted 3 rows, got 2"),
        ("{where: total > 0}", ""),
        ("{where: total > 1}", "totals: 1 row for which total > 1 is not true"),
        ("{where: 'if(total = 5, null, true)'}", "totals: 1 row for which"),
    ],
)
def test_expectations_of_rows(headrace: Headrace, expected: str, message: str) -> None:
    test = f"""
    given:
      - orders: [{{ts: "10:00:05", user: a, amount: 5}}, {{ts: "10:00:05", user: b, amount: 1}}]
    expect:
      totals: {expected}
    """
    if message:
        ran = run_test(headrace, test)
        assert (ran.status, f"  shop.yaml:29:7: {message}" in ran.out) == (1, True), ran.out
    else:
        check_passes(headrace, test)


def test_doubles_are_equal_within_a_difference(headrace: Headrace) -> None:
    head = HEAD.replace("amount: int", "amount: double")
    given = 'given: [orders: [{ts: "10:00:05", user: a, amount: 0.1}, '
    given += '{ts: "10:00:05", user: a, amount: 0.2}]]\n'
    exact = f"{given}expect: {{totals: [{{user: a, total: 0.3}}]}}\n"
    assert run_test(headrace, exact, head=head).status == 1
    near = f"{given}expect: {{totals: {{rows: [{{user: a, total: 0.3}}], within: 1e-9}}}}\n"
    check_passes(headrace, near, head)


def test_the_order_of_rows_is_compared_where_it_is_wanted(headrace: Headrace) -> None:
    head = HEAD.replace(
        "sinks:", "  big: {from: orders, where: amount > 1, select: [amount]}\nsinks:"
    )
    head += "  e: {from: big, console: {}}\n"
    given = 'given: [orders: [{ts: "10:00:05", amount: 3}, {ts: "10:00:05", amount: 2}]]\n'
    right = f"{given}expect: {{big: {{rows: [{{amount: 3}}, {{amount: 2}}], ordered: true}}}}\n"
    check_passes(headrace, right, head)
    wrong = f"{given}expect: {{big: {{rows: [{{amount: 2}}, {{amount: 3}}], ordered: true}}}}\n"
    check_fails(
        headrace, wrong, "  shop.yaml:28:14: big: the rows came in another order", head=head
    )


def test_the_wall_clock_moves_only_when_it_is_advanced(headrace: Headrace) -> None:
    head = HEAD.replace("tumble: 1m, late_to: late", "tumble: 1m, time: processing")
    head = head.replace("  b: {from: late, console: {}}\n", "")
    check_passes(
        headrace,
        f"""
        given:
          - {FIVE}
          - advance: 59s
          - expect: {{totals: []}}
          - advance: 1s
          - expect: {{totals: [{{user: a, total: 5}}]}}
        """,
        head,
    )


SPLITS = """
given:
  - splits:
      orders:
        - [{ts: "10:00:05", user: a, amount: 5}]
        - [{ts: "10:00:06", user: b, amount: 1}]
  - orders: [{ts: "10:09:00", user: c, amount: 1}]
  - expect: {totals: []}
"""


def test_the_slowest_split_holds_the_watermark_back_until_it_is_idle(headrace: Headrace) -> None:
    idle = "  - idle: {orders: 1}\n  - expect: {totals: {count: 2}}\n"
    check_passes(headrace, SPLITS + idle)


def test_an_idle_timeout_passes_on_the_wall_clock(headrace: Headrace) -> None:
    head = HEAD.replace("delay: 10s", "delay: 10s, idle: 1m")
    more = '  - advance: 50s\n  - orders: [{ts: "10:09:00", user: c, amount: 1}]\n'
    more += "  - expect: {totals: []}\n  - advance: 15s\n  - expect: {totals: {count: 2}}\n"
    check_passes(headrace, SPLITS + more, head)


def test_without_an_end_windows_stay_open(headrace: Headrace) -> None:
    check_passes(headrace, f"given: [{FIVE}]\nend: false\nexpect: {{totals: []}}\n")


LOOKUP = """\
name: t
sources: {orders: {generate: {rows: 1, columns: {id: id}}}}
steps:
  named:
    from: orders
    lookup:
      http: {url: "http://localhost:1/{id}"}
      on: {id: id}
      add: {land: {column: country, type: string}}
      on_miss: {to: strangers}
sinks: {a: {from: named, console: {}}, b: {from: strangers, console: {}}}
"""


def test_a_lookup_table_is_given(headrace: Headrace) -> None:
    test = """
    given: [orders: [{id: 1}, {id: 2}]]
    tables: {named: [{id: 1, country: PL}]}
    expect: {named: [{id: 1, land: PL}], strangers: [{id: 2}]}
    """
    check_passes(headrace, test, LOOKUP)


def test_a_failure_is_shown_and_may_be_expected(headrace: Headrace) -> None:
    watermark = 'watermark: {orders: "11:00"}'
    ran = run_test(headrace, f"given: [{FIVE}, {watermark}]\nexpect: {{late: []}}\n", head=FAILING)
    assert ran.status == 1
    assert "shop.yaml:26:61: the job has failed: totals: raise_error: a" in ran.out
    check_passes(headrace, f"given: [{FIVE}, {watermark}]\nexpect: {{fails: totals}}\n", FAILING)
    wrong = f"given: [{FIVE}, {watermark}]\nexpect: {{fails: disk}}\n"
    ran = run_test(headrace, wrong, head=FAILING)
    assert 'the job was expected to fail with "disk", and it failed with: totals: ' in ran.out
    ran = run_test(headrace, f"given: [{FIVE}]\nexpect: {{fails: disk}}\n")
    assert 'the job was expected to fail with "disk", and it did not fail' in ran.out


def test_a_bad_record_fails_the_job_if_nothing_handles_it(headrace: Headrace) -> None:
    check_passes(headrace, "given: [bad: {orders: 'x'}]\nexpect: {fails: bad record}\n", STRICT)


def test_a_result_that_depends_on_batches_is_told(headrace: Headrace) -> None:
    Path("code.py").write_text(
        "import polars as pl\n\ndef count(rows):\n"
        "    return pl.DataFrame({'n': [len(rows)]}, schema={'n': pl.Int32})\n"
    )
    rows = "given: [orders: [{amount: 1}, {amount: 1}, {amount: 1}, {amount: 1}]]\n"
    test = f"{rows}expect: {{counted: [{{n: 4}}]}}\n"
    ran = run_test(headrace, test, head=BATCHED)
    assert ran.status == 1
    assert "failed: t (at parallelism 3, with rows cut at random: --seed 0)" in ran.out
    assert run_test(headrace, test, "--parallelism", "1", head=BATCHED).status == 0


def test_one_word_selects_tests_and_a_junit_file_has_a_case_of_each(headrace: Headrace) -> None:
    tests = f"given: [{FIVE}]\nexpect: {{totals: []}}\n"
    text = f"{HEAD}tests:\n"
    for name in ("all is well", "all is lost"):
        body = indent(tests if "lost" in name else "given: []\n", "    ")
        text += f"  - name: {name}\n    date: 2026-01-31\n{body}"
    Path("shop.yaml").write_text(text, "utf-8")
    assert headrace("test", "-k", "WELL").status == 0
    ran = headrace("test", "--junit", "no/junit.xml")
    assert (ran.status, ran.out) == (2, "")
    assert '--junit: there is no folder "no"' in ran.err
    ran = headrace("test", "--junit", "junit.xml")
    assert ran.status == 1
    assert ran.err.startswith("2 tests: 1 passed, 1 failed, in ")
    suite = ElementTree.parse("junit.xml").getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("shop.yaml", "2", "1")
    well, lost = suite
    assert (well.get("name"), len(well)) == ("all is well", 0)
    assert lost[0].text is not None and "+ a     5" in lost[0].text


def test_tests_are_found_beside_pipelines_and_in_folders(headrace: Headrace) -> None:
    Path("in").mkdir()
    Path("in/shop.yaml").write_text(HEAD, "utf-8")
    test = "  - {name: t, given: [], expect: {totals: []}}\n"
    Path("in/shop.test.yaml").write_text(f"tests:\n{test}", "utf-8")
    for path in ("in", "in/shop.yaml", "in/shop.test.yaml"):
        assert headrace("test", path).err.startswith("1 test: 1 passed")
    Path("more.test.yaml").write_text(f"pipeline: in/shop.yaml\ntests:\n{test}", "utf-8")
    ran = headrace("test", "in/shop.test.yaml", "more.test.yaml")
    assert (ran.status, 'a second test "t"' in ran.out) == (2, True)
    Path("more.test.yaml").write_text(f"pipeline: in/shop.yaml\ntests:\n{test.replace('t,', 'u,')}")
    assert headrace("test", "in", "more.test.yaml").err.startswith("2 tests: 2 passed")


def test_tests_are_no_part_of_the_pipeline(headrace: Headrace) -> None:
    Path("plain.yaml").write_text(HEAD, "utf-8")
    Path("tested.yaml").write_text(f"{HEAD}tests: [{{nonsense: 1}}]\n", "utf-8")
    plain, tested = (
        headrace("explain", name, "--format", "json") for name in ("plain.yaml", "tested.yaml")
    )
    assert (tested.status, tested.out) == (0, plain.out)


def test_windows_of_windows_lose_no_row_after_a_pause(headrace: Headrace) -> None:
    head = HEAD.replace(
        "steps:\n", "steps:\n  best: {from: totals, window: {tumble: 1m}, top: {n: 9, by: user}}\n"
    ).replace(
        "aggregate: {total: sum(amount)}\n    select: [user, total]", "aggregate: {n: count(*)}"
    )
    users = ", ".join(f'{{ts: "10:00:05", user: {user}, amount: 1}}' for user in "abcdef")
    check_passes(
        headrace,
        f"""
        given:
          - orders: [{users}]
          - idle: {{orders: 0}}
          - orders: [{{ts: "10:05:00", user: a, amount: 1}}]
        expect:
          best: {{count: 7}}
        """,
        head=f"{head}  e: {{from: best, console: {{}}}}\n",
    )
