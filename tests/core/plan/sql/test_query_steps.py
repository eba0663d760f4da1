"""The steps of queries for which YAML has no single form: their names, inputs and texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.join_descriptions import describe_matching
from headrace.core.plan.nodes.matching import IntervalMatch, TableMatch
from headrace.core.plan.nodes.windows import Ttl
from tests.support.plans import built
from tests.support.sql_steps import build_query, build_steps, write_query

STEPS = {
    "joins": (
        "select o.id, c.city, p.paid from orders o join moves c on o.customer = c.id"
        " left join payments p on p.order = o.id",
        {
            "q@o-c": "orders, moves@retract: on o.customer = c.id; "
            "select o.id, o.customer = customer, c.id, c.city = city",
            "q": "q@o-c, payments: on p.order = `o.id`; select id = `o.id`, "
            "city = `c.city`, paid = p.paid",
        },
    ),
    "conditions before a join": (
        "select o.id from orders o, payments p where o.id = p.order and o.amount > 5 and p.paid > 1"
        " and o.amount > p.paid",
        {
            "q@o": "orders: where amount > 5",
            "q@p": "payments: where paid > 1",
            "q": "q@o, q@p: on o.id = p.order and o.amount > p.paid; select id = o.id",
        },
    ),
    "conditions after an outer join": (
        "select o.id from orders o left join payments p on o.id = p.order"
        " where o.amount > 5 and p.paid is null",
        {
            "q@o": "orders: where amount > 5",
            "q": "q@o, payments: on o.id = p.order; where p.paid is null; select id = o.id",
        },
    ),
    "order of a list of tables": (
        "select o.id from orders o, moves c, payments p where o.id = p.order and c.id = o.customer",
        {
            "q@o-c": "orders, moves@retract: on c.id = o.customer; "
            "select o.id, o.customer = customer, c.id",
            "q": "q@o-c, payments: on `o.id` = p.order; select id = `o.id`",
        },
    ),
    "groups of a join": (
        "select city, sum(amount) as total from orders o join moves c on o.customer = c.id"
        " group by city",
        {
            "q@o-c": "orders, moves@retract: on o.customer = c.id; "
            "select o.id, o.customer = customer, o.amount = amount, c.id, c.city = city",
            "q": "q@o-c: key city = `c.city`, aggregate total = sum(`o.amount`)",
        },
    ),
    "groups by a star of a join": (
        "select p.*, count(*) as n from payments p join moves m on p.order = m.id group by all",
        {
            "q": "q@p-m: key order = `p.order`, paid = `p.paid`, at = `p.at`, "
            "aggregate n = count(*)",
        },
    ),
    "first rows of a star of a join": (
        "select p.* from payments p join orders o on o.id = p.order"
        " qualify row_number() over (partition by p.order order by amount) = 1",
        {
            "q": "q@top@retract: select order = `p.order`, paid = `p.paid`, at = `p.at`",
        },
    ),
    "columns without the key": (
        "select count(*) as n from orders group by customer",
        {
            "q@groups": "orders: key customer, aggregate n = count(*)",
            "q": "q@groups@retract: select n",
        },
    ),
    "using": (
        "select id, city, paid from moves full join (select customer as id, 1.5D as paid"
        " from orders) o using (id)",
        {
            "q@o": "orders: select id = customer, paid = 1.5D",
            "q": "moves@retract, q@o: on moves.id = o.id; "
            "select id = coalesce(moves.id, o.id), city, paid",
        },
    ),
    "a value": (
        "select id from orders where amount > (select avg(paid) from payments)",
        {
            "q@payments-avg-paid": "payments: aggregate payments-avg-paid = avg(paid); "
            "select payments-avg-paid = `payments-avg-paid`, one row = 1",
            "q@orders": "orders: with one row = 1",
            "q@orders-payments-avg-paid": "q@orders, q@payments-avg-paid@retract: "
            "on orders.`one row` = payments_avg_paid.`one row`; select id, amount, "
            "payments-avg-paid = `payments-avg-paid`",
            "q": "q@orders-payments-avg-paid: where amount > `payments-avg-paid`; select id",
        },
    ),
    "a value of each row": (
        "select id from orders o where amount = (select count(*) from payments where order = o.id)",
        {
            "q@payments-count": "payments: key key 1 = order, aggregate payments-count = count(*); "
            "select payments-count, key 1",
            "q@o-payments-count": "orders, q@payments-count@retract: on o.id = `key 1`; "
            "select id, amount, payments-count = `payments-count`",
            "q": "q@o-payments-count: where amount = coalesce(`payments-count`, 0); select id",
        },
    ),
    "a union of one table": (
        "select id from orders where amount > 1 union all select id from orders where amount < 0",
        {
            "q@orders-001a97": "orders: where amount > 1; select id",
            "q@orders-3bf0f6": "orders: where amount < 0; select id",
            "q": "q@orders-001a97, q@orders-3bf0f6: ",
        },
    ),
    "first rows of a query of with": (
        "with ranked as (select *, row_number() over (partition by customer order by amount desc)"
        " as n from orders) select customer, n, id from ranked r where n <= 2 and id > 1",
        {
            "q@ranked": "orders: select id, customer, amount, tags, at, n = rank",
            "q": "q@ranked: where id > 1; select customer, n, id",
        },
    ),
    "a value in having": (
        "select customer, sum(amount) as value from orders group by customer"
        " having sum(amount) > (select avg(paid) from payments) and count(*) > 1",
        {
            "q@groups": "orders: key customer, aggregate value = sum(amount), count(*) = count(*)",
            "q@groups_": "q@groups: where `count(*)` > 1; with one row = 1",
            "q": "q@groups-payments-avg-paid: where value > `payments-avg-paid`; "
            "select customer, value",
        },
    ),
    "conditions that an or repeats": (
        "select id from orders, payments where (id = order and amount > 1) or (paid > 2 and "
        "id = order)",
        {
            "q": "orders, payments: on ((id = order and amount > 1) or (paid > 2 and id = order))"
            " and id = order; select id",
        },
    ),
    "types of a union": (
        "select amount as a from orders union all select order from payments",
        {
            "q@orders": "orders: select a = amount",
            "q@payments": "payments: select a = order",
            "q@payments@union": "q@payments: select a = cast(a as double)",
            "q": "q@orders, q@payments@union: ",
        },
    ),
    "times after a join": (
        "select customer, lag(paid) over (partition by customer order by p.at) as before"
        " from orders o join payments p on id = order"
        " and p.at between o.at and o.at + interval 1 minute",
        {
            "q": "q@o-p: key o.customer, over before = lag(`p.paid`); select"
            " customer = `o.customer`, before",
        },
    ),
    "several windows": (
        "select id, count(*) over (partition by customer order by at) as n,"
        " amount - lag(amount) over (partition by customer order by at) + rank() over (order by at)"
        " as m from orders qualify n > 3 and m > lag(id) over (order by at)",
        {
            "q@over": "orders: over rank() over () = rank(), lag(id) over () = lag(id)",
            "q@over-customer": "q@over: key customer, over n = count(*), lag(amount) over () ="
            " lag(amount)",
            "q": "q@over-customer: where n > 3 and (amount - `lag(amount) over ()` +"
            " `rank() over ()`) > `lag(id) over ()`; select id, n, m = amount -"
            " `lag(amount) over ()` + `rank() over ()`",
        },
    ),
    "first row and the rows before": (
        "select id, row_number() over w as n, lag(id) over w as before from orders"
        " qualify n = 1 window w as (partition by customer order by at)",
        {
            "q@over": "orders: key customer, over n = row_number(), before = lag(id)",
            "q": "q@over: where n = 1; select id, n, before",
        },
    ),
    "first rows and other conditions": (
        "select id, amount * 2 as twice, row_number() over (partition by customer order by amount)"
        " as n from orders qualify n <= 3 and (twice > 5 or n = 2)",
        {
            "q": "q@top@retract: where ((amount * 2) > 5 or rank = 2); select id,"
            " twice = amount * 2, n = rank",
        },
    ),
    "first rows of groups": (
        "select city, row_number() over (order by count(*) desc) as n from moves group by city"
        " having count(*) > 1 qualify n <= 3",
        {
            "q@groups": "moves@retract: key city, aggregate count(*) = count(*)",
            "q": "q@groups: select city, n = rank",
        },
    ),
    "aggregates of partitions": (
        "select id, amount / sum(amount) over (partition by customer) as share,"
        " count(*) over (partition by customer, id) as n from orders where amount > 1",
        {
            "q@orders": "orders: where amount > 1; with partition customer = coalesce(customer,"
            " cast('' as string)), partition customer is null = (customer) is null",
            "q@over-customer": "q@orders: key key 1 = `partition customer`, key 2 = `partition"
            " customer is null`, aggregate sum(amount) = sum(amount)",
            "q@over-customer-id": "q@orders: key key 1 = `partition customer`, key 2 = `partition"
            " customer is null`, key 3 = id, aggregate count(*) = count(*)",
            "q": "q@orders-over-customer-id: select id, share = amount / `sum(amount)`,"
            " n = `count(*)`",
        },
    ),
    "functions by event time beside aggregates of partitions": (
        "select id, amount - lag(amount) over w as more, count(*) over () as n from orders o"
        " where o.amount > 1 window w as (partition by customer order by at)",
        {
            "q@ordered": "orders: where amount > 1; key customer, over lag(amount) over w ="
            " lag(amount); select id, amount, lag(amount) over w",
            "q@over": "q@ordered: aggregate count(*) = count(*); select count(*) = `count(*)`,"
            " one row = 1",
            "q": "q@ordered-over: select id, more = amount - `lag(amount) over w`, n = `count(*)`",
        },
    ),
    "an intersection": (
        "select id from orders intersect all select order from payments",
        {
            "q@orders@intersect": "q@orders: select id, left rows = cast(1 as bigint), "
            "right rows = cast(0 as bigint)",
            "q@intersect": "q@orders@intersect, q@payments@intersect: key id, aggregate left rows "
            "= sum(`left rows`), right rows = sum(`right rows`)",
        },
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_steps_of_a_query(tmp_path: Path, case: str) -> None:
    sql, wanted = STEPS[case]
    steps = build_steps(tmp_path, write_query(sql))
    assert {name: describe(steps[name]) for name in wanted} == wanted


def describe(step: nodes.Step) -> str:
    """Return the inputs of a step, and the texts of its operations."""
    return f"{', '.join(step.inputs)}: {'; '.join(filter(None, map(_text, step.operations)))}"


def _text(operation: nodes.Operation) -> str:
    match operation:
        case nodes.Join():
            return f"on {operation.text}"
        case nodes.Filter():
            return f"where {operation.text}"
        case nodes.Project():
            return f"{operation.clause} {operation.text}"
        case nodes.Aggregate() | nodes.Over():
            clause = "over" if isinstance(operation, nodes.Over) else "aggregate"
            key = [f"{c.name} = {c.text}" if c.text else c.name for c in operation.key]
            columns = ", ".join(f"{c.name} = {c.text}" for c in operation.columns)
            return f"key {', '.join(key)}, {clause} {columns}" if key else f"{clause} {columns}"
    return ""


def test_column_that_both_tables_have_is_found_by_its_table(tmp_path: Path) -> None:
    sql = "select a.id, b.id as other, c.id as third from orders a join orders b on a.id = b.id "
    steps = build_steps(tmp_path, write_query(f"{sql} join orders c on c.id = b.id"))
    assert describe(steps["q"]) == (
        "q@a-b, orders: on c.id = `b.id`; select id = `a.id`, other = `b.id`, third = c.id"
    )


def test_keys_of_the_step_apply_to_all_steps_of_the_query(tmp_path: Path) -> None:
    sql = "select city, count(*) as n from moves join orders o on o.customer = moves.id group by 1"
    steps = build_steps(tmp_path, write_query(sql, "    parallelism: 3\n"))
    assert {steps[name].parallelism for name in ("q", "q@moves-o")} == {3}


def test_ttl_limits_what_is_stored_of_rows_with_times_of_their_own(tmp_path: Path) -> None:
    """A group of a table is forgotten; rows of such groups, and a join of tables, are not."""
    sql = (
        "with a as (select distinct customer from orders), b as (select city, count(*) as n from "
        "moves group by city) select customer, count(*) as m, max(n) as n from a left join b on "
        "a.customer = b.city group by customer"
    )
    steps = build_steps(tmp_path, write_query(sql, "    ttl: 1h\n"))
    (dedup, _), (counts, *_) = steps["q@a"].operations, steps["q@b"].operations
    (join, *_), (last, *_) = steps["q@a-b"].operations, steps["q"].operations
    assert isinstance(dedup, nodes.Dedup) and dedup.ttl == Ttl(3_600_000_000)
    assert isinstance(counts, nodes.Aggregate) and counts.ttl == Ttl(3_600_000_000)
    assert isinstance(join, nodes.Join) and join.matching == TableMatch()
    assert isinstance(last, nodes.Aggregate) and last.ttl is None


@pytest.mark.parametrize(
    ("sql", "expires"),
    [
        ("select city, min(id) as n from moves group by city", True),
        ("select distinct city from moves", True),
        ("select city from moves union select customer from orders", True),
        ("select * from moves qualify rank() over (partition by city order by id) <= 2", True),
        ("select min(id) as n from moves", False),
        ("select * from moves qualify row_number() over (order by id) <= 2", False),
    ],
)
def test_ttl_forgets_groups_of_tables_by_their_key(tmp_path: Path, sql: str, expires: bool) -> None:
    steps = build_steps(tmp_path, write_query(sql, "    ttl: 1h\n"))
    grouped = [
        operation.ttl
        for step in steps.values()
        for operation in step.operations
        if isinstance(operation, nodes.Aggregate | nodes.Top)
    ]
    assert grouped == [Ttl(3_600_000_000) if expires else None]


def test_times_of_a_window_bound_a_join(tmp_path: Path) -> None:
    sql = (
        "select id from orders join (select max(amount) as most, window_end as ends from orders"
        " group by tumble(at, interval 10 seconds)) m on amount = most"
        " where at between ends - interval 10 seconds and ends"
    )
    join = build_steps(tmp_path, write_query(sql))["q"].operations[0]
    assert isinstance(join, nodes.Join)
    assert join.matching == IntervalMatch(-1, 9_999_999)
    assert describe_matching(join) == "m from -1us to 9999999us later"


def test_query_that_nothing_reads_is_warned_of(tmp_path: Path) -> None:
    sql = "with a as (select * from orders), b as (select id from orders) select id from a"
    plan, problems = build_query(tmp_path, sql)
    assert plan is not None
    assert [problem.message for problem in problems] == ['nothing reads the query "b"']


def test_parts_that_only_an_unread_query_reads_are_left_out(tmp_path: Path) -> None:
    sql = "with a as (select * from early), b as (select * from a) select id from orders"
    text = write_query(sql).replace("  d: {from: plain, console: {}}\n", "")
    text = text.replace("steps:\n", "steps:\n  early: {from: plain, where: id > 1}\n")
    plan, problems = built(tmp_path, text)
    assert plan is not None
    assert [problem.message for problem in problems] == [
        'nothing reads the query "a"',
        'nothing reads the query "b"',
    ]
    assert not {"plain", "early"} & {part.name for part in plan.parts}


def test_join_without_an_equality_warns_that_it_compares_all_rows(tmp_path: Path) -> None:
    query = "select o.id, p.paid from orders o join {} p"
    for table, warnings in {
        "payments": ["this join compares each row with each other row, in one place"],
        "(select max(paid) as paid from payments)": [],
    }.items():
        plan, problems = build_query(tmp_path, f"{query.format(table)} on o.amount > p.paid")
        assert plan is not None
        assert [each.message for each in problems if "compares" in each.message] == warnings
