"""Joins with lookups: the plans of their YAML, and what a query cannot ask of a lookup."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plans import built
from tests.support.sql_steps import (
    SINKS,
    SOURCES,
    build_steps,
    describe_steps,
    list_errors,
    write_query,
)

CUSTOMERS = "file: {path: c.csv}, on: [id], add: {name: string, tier: int not null}"
PRICES = "file: {path: p.csv}, on: [kind, day], add: {price: double, at: timestamp}, retries: 5"
LOOKUPS = f"    lookups:\n      customers: {{{CUSTOMERS}}}\n      prices: {{{PRICES}}}\n"
NOW = "for system_time as of current_timestamp()"

EQUAL = {
    "left join": (
        f"select o.id, c.name from orders o left join customers {NOW} as c on c.id = o.customer",
        f"q: {{from: orders, lookup: {{{CUSTOMERS.replace('[id]', '{id: customer}')}}},"
        " select: [id, name]}",
    ),
    "inner join, with a condition before it": (
        f"select customer, tier from orders join customers {NOW} on lower(customer) = customers.id"
        " where amount > 1",
        "q: {from: orders, where: amount > 1,"
        f" lookup: {{{CUSTOMERS.replace('[id]', '{id: lower(customer)}')}, on_miss: drop}},"
        " select: [customer, tier]}",
    ),
    "all columns": (
        "select * from orders o join customers for system_time as of current_timestamp c"
        " on c.id = o.customer",
        f"q: {{from: orders, lookup: {{{CUSTOMERS.replace('[id]', '{id: customer}')},"
        " on_miss: drop}}",
    ),
    "using": (
        f"select id, customers.name from orders join customers {NOW} using (id)",
        f"q: {{from: orders, lookup: {{{CUSTOMERS.replace('[id]', '{id: id}')}, on_miss: drop}},"
        " select: [id, name]}",
    ),
    "several keys, a column of the same name": (
        f"select o.id, o.at as ordered, p.at as since, p.price * amount as cost from orders o"
        f" join prices {NOW} p on p.day = to_date(o.at) and o.customer = p.kind",
        "q: {from: orders, lookup: {file: {path: p.csv}, on: {kind: customer, day: to_date(at)},"
        " add: {price: double, p.at: {column: at, type: timestamp}}, retries: 5, on_miss: drop},"
        " select: {id: id, ordered: at, since: '`p.at`', cost: price * amount}}",
    ),
    "a condition after it": (
        f"select o.id from orders o left join customers {NOW} as c on c.id = o.customer"
        " where c.name is null and amount > 1",
        "o-c: {from: orders, where: amount > 1,"
        f" lookup: {{{CUSTOMERS.replace('[id]', '{id: customer}')}}},"
        " select: {o.id: id, o.customer: customer, o.amount: amount, c.name: name}}\n"
        "  q: {from: o-c, where: '`c.name` is null', select: {id: '`o.id`'}}",
    ),
    "one after another": (
        f"select o.id, p.price from orders o join customers {NOW} as c on c.id = o.customer"
        f" left join prices {NOW} as p on p.kind = c.name and p.day = date '2026-01-01'",
        "o-c: {from: orders,"
        f" lookup: {{{CUSTOMERS.replace('[id]', '{id: customer}')}, on_miss: drop}},"
        " select: {o.id: id, o.customer: customer, c.name: name}}\n"
        "  q: {from: o-c, lookup: {file: {path: p.csv},"
        " on: {kind: '`c.name`', day: date '2026-01-01'},"
        " add: {price: double, at: timestamp}, retries: 5},"
        " select: {id: '`o.id`', price: price}}",
    ),
    "groups in windows": (
        f"select c.name, count(*) as n from orders o join customers {NOW} as c"
        " on c.id = o.customer group by c.name, tumble(o.at, interval 1 minute)",
        "o-c: {from: orders,"
        f" lookup: {{{CUSTOMERS.replace('[id]', '{id: customer}')}, on_miss: drop}},"
        " select: {o.id: id, o.customer: customer, o.at: at, c.name: name}}\n"
        "  q: {from: o-c, key: {name: '`c.name`'}, window: {tumble: 1m},"
        " aggregate: {n: count(*)}, select: [name, n]}",
    ),
}
"""The lookups of queries, and those of YAML."""


@pytest.mark.parametrize("case", EQUAL)
def test_plan_of_a_join_with_a_lookup_is_that_of_its_yaml(tmp_path: Path, case: str) -> None:
    sql, yaml = EQUAL[case]
    made = build_steps(tmp_path, write_query(sql, LOOKUPS))
    wanted = build_steps(tmp_path, f"{SOURCES}steps:\n  {yaml}\n{SINKS}")
    assert describe_steps(made) == describe_steps(wanted)


def test_lookup_of_rows_that_change_keeps_their_key(tmp_path: Path) -> None:
    sql = f"select m.city, c.name from moves m left join customers {NOW} as c on c.id = m.city"
    made = describe_steps(build_steps(tmp_path, write_query(sql, LOOKUPS)))
    yaml = f"l: {{from: moves, lookup: {{{CUSTOMERS.replace('[id]', '{id: city}')}}}}}\n"
    yaml += "  q: {from: l, select: [city, name]}"
    wanted = describe_steps(build_steps(tmp_path, f"{SOURCES}steps:\n  {yaml}\n{SINKS}"))
    assert made["m-c@lookup"] == wanted["l"].replace("'l'", "'m-c@lookup'")
    assert made["q"] == wanted["q"].replace("'l@retract'", "'m-c@lookup@retract'")


MISTAKES = {
    "no time": (
        "select o.id, c.name from orders o join customers c on c.id = o.customer",
        [
            f'customers: "customers" is a lookup, and {NOW} is missing'
            f" [join customers {NOW} as c on c.id = ...]",
        ],
    ),
    "event time": (
        "select o.id, c.name from orders o join customers for system_time as of o.at as"
        " c on c.id = o.customer",
        [
            f'o.at: "customers" is a lookup, which has only the rows of now, got o.at [{NOW}]',
        ],
    ),
    "first": (
        f"select c.name from customers {NOW} c join orders o on c.id = o.customer",
        [
            'customers: "customers" is a lookup, which is asked for the keys of rows, and'
            " cannot be the first table"
            f" [begin with the rows: from ... join customers {NOW} as c on c.id = ...]",
        ],
    ),
    "first in an inner query": (
        "select id from orders where customer in (select name from customers)",
        [
            'customers: "customers" is a lookup, which is asked for the keys of rows, and'
            " cannot be the first table"
            f" [begin with the rows: from ... join customers {NOW} on customers.id = ...]",
        ],
    ),
    "comma": (
        f"select o.id from orders o, customers {NOW} c where c.id = o.customer",
        [
            'customers: "customers" is a lookup, which is joined by a condition on its key'
            f" [join customers {NOW} as c on c.id = ...]",
        ],
    ),
    "cross": (
        f"select o.id from orders o cross join customers {NOW} c",
        [
            'customers: "customers" is a lookup, which is joined by a condition on its key'
            f" [join customers {NOW} as c on c.id = ...]",
        ],
    ),
    "right": (
        f"select o.id from orders o right join customers {NOW} c on c.id = o.customer",
        [
            'right join: "customers" is a lookup, which cannot be joined by right join'
            " [join keeps rows with a match, left join all rows]",
        ],
    ),
    "full": (
        f"select o.id from orders o full join customers {NOW} c on c.id = o.customer",
        [
            'full join: "customers" is a lookup, which cannot be joined by full join'
            " [join keeps rows with a match, left join all rows]",
        ],
    ),
    "semi": (
        f"select o.id from orders o left semi join customers {NOW} c on c.id = o.customer",
        [
            'left semi join: "customers" is a lookup, which cannot be joined by semi join'
            " [join keeps rows with a match, left join all rows]",
        ],
    ),
    "no condition": (
        f"select o.id from orders o join customers {NOW} c",
        [
            'join: "customers" is looked up by id, and nothing is compared with id'
            " [after on: c.id = ...]",
        ],
    ),
    "on true": (
        f"select o.id from orders o join customers {NOW} c on true",
        [
            'true: "customers" is looked up by id alone'
            " [wanted c.id = ..., a value of the rows before it]",
        ],
    ),
    "inequality": (
        f"select o.id from orders o join customers {NOW} c on c.id > o.customer",
        [
            'c.id > o.customer: "customers" is looked up by id alone'
            " [wanted c.id = ..., a value of the rows before it]",
        ],
    ),
    "also other column": (
        f"select o.id from orders o join customers {NOW} c on c.id = o.customer and c.tier = 3",
        [
            'c.tier = 3: "customers" is looked up by id alone'
            " [a condition on other columns goes after where]",
        ],
    ),
    "also other column left": (
        f"select o.id from orders o left join customers {NOW} c on c.id = o.customer and"
        " c.tier = 3",
        [
            'c.tier = 3: "customers" is looked up by id alone'
            " [a value that needs it is case when c.tier = 3 then ... end]",
        ],
    ),
    "twice": (
        f"select o.id from orders o join customers {NOW} c on c.id = o.customer and c.id"
        " = lower(customer)",
        [
            'c.id = lower(customer): "customers" is looked up by id alone'
            " [compare what c.id equals, instead of it, after where]",
        ],
    ),
    "or": (
        f"select o.id from orders o join customers {NOW} c on c.id = o.customer or c.id ="
        " lower(customer)",
        [
            'c.id = o.customer or c.id = lower(customer): "customers" is looked up by id'
            " alone"
            " [wanted c.id = ..., a value of the rows before it]",
        ],
    ),
    "missing key": (
        f"select o.id from orders o join prices {NOW} p on p.kind = o.customer",
        [
            'join: "prices" is looked up by kind and day, and nothing is compared with day'
            " [after on: p.day = ...]",
        ],
    ),
    "unknown column in on": (
        f"select o.id from orders o join customers {NOW} c on c.idd = o.customer",
        [
            'idd: unknown column "idd" of c [did you mean "id"?]',
        ],
    ),
    "unknown column in value": (
        f"select o.id from orders o join customers {NOW} c on c.id = o.custmer",
        [
            'custmer: unknown column "custmer" of o [did you mean "customer"?]',
        ],
    ),
    "own column in value": (
        f"select o.id from orders o join customers {NOW} c on c.id = concat(o.customer, c.name)",
        [
            'c.id = concat(o.customer, c.name): "customers" is looked up by id alone'
            " [wanted c.id = ..., a value of the rows before it]",
        ],
    ),
    "unknown column": (
        f"select o.id, c.nme from orders o join customers {NOW} c on c.id = o.customer",
        [
            'nme: unknown column "nme" of c [did you mean "name"?]',
        ],
    ),
    "key in where": (
        f"select o.id from orders o left join customers {NOW} c on c.id = o.customer"
        " where c.id is null",
        [
            'c.id: "id" is a key of "customers", and not one of its columns'
            " [add it with its type, as in add: {id: bigint, ...}]",
        ],
    ),
    "ambiguous": (
        f"select at from orders o join prices {NOW} p on p.kind = o.customer and p.day ="
        " to_date(o.at)",
        [
            'at: "at" is a column of o and p [write o.at or p.at]',
        ],
    ),
    "a query of its name": (
        "with customers as (select id from orders) select id from customers",
        [
            'customers: the name "customers" is taken by a lookup of the step'
            " [give the query another name]",
        ],
    ),
    "columns": (
        f"select o.id from orders o join customers {NOW} c (a, b) on c.id = o.customer",
        [
            'a: "customers" is a lookup, whose columns have the names that add gives them'
            " [in lookups: add: {a: {column: ...}}]",
        ],
    ),
    "misspelt": (
        f"select o.id, c.name from orders o join custmers {NOW} c on c.id = o.customer",
        [
            'custmers: unknown source or step "custmers" [did you mean "customers"?]',
        ],
    ),
    "key type": (
        f"select o.id from orders o join customers {NOW} c on c.id = o.amount",
        [
            'o.amount: on: "id" is double, which cannot be a key'
            " [cast it, as in cast(amount as bigint): one number may have several texts]",
        ],
    ),
    "using": (
        f"select o.id from orders o join customers {NOW} c using (name)",
        [
            'name: using: "customers" is looked up by id [only the keys of on can be compared]',
        ],
    ),
    "table": (
        f"select o.id from orders o join moves {NOW} c on c.id = o.customer",
        [
            "current_timestamp(): for system_time as of wants the event time of the left"
            " table"
            " [it is at; a table outside of the pipeline belongs into lookups]",
        ],
    ),
    "same alias": (
        f"select o.id from orders o join customers {NOW} o on o.id = o.customer",
        [
            'o: two tables are called "o" [name one: customers as other]',
        ],
    ),
    "two at once": (
        "select o.id from orders o join customers c on c.id = o.customer right join"
        " prices p on p.x = 1",
        [
            f'customers: "customers" is a lookup, and {NOW} is missing'
            f" [join customers {NOW} as c on c.id = ...]",
            'right join: "prices" is a lookup, which cannot be joined by right join'
            " [join keeps rows with a match, left join all rows]",
        ],
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_reported_at_their_place(tmp_path: Path, case: str) -> None:
    sql, errors = MISTAKES[case]
    assert list_errors(tmp_path, sql, LOOKUPS) == errors


def test_lookup_that_the_query_does_not_join_is_a_warning(tmp_path: Path) -> None:
    lookups = f"    lookups:\n      customers: {{{CUSTOMERS}}}\n"
    plan, problems = built(tmp_path, write_query("select id from orders", lookups))
    assert plan is not None
    found = [(p.message, p.hint) for p in problems if "customers" in p.message]
    assert found == [
        (
            'lookups: the query does not join "customers"',
            f"join customers {NOW} on customers.id = ..., or remove it",
        )
    ]


def test_lookup_cannot_have_the_name_of_a_stream(tmp_path: Path) -> None:
    lookups = f"    lookups:\n      moves: {{{CUSTOMERS}}}\n"
    sql = f"select o.id from orders o join moves {NOW} on moves.id = o.customer"
    assert list_errors(tmp_path, sql, lookups) == [
        'moves: the name "moves" is taken by a source or step [give the lookup another name]'
    ]


def test_keys_of_a_lookup_are_listed_without_those_that_the_query_says(tmp_path: Path) -> None:
    lookups = f"    lookups:\n      customers: {{{CUSTOMERS}, colour: 1, missing: drop}}\n"
    assert list_errors(
        tmp_path, f"select o.id from orders o join customers {NOW} using (id)", lookups
    ) == [
        'colour: lookups.customers: unknown key "colour"'
        " [the keys are on, add, cache, timeout, retries, concurrency, ordered]",
        'missing: lookups.customers: unknown key "missing"'
        " [join drops rows without a match, left join keeps them]",
    ]
