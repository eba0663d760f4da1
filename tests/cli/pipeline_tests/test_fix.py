"""`headrace test --fix` writes the rows that came in place of those that were expected."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.tested_pipelines import BATCHED, FAILING, FIVE, HEAD

pytestmark = pytest.mark.usefixtures("no_color")


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def write(test: str, head: str = HEAD) -> str:
    """Write a pipeline with a test, and return its text."""
    text = f"{head}tests:\n  - name: t\n    date: 2026-01-31\n{test}"
    Path("shop.yaml").write_text(text, "utf-8")
    return text


def check_fixed(headrace: Headrace, before: str, after: str, head: str = HEAD) -> None:
    """Check that a test is fixed, in the pipeline's file and in one of its own; then it passes."""
    wanted = write(after, head)
    write(before, head)
    ran = headrace("test", "--fix")
    assert ran.status == 0, ran.out + ran.err
    assert ran.err.startswith("1 test: 1 fixed, in ")
    assert Path("shop.yaml").read_text("utf-8") == wanted
    Path("shop.yaml").write_text(head, "utf-8")
    test_file = Path("shop.test.yaml")
    test_file.write_text(f"tests:\n  - name: t\n    date: 2026-01-31\n{before}", "utf-8")
    assert headrace("test", "--fix").status == 0
    assert test_file.read_text("utf-8").endswith(f"2026-01-31\n{after}")
    assert headrace("test").err.startswith("1 test: 1 passed")


def check_left(headrace: Headrace, test: str, *lines: str, head: str = HEAD) -> None:
    """Check that a test fails with these lines, and that its file stays."""
    text = write(test, head)
    ran = headrace("test", "--fix")
    assert ran.status == 1, ran.out + ran.err
    for line in lines:
        assert line in ran.out, ran.out
    assert Path("shop.yaml").read_text("utf-8") == text
    assert os.listdir() == ["shop.yaml"]


def test_expectations_are_fixed_in_their_places_and_styles(headrace: Headrace) -> None:
    before = f"""\
    given:
      # one
      - {FIVE}  # two
      - watermark: {{orders: "10:01:30"}}
      - expect: {{totals: [], running: [{{user: a, n: 1}}]}}  # three
      - checkpoint
      - restart
      - orders: [{{ts: "10:00:07", user: a, amount: null}}]
      - bad: {{orders: '{{"ts": 1'}}
    expect:  # four
      totals:
        - {{user: a, total: 1}}  # five
      late:
        # six
        - ts: "10:00:07"
          amount: 8
          user: a
      # seven
      broken: {{count: 3, where: "raw like '%ts%'"}}
      running: {{rows: [{{n: 7}}], match: subset}}
      metrics: {{late: 4, bad: 1}}
"""
    after = f"""\
    given:
      # one
      - {FIVE}  # two
      - watermark: {{orders: "10:01:30"}}
      - expect: {{totals: [{{user: a, total: 5}}], running: [{{user: a, n: 1}}]}}  # three
      - checkpoint
      - restart
      - orders: [{{ts: "10:00:07", user: a, amount: null}}]
      - bad: {{orders: '{{"ts": 1'}}
    expect:  # four
      totals: []  # five
      late:
        # six
        - ts: "10:00:07"
          amount: null
          user: a
      # seven
      broken: {{count: 1, where: "raw like '%ts%'"}}
      running: {{rows: [{{n: 2}}], match: subset}}
      metrics: {{late: 1, bad: 1}}
"""
    check_fixed(headrace, before, after)


def test_the_places_of_what_was_fixed_are_printed(headrace: Headrace) -> None:
    write(f"    given: [{FIVE}]\n    expect: {{totals: [], metrics: {{late: 2}}}}\n")
    ran = headrace("test", "--fix", "--junit", "junit.xml")
    assert ran.out == "fixed: t\n  shop.yaml:26:14: totals\n  shop.yaml:26:36: late\n"
    assert 'failures="0"' in Path("junit.xml").read_text("utf-8")


def test_equal_rows_stay_as_they_are_written(headrace: Headrace) -> None:
    rows = ", ".join(f'{{ts: "10:00:05", user: {u}, amount: 1}}' for u in "abc")
    before = f"    given:\n      - orders: [{rows}]\n    expect:\n      totals:\n"
    check_fixed(
        headrace,
        f"{before}        - {{user: c, total: '1'}}\n        - {{user: x, total: 1}}\n",
        f"{before}        - {{user: c, total: '1'}}\n        - {{user: a, total: 1}}\n"
        "        - {user: b, total: 1}\n",
    )


def test_rows_in_order_are_written_in_their_order(headrace: Headrace) -> None:
    head = HEAD.replace("sinks:", "  big: {from: orders, select: [amount]}\nsinks:")
    head += "  e: {from: big, console: {}}\n"
    given = '    given: [orders: [{ts: "10:00:05", amount: 3}, {ts: "10:00:05", amount: 2}]]\n'
    check_fixed(
        headrace,
        f"{given}    expect: {{big: {{rows: [{{amount: 2}}, {{amount: 3}}], ordered: true}}}}\n",
        f"{given}    expect: {{big: {{rows: [{{amount: 3}}, {{amount: 2}}], ordered: true}}}}\n",
        head,
    )


def test_deletions_are_written_as_changes(headrace: Headrace) -> None:
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
    given = """\
    given:
      - users: [{id: 1, tier: gold}]
      - expect: {tiers: {changelog: true, count: 1}}
      - users: [{id: 1, _delete: true}]
"""
    check_fixed(
        headrace,
        f"{given}    expect: {{tiers: {{changelog: true, rows: []}}}}\n",
        f"{given}    expect: {{tiers: {{changelog: true, "
        "rows: [{tier: gold, n: 0, _delete: true}]}}\n",
        head,
    )


def test_what_passes_is_left_alone_beside_what_is_fixed(headrace: Headrace) -> None:
    good = f"    given: [{FIVE}]\n    expect: {{totals: [{{total: 5, user: a}}]}}\n"
    write(good)
    bad = "  - {name: u, given: [], expect: {totals: [{user: a, total: 5}]}}\n"
    with Path("shop.yaml").open("a") as file:
        file.write(bad)
    before = Path("shop.yaml").read_text("utf-8")
    assert headrace("test", "--fix", "-k", "t").err.startswith("1 test: 1 passed")
    ran = headrace("test", "--fix")
    assert ran.err.startswith("2 tests: 1 passed, 1 fixed")
    fixed = bad.replace("[{user: a, total: 5}]", "[]")
    assert Path("shop.yaml").read_text("utf-8") == before.replace(bad, fixed)


@pytest.mark.parametrize(
    ("expect", "why"),
    [
        ("{totals: {contains: [{user: b, total: 1}]}}", "only you can say what contains should be"),
        ("{totals: {where: total > 6, count: 7}}", "only you can say what where should be"),
        ("{late: [], fails: disk}", "only you can say what fails should be"),
    ],
)
def test_what_says_what_a_user_wants_is_not_fixed(
    headrace: Headrace, expect: str, why: str
) -> None:
    check_left(headrace, f"    given: [{FIVE}]\n    expect: {expect}\n", f"not fixed: {why}")


def test_a_test_whose_job_fails_is_not_fixed(headrace: Headrace) -> None:
    test = f"    given: [{FIVE}]\n    expect: {{late: [{FIVE[9:-1]}]}}\n"
    check_left(headrace, test, "not fixed: the job has failed", head=FAILING)


def test_expectations_that_others_refer_to_are_not_fixed(headrace: Headrace) -> None:
    test = f"    given: [{FIVE}]\n    expect: &e {{totals: []}}\n"
    test += "  - name: u\n    given: []\n    expect: *e\n"
    anchor = "it has an anchor (&name) or an alias (*name)"
    check_left(headrace, test, f"  not fixed: shop.yaml:26:17: totals: {anchor}", "+ a     5")


def test_a_result_that_depends_on_batches_is_told_and_not_fixed(headrace: Headrace) -> None:
    Path("code.py").write_text(
        "import polars as pl\n\ndef count(rows):\n"
        "    return pl.DataFrame({'n': [len(rows)]}, schema={'n': pl.Int32})\n"
    )
    rows = "    given: [orders: [{amount: 1}, {amount: 1}, {amount: 1}, {amount: 1}]]\n"
    for n in (4, 5):
        text = write(f"{rows}    expect: {{counted: [{{n: {n}}}]}}\n", BATCHED)
        ran = headrace("test", "--fix")
        assert ran.status == 1
        assert "failed: t (at parallelism 3, with rows cut at random: --seed 0)" in ran.out
        assert "  not fixed: the rows differ between the ways of running the test" in ran.out
        assert Path("shop.yaml").read_text("utf-8") == text
    assert headrace("test", "--fix", "--parallelism", "1").status == 0


def test_a_file_that_changes_meanwhile_is_left_as_it_is(headrace: Headrace) -> None:
    code = "from pathlib import Path\n\ndef count(rows):\n"
    code += "    with Path('shop.yaml').open('a') as file:\n        file.write('# more\\n')\n"
    Path("code.py").write_text(f"{code}    return rows.select(n='amount')\n", "utf-8")
    head = BATCHED.replace("n: int", "n: bigint")
    text = write("    given: [orders: [{amount: 1}]]\n    expect: {counted: []}\n", head)
    ran = headrace("test", "--fix")
    assert ran.status != 0
    assert "shop.yaml has changed meanwhile, and is left as it is" in ran.err
    assert Path("shop.yaml").read_text("utf-8").startswith(f"{text}# more\n")


def test_the_mode_and_the_byte_order_mark_of_a_file_stay(headrace: Headrace) -> None:
    text = write(f"    given: [{FIVE}]\n    expect: {{totals: []}}\n")
    Path("shop.yaml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    Path("shop.yaml").rename("real.yaml")
    Path("shop.yaml").symlink_to("real.yaml")
    Path("real.yaml").chmod(0o640)
    assert headrace("test", "--fix", "shop.yaml").status == 0
    fixed = text.replace("[]}", "[{user: a, total: 5}]}").replace("\n", "\r\n")
    assert Path("real.yaml").read_bytes() == b"\xef\xbb\xbf" + fixed.encode()
    assert stat.S_IMODE(Path("real.yaml").stat().st_mode) == 0o640
    assert Path("shop.yaml").is_symlink()


def test_a_folder_that_cannot_be_written_is_told(headrace: Headrace) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    write(f"    given: [{FIVE}]\n    expect: {{totals: []}}\n")
    Path.cwd().chmod(0o500)
    try:
        ran = headrace("test", "--fix")
    finally:
        Path.cwd().chmod(0o700)
    assert ran.status != 0
    assert "cannot write" in ran.err
