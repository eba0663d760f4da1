"""Queries of conditions: their steps, and the mistakes in them. Rows: test_query_rows.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from tests.support.sql_steps import (
    build_query,
    build_steps,
    describe_steps,
    list_errors,
    write_query,
)

AROUND = (
    "in (...) and exists (...) read columns of the query around them in where, and without"
    " aggregates, having, limit and union"
)
ORDERS = "the columns are id, customer, amount, tags, at; text goes in quotes: 'nope'"
PAYMENTS = "the columns are order, paid, at; text goes in quotes: 'nope'"


def test_a_name_of_both_queries_means_the_inner_one_in_an_equality(tmp_path: Path) -> None:
    inner = "select 1 from payments where at = o.at and order = id"
    steps = build_steps(tmp_path, write_query(f"select id from orders o where exists ({inner})"))
    assert any(isinstance(each, nodes.Join) for each in steps["q"].operations)
    plan, problems = build_query(
        tmp_path, "select id from moves o where exists (select 1 from plain where id = o.id)"
    )
    assert plan is not None
    assert [each.message for each in problems] == []


def test_a_key_is_compared_as_it_is_written_or_by_its_name(tmp_path: Path) -> None:
    query = (
        "select o.id % 7 as k, 1 + (select max(paid) from payments p where p.order = {}) as m"
        " from orders o group by {}"
    )

    def describe(compared: str, key: str) -> dict[str, str]:
        return describe_steps(build_steps(tmp_path, write_query(query.format(compared, key))))

    assert describe("k", "id % 7") == describe("o.id % 7", "id % 7")
    written = describe("o.id % 7", "o.id % 7")
    assert [describe("o.id % 7", key) for key in ("1", "k")] == [written, written]


@pytest.mark.parametrize(
    ("where", "errors"),
    {
        "exists (select nope from payments where order = o.id)": [
            f'nope: unknown column "nope" [{PAYMENTS}]'
        ],
        "exists (select paid from payments where order = o.id group by nope)": [
            f'nope: unknown column "nope" [{PAYMENTS}]'
        ],
        "exists (select 1 from payments where order = nope)": [
            f'nope: unknown column "nope" [{PAYMENTS}]'
        ],
        "exists (select max(paid) from payments p where p.order = o.id)": [
            f'o: "o" is a table of another query [the tables here are p; {AROUND}]'
        ],
        "exists (select paid from payments p where p.order = o.id group by paid having count(*) >"
        " 1)": [f'o: "o" is a table of another query [the tables here are p; {AROUND}]'],
        "id in (select order from payments p where exists (select 1 from plain where id = o.id and"
        " p.order = id))": [
            f'o: "o" is a table of another query [the tables here are plain, p; {AROUND}]'
        ],
        "exists (select 1 from payments where order = o.id limit 0)": [
            "limit: limit without order by is not supported [rows have no order of their own:"
            " write order by ... limit 10]"
        ],
        "(id, amount) in (select order, paid, at from payments)": [
            "select order, paid, at from payments: in wants a query with 2 columns, got 3"
        ],
        "(id, amount) not in (select order, paid from payments)": [
            "(id, amount) not in (select order, paid from payments): in with several columns, where"
            " it may be null, is not supported [exists (select 1 from ... where x = a and y = b) is"
            " never null]"
        ],
        "amount = any (select paid from payments)": [
            "= any: sql: = any (select ...) is not supported [write in (select ...)]"
        ],
        "amount <> all (select paid from payments)": [
            "<> all: sql: <> all (select ...) is not supported [write not in (select ...)]"
        ],
        "amount > some (select paid from payments)": [
            "> some: sql: > some (select ...) is not supported [compare with (select max(...) ...)"
            " or (select min(...) ...)]"
        ],
        "null in (select paid from payments)": [
            "null: a column needs a type, and null has none [give it a type: cast(null as string)]"
        ],
    }.items(),
)
def test_mistakes(tmp_path: Path, where: str, errors: list[str]) -> None:
    assert list_errors(tmp_path, f"select id from orders o where {where}") == errors
