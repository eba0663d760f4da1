"""Rows of tests in CSV, JSON Lines and Parquet files."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.tested_pipelines import check_passes, run_test

HEAD = """\
name: shop
sources:
  orders:
    kafka: {brokers: "localhost:9092", topic: orders, group: shop}
    schema: {ts: timestamp, user: string not null, amount: "decimal(4,2)", tags: array<int>}
    event_time: ts
steps:
  big: {from: orders, where: amount > 1}
  named: {from: big, lookup: {file: {path: t.csv}, on: {user: user}, add: {tier: string}}}
sinks:
  a: {from: named, console: {}}
"""
TEST = """
given:
  - orders: data/orders.%s
tables: {named: data/customers.csv}
expect:
  big: data/big.jsonl
  named: {contains: data/named.jsonl, count: 2}
"""


@pytest.fixture(autouse=True)
def files(headrace: Headrace) -> None:
    """Write the files of the test, but not its orders."""
    Path("data").mkdir()
    Path("data/customers.csv").write_text('user,tier\na,"go, ld"\nb,\n')
    big = '{"ts": "10:00:05", "user": "a", "amount": 5.25, "tags": [1, 2]}\n'
    big += '{"ts": "10:00:06", "user": "b", "amount": 5, "tags": null}\n'
    Path("data/big.jsonl").write_text(big)
    Path("data/named.jsonl").write_text(f'{big.splitlines()[1][:-1]}, "tier": null}}\n\n')


def test_rows_stand_in_files(headrace: Headrace) -> None:
    lines = Path("data/big.jsonl").read_text()
    Path("data/orders.jsonl").write_text(f'{lines}{{"user": "c", "amount": 1, "ts": "10:00"}}')
    check_passes(headrace, TEST % "jsonl", HEAD)
    times = [datetime(2026, 1, 31, 10, 0, at, tzinfo=UTC) for at in (5, 6, 7)]
    frame = {
        "ts": times,
        "user": ["a", "b", "c"],
        "amount": [Decimal("5.25"), Decimal(5), Decimal(1)],
        "tags": [[1, 2], None, []],
    }
    pl.DataFrame(frame).write_parquet("data/orders.parquet")
    check_passes(headrace, TEST % "parquet", HEAD)
    Path("data/orders.csv").write_text(
        "\ufeffts,user,amount\r\n10:00:05,a,5.25\r\n10:00:06,b,5\r\n"
    )
    lines = lines.replace("[1, 2]", "null")
    Path("data/big.jsonl").write_text(lines)
    check_passes(headrace, TEST % "csv", HEAD)


def test_rows_of_files_are_compared(headrace: Headrace) -> None:
    Path("data/orders.csv").write_text("ts,user,amount\n10:00:05,a,5\n")
    test = "given: [orders: data/orders.csv]\nexpect: {big: data/big.jsonl}\ntables: {named: []}\n"
    ran = run_test(headrace, test, head=HEAD)
    assert ran.status == 1
    assert "big: 2 rows (-) did not come, 1 row (+) came unexpectedly" in ran.out
    ran = run_test(headrace, test, "--fix", head=HEAD)
    assert ran.status == 1
    assert "not fixed: shop.yaml:16:14: big: its rows stand in a file of their own" in ran.out


def test_files_are_named_from_the_folder_of_the_test_file(headrace: Headrace) -> None:
    Path("tests").mkdir()
    Path("shop.yaml").write_text(HEAD)
    Path("tests/orders.csv").write_text("ts,user,amount\n2026-01-31T10:00:05,a,5\n")
    Path("tests/shop.test.yaml").write_text(
        "pipeline: ../shop.yaml\n"
        "tests: [{name: t, given: [orders: orders.csv], tables: {named: ../data/customers.csv},"
        " expect: {named: {count: 1, where: \"tier = 'go, ld'\"}}}]\n"
    )
    ran = headrace("test", "tests/shop.test.yaml")
    assert (ran.status, ran.out) == (0, "")


@pytest.mark.parametrize(
    ("name", "text", "messages"),
    [
        (
            "x.csv",
            None,
            ['shop.yaml:16:17: test "t": there is no file data/x.csv', "the path starts"],
        ),
        ("oders.csv", None, ['did you mean "data/orders.csv"?']),
        ("x.csv", "", ["shop.yaml:16:17: ", "data/x.csv has no header"]),
        ("x.csv", "user\na,b\n", ["data/x.csv:2:1: ", "wanted 1 value, as in the header, got 2"]),
        ("x.csv", "usr,user\nc,a\nc,b\n", ["data/x.csv:1:1: ", 'no column "usr"']),
        ("x.csv", 'user\n"a\n', ["data/x.csv:2:1: ", "this is no CSV"]),
        ("x.csv", "user,amount\na,5\n\nb,x\n", ["data/x.csv:4:1: ", "amount: wanted decimal(4,2)"]),
        ("x.csv", "user\n\ud800\n", ["data/x.csv is not UTF-8: byte at offset 5"]),
        ("x.jsonl", '{"user": "a"}\n{"user": ]\n', ["data/x.jsonl:2:10: ", "this is no JSON"]),
        ("x.jsonl", "[1]\n", ["data/x.jsonl:1:1: ", "wanted a JSON object in each line"]),
        ("x.jsonl", '{"amount": 1}\n', ["data/x.jsonl:1:1: ", 'no value of "user"']),
        ("x.jsonl", '{"user": "a", "tags": [1, "x"]}', ["data/x.jsonl:1:1: ", "tags: wanted int"]),
        ("x.parquet", "no", ["shop.yaml:16:17: ", "data/x.parquet is no Parquet file"]),
    ],
)
def test_a_mistake_in_a_file_has_its_place(
    headrace: Headrace, name: str, text: str | None, messages: list[str]
) -> None:
    Path("data/orders.csv").write_text("")
    if text is not None:
        Path("data", name).write_bytes(text.encode("utf-8", "surrogatepass"))
    test = f"given:\n  - orders: data/{name}\ntables: {{named: []}}\n"
    ran = run_test(headrace, test, head=HEAD)
    assert ran.status == 2
    for message in messages:
        assert message in ran.out
    validated = headrace("validate", "shop.yaml")
    assert (validated.status, ran.out in validated.out) == (2, True)
