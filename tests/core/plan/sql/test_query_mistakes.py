"""Mistakes in queries: what is marked, the message and the hint; all of a query at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connectors.registry import REGISTRY
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.spark.batch_plan import find_problems
from tests.support.plans import built
from tests.support.sql_steps import build_query, list_errors, write_query

MISTAKES = {
    "misspelt column": (
        "select id, custmer from orders",
        ['custmer: unknown column "custmer" [did you mean "customer"?]'],
    ),
    "misspelt table": (
        "select id from ordrs",
        ['ordrs: unknown source or step "ordrs" [did you mean "orders"?]'],
    ),
    "misspelt alias": (
        "select x.id from orders o join payments p on o.id = p.order",
        ['x.id: unknown input "x" [write o.id]'],
    ),
    "ambiguous column": (
        "select at from orders o join payments p on o.id = p.order",
        ['at: "at" is a column of o and p [write o.at or p.at]'],
    ),
    "missing group by": (
        "select customer, amount, count(*) as n from orders group by customer",
        [
            'amount: "amount" is neither in group by nor inside an aggregate'
            " [add it to group by, or write first(amount)]"
        ],
    ),
    "misspelt aggregates": (
        "select customer, summ(amount) as a, avgg(amount) + 1 as b from orders group by customer"
        " having maxx(amount) > 1",
        [
            'summ: unknown function "summ" [did you mean "sum"?]',
            'avgg: unknown function "avgg" [did you mean "avg"?]',
            'maxx: unknown function "maxx" [did you mean "max"?]',
        ],
    ),
    "misspelt functions beside aggregates": (
        "select customer, uper(o.customer) as a, transform(array(amount), x -> abss(x)) as b,"
        " count(*) as n from orders o group by customer",
        [
            'uper: unknown function "uper" [did you mean "upper"?]',
            'amount: "amount" is neither in group by nor inside an aggregate'
            " [add it to group by, or write first(amount)]",
            'abss: unknown function "abss" [did you mean "abs"?]',
        ],
    ),
    "misspelt aggregate of all rows": (
        "select summ(amount) as a from orders",
        ['summ: unknown function "summ" [did you mean "sum"?]'],
    ),
    "aggregate in where": (
        "select customer from orders where sum(amount) > 3 group by customer",
        [
            "sum(amount): where is applied before rows are grouped, and sum is an aggregate"
            " [a condition on groups goes after having]"
        ],
    ),
    "alias in where": (
        "select amount * 2 as twice from orders where twice > 3",
        [
            'twice: "twice" is a column of the result, which where does not know'
            " [repeat its expression, or put this query into from (...)]"
        ],
    ),
    "missing on": (
        "select o.id from orders o join payments p",
        ['join: wanted "on" or "using" after a join [as in join customers c on o.customer = c.id]'],
    ),
    "not the event time": (
        "select count(*) as n from payments group by tumble(to_timestamp('x'), interval 1 minute)",
        [
            "to_timestamp('x'): tumble goes by the event time of rows, and to_timestamp('x') is not"
            " it [write at]"
        ],
    ),
    "window of ends of windows": (
        "select count(*) as n from (select window_end as ends from orders"
        " group by tumble(at, interval 1 minute)) group by tumble(ends, interval 1 hour)",
        [
            "ends: tumble goes by the event time of rows, and ends is not it"
            " [write ends - interval 1 microsecond]"
        ],
    ),
    "no event time": (
        "select count(*) as n from plain group by tumble(at, interval 1 minute)",
        [
            "at: tumble goes by the event time of rows, and at is not it"
            " [set event_time in the source, or in a step before]"
        ],
    ),
    "length of a window": (
        "select count(*) as n from orders group by tumble(at, 10)",
        [
            "10: wanted a length of time such as interval 10 seconds, got 10"
            " [as in tumble(at, interval 1 minute)]"
        ],
    ),
    "two columns of one name": (
        "select * from orders o join payments p on o.id = p.order",
        [
            '*: two columns of the result are named "at"'
            " [write the columns by name, and rename one: ... as at_2]"
        ],
    ),
    "two tables of one name": (
        "select 1 as one from orders join orders on id = id",
        ['orders: two tables are called "orders" [name one: orders as other]'],
    ),
    "order alone": (
        "select id from orders order by id",
        [
            "order: order by without limit is not supported: a stream has no order"
            " [rows have no order of their own: write order by ... limit 10]"
        ],
    ),
    "limit alone": (
        "select id from orders limit 3",
        [
            "limit: limit without order by is not supported"
            " [rows have no order of their own: write order by ... limit 10]"
        ],
    ),
    "orders of windows": (
        "select rank() over (order by amount desc) as r, lag(amount) over (partition by id) as s,\n"
        "lag(id) over (order by at desc) as l, max(id) over (order by at, id) as m from orders",
        [
            "amount: rank over (...) goes by the event time of rows, and amount is not it [order by"
            " at; rank() over (...) <= n in qualify, alone, gives the first rows in any order]",
            "lag(amount) over (partition by id): lag over (...) wants an order by: a stream has no"
            " last row [order by at gives the rows so far]",
            "lag(id) over (order by at desc): lag over (...) goes from early to late rows, got desc"
            " [order by at, and lead in place of lag]",
            "id: max over (...) goes by event time alone, got id after it [leave out id: rows of"
            " the same time are in the order of their source]",
        ],
    ),
    "frames": (
        "select row_number() over (order by at rows 3 preceding) as n, sum(amount) over (order by"
        " at\nrows between current row and unbounded following) as s from orders",
        [
            "rows 3 preceding: row_number takes no frame: it is about single rows [leave out rows 3"
            " preceding]",
            "unbounded following: a frame to unbounded following is known only after the last row"
            " [say how far it goes: 5 following, or interval 1 minute following]",
        ],
    ),
    "names in windows": (
        "select lag(nope) over (order by at) as a, lag(id) over (partition by idd order by at) as b"
        " from orders",
        [
            'nope: unknown column "nope" [the columns are id, customer, amount, tags, at; text goes'
            " in quotes: 'nope']",
            'idd: unknown column "idd" [did you mean "id"?]',
        ],
    ),
    "window as a value": (
        "select tumble(at, interval 1 minute) as w, hop_end(at, interval 1 second) as e, count(*)"
        " as n from orders group by tumble(at, interval 1 minute)",
        [
            "tumble(at, interval 1 minute): tumble(...) is an item of group by, and not a value"
            " [write it after group by, and select window_start and window_end, its times]",
            "hop_end(at, interval 1 second): hop_end(...) is a function of Flink [select"
            " window_end, a column of the group]",
        ],
    ),
    "no windows": (
        "select id, row_number() over (order by at) as n, lag(id) as m from orders where n > 3",
        [
            "lag(id): lag(...) wants over (...) [lag(...) over (partition by ... order by ...)]",
            'n: "n" is a column of the result, which where does not know [a condition on functions'
            " over (...) goes after qualify]",
        ],
    ),
    "functions of whole keys": (
        "select ntile(2) over (order by at) as q, lag(max(id) over w) over w as r from orders\n"
        "window w as (order by at)",
        [
            "ntile(2): ntile needs all rows of a key, and a stream has no last one [row_number()"
            " and rank() count up to the current row]",
            "max(id) over w: max over (...) is inside of lag over (...) [compute it in a query in"
            " from (...)]",
        ],
    ),
    "name of a window": (
        "select count(*) over v as n from orders window w as (order by at)",
        ['v: unknown window "v" [window v as (partition by ...)]'],
    ),
    "window over changes": (
        "select lag(city) over (partition by id order by at) as before from moves",
        [
            "lag(city) over (partition by id order by at): lag over (...) wants facts, and these"
            " rows change [compute it before rows are grouped or become a table]"
        ],
    ),
    "values of partitions": (
        "select id, sum(amount) over (partition by tags) as a from orders",
        ["tags: wanted a key of a single value, got array<string>"],
    ),
    "names in partitions": (
        "select id, sum(nope) over () as a, count(*) over (partition by nope) as b from orders",
        [
            'nope: unknown column "nope" [the columns are id, customer, amount, tags, at; text goes'
            " in quotes: 'nope']"
        ],
    ),
    "window in where": (
        "select id from orders where sum(amount) over (order by at) > 3",
        [
            "sum(amount) over (order by at): where is applied before functions over rows are, and"
            " sum over (...) is one [a condition on functions over (...) goes after qualify]"
        ],
    ),
    "grouping in where": (
        "select id from orders where grouping(id) = 1 and idd = 2 group by rollup(id)",
        [
            "grouping(id): where is applied before rows are grouped, and grouping is about groups"
            " [a condition on groups goes after having]",
            'idd: unknown column "idd" [did you mean "id"?]',
        ],
    ),
    "tumble without group by": (
        "select id from orders where tumble(at, interval 1 minute) is not null",
        [
            "tumble(at, interval 1 minute): tumble(...) is an item of group by, and not a value"
            " [write it after group by, and select window_start and window_end, its times]"
        ],
    ),
    "rollup of nothing": (
        "select count(*) from orders group by rollup()",
        [
            "): sql: wanted the columns of rollup, got none"
            " [as in rollup(a, b); all rows are one group without group by]"
        ],
    ),
    "two statements": (
        "select id from orders; select at from orders",
        [
            ';: sql: wanted one query, got more after ";"'
            " [each query is a step of its own, or a query of with]"
        ],
    ),
    "random value read again": (
        "select rand() as r, r * 2 as s from orders",
        [
            'r: "r" is random, and would have another value here'
            " [put this query into from (...), and read r around it]"
        ],
    ),
    "lateral without view": (
        "select e from orders cross join lateral explode(tags) as t(e)",
        [
            "lateral explode: sql: lateral explode(...) is no table"
            " [lateral view explode(...) t as item, after the tables, makes rows of an array]"
        ],
    ),
    "star of groups": (
        "select * from moves group by id, city",
        [
            '*: "at" is neither in group by nor inside an aggregate'
            " [add it to group by, or write first(at)]"
        ],
    ),
    "qualify without a window": (
        "select id from orders qualify amount > 3",
        [
            "amount > 3: qualify is a condition on functions over (...), and there is none"
            " [a condition on rows goes after where, one on groups after having]"
        ],
    ),
    "grouping sets": (
        "select customer, grouping(id), grouping_id(id) from orders group by rollup(customer)",
        [
            "grouping(id): grouping wants one expression of group by",
            "grouping_id(id): grouping_id wants all expressions of group by, in their order"
            " [write grouping_id()]",
        ],
    ),
    "no grouping sets": (
        "select customer from orders group by customer having grouping(customer) = 0",
        [
            "grouping(customer): there are no sets of groups for grouping"
            " [they go with group by rollup(...), cube(...) or grouping sets (...)]"
        ],
    ),
    "window in a grouping set": (
        "select count(*) from orders group by rollup(tumble(at, interval 1 minute), id)",
        [
            "tumble(at, interval 1 minute): a window is in all sets of group by, or in none"
            " [group by tumble(at, interval 1 minute), rollup(...)]"
        ],
    ),
    "value of several rows": (
        "select id, (select paid from payments) as m from orders",
        [
            "(select paid from payments): a query as a value is supported if it is one aggregate"
            " without group by [as in (select max(amount) from orders where orders.customer ="
            " c.id)]"
        ],
    ),
    "count in a value": (
        "select id, (select count(*) + 1 from payments p where p.order = o.id) as m from orders o",
        [
            "count(*) + 1: a count as a part of a value is not supported where rows are compared"
            " [compute with the result of the query]"
        ],
    ),
    "value in on": (
        "select o.id from orders o join payments p on p.order = o.id"
        " and p.paid = (select max(paid) from payments)",
        [
            "(select max(paid) from payments): a query is not supported here [a query may stand in"
            " from, in where as in (...) or exists (...), and as a value in where, having, select"
            " and group by]"
        ],
    ),
    "value of a row beside groups": (
        "select amount in (select paid from payments) as customer, count(*) as n from orders"
        " group by customer",
        [
            "amount in (select paid from payments): a query is neither in group by nor inside an"
            " aggregate [compute it in a query in from (...)]"
        ],
    ),
    "order by the result and the rows": (
        "select distinct customer as c from orders order by c + max(amount) limit 3",
        [
            "c + max(amount): after select distinct, only columns of the result can be ordered by"
            " [they are c]"
        ],
    ),
    "unknown column beside the result": (
        "select customer as c, count(*) as n from orders group by customer order by n + amount, c +"
        " summ(id) limit 3",
        [
            'amount: "amount" is neither in group by nor inside an aggregate'
            " [add it to group by, or write first(amount)]",
            'summ: unknown function "summ" [did you mean "sum"?]',
        ],
    ),
    "in below or by an inequality": (
        "select id from orders o where amount > 1 or exists (select 1 from payments where"
        " paid > o.amount)",
        [
            "paid > o.amount: a query as a value is compared with the query around it by equalities"
            " only [as in (select max(amount) from orders where orders.customer = c.id)]"
        ],
    ),
    "union of other types": (
        "select id from orders union all select array(order) from payments",
        [
            'select array(order) from payments: "id" is bigint in the first query and array<bigint>'
            " here [cast one of them]"
        ],
    ),
    "types of expressions": (
        "select o.customer + 1 as a, p.paid like o.tags as b from orders o\n"
        "join payments p on o.id = p.order and p.paid",
        [
            "o.tags: like wants string, got array<string> [cast(... as string) converts"
            " explicitly]",
            "p.paid: and wants boolean, got double [write a full comparison on both sides of and]",
        ],
    ),
    "all at once": (
        "with a as (select idd from orders), b as (select nope from payments)\n"
        "select a.idd, b.z, tumble(1) as w from a join b on a.x = b.y where c.d = 1",
        [
            'idd: unknown column "idd" [did you mean "id"?]',
            'nope: unknown column "nope" [the columns are order, paid, at; text goes in quotes:'
            " 'nope']",
        ],
    ),
    "several in one query": (
        "select idd, amount * nope as x from orders where customr = 1 and foo > 2",
        [
            'idd: unknown column "idd" [did you mean "id"?]',
            'nope: unknown column "nope" [the columns are id, customer, amount, tags, at; text goes'
            " in quotes: 'nope']",
            'customr: unknown column "customr" [did you mean "customer"?]',
            'foo: unknown column "foo" [the columns are id, customer, amount, tags, at; text goes'
            " in quotes: 'foo']",
        ],
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake_is_marked_in_the_query(tmp_path: Path, case: str) -> None:
    sql, wanted = MISTAKES[case]
    assert list_errors(tmp_path, sql) == wanted


def test_syntax_error_has_its_place_in_the_query(tmp_path: Path) -> None:
    problem = built(tmp_path, write_query("select id\nfrom orders\nwhere id >"))[1][0]
    assert problem.location is not None
    assert (problem.location.line, problem.location.text) == (23, "      where id >")
    assert problem.message == "sql: wanted a value, got the end"


def test_only_an_inserted_text_is_shown_as_such(tmp_path: Path) -> None:
    text = write_query("select o.id, o.${env:NAME:-nope} from orders o join payments on id = order")
    problem = built(tmp_path, text)[1][0]
    assert problem.location is not None
    assert problem.location.replaced_value == '"nope"'
    assert problem.message == 'unknown column "nope" of o'


@pytest.mark.parametrize("key", ["where: id > 1", "from: orders", "on_error: skip"])
def test_query_takes_no_other_clauses(tmp_path: Path, key: str) -> None:
    problems = built(tmp_path, write_query("select id from orders", f"    {key}\n"))[1]
    name = key.partition(":")[0]
    assert problems[0].message == f'"{name}" does not go with "sql"'


def test_cycle_of_queries_is_found(tmp_path: Path) -> None:
    text = write_query("select id from orders where id in (select id from q)")
    assert built(tmp_path, text)[1][0].message == "steps read each other in a cycle: q from q"


def test_probable_mistakes_are_warned_of(tmp_path: Path) -> None:
    sql = 'select "customer" as c from orders where amount = null and "id" = "x"'
    problems = build_query(tmp_path, sql)[1]
    assert [(problem.severity, problem.message, problem.hint) for problem in problems] == [
        ("warning", '"customer" is a text, and not the column of that name', "write customer"),
        ("warning", "= with null is null for every row", "write amount is null"),
        (
            "warning",
            "only constants are compared here, so this is the same for every row",
            "write id",
        ),
    ]


def test_hints_to_an_optimizer_are_warned_of(tmp_path: Path) -> None:
    sql = "select /*+ BROADCAST(o) */ id from orders o /* + no */ where '/*+ no */' <> customer"
    (problem,) = build_query(tmp_path, sql)[1]
    message = "a hint to the optimizer has no effect: /*+ BROADCAST(o) */"
    assert (problem.severity, problem.message) == ("warning", message)


def test_names_inside_of_queries_are_not_suggested(tmp_path: Path) -> None:
    sql = "with b as (select id, count(*) as n from orders group by id) select id from b join nada"
    (problem,) = build_query(tmp_path, f"{sql} on n = id")[1]
    assert problem.message == 'unknown source or step "nada"'
    assert "@" not in problem.hint and "orders" in problem.hint


def test_what_a_batch_refuses_is_marked_at_the_ttl_of_the_query(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    sql = "with a as (select distinct customer from orders) select o.id from orders o join a using"
    ttl = "    ttl: {after: 1h, time: processing}\n"
    file.write_text(write_query(f"{sql} (customer)", ttl))
    loaded = load_pipeline(file, REGISTRY, env={})
    plan, _ = build_plan(loaded)
    assert plan is not None
    problems = find_problems(loaded.pipeline, plan, REGISTRY)
    assert [each.message.partition(":")[0] for each in problems if each.location] == [
        "--batch has no ttl by processing time",
        "--batch has no joins by processing time",
    ]
    assert all(each.location and "ttl:" in each.location.text for each in problems)


FOLLOWED = [
    "select id, grouping(id) as g from orders group by rollup(id) having grouping(id) = 1",
    "select id from orders qualify sum(amount) over (order by at) > 3",
    "select window_start, count(*) as n from orders group by tumble(at, interval 1 minute)",
    "select e from orders lateral view explode(tags) t as e",
    "select customer, id, count(*) as n from orders group by rollup(customer, id)",
]


@pytest.mark.parametrize("sql", FOLLOWED)
def test_following_the_hint_works(tmp_path: Path, sql: str) -> None:
    assert list_errors(tmp_path, sql) == []
