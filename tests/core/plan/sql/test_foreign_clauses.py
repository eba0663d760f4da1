"""Misspelt words of clauses, and clauses of other dialects: what is marked, the hint, and a query
that follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sql_steps import list_errors

GROUPS = "select customer, count(*) as n from orders group by customer having n > 3"
RANKED = "select id from orders qualify row_number() over (partition by customer order by {}) = 1"
FIRST = f"{GROUPS} order by n limit 3"
PAID = "select o.id, p.paid from orders o join payments p on o.id = p.order where o.amount > 3"

MISTAKES = {
    "select id frm orders": ('frm [did you mean "from"?]', "select id from orders"),
    "select id from orders wher id > 3": (
        'wher [did you mean "where"?]',
        "select id from orders where id > 3",
    ),
    "select id from (select id from orders o whre id > 3)": (
        'whre [did you mean "where"?]',
        "select id from (select id from orders o where id > 3)",
    ),
    "select id from orders where id > 3 adn id < 9": (
        'adn [did you mean "and"?]',
        "select id from orders where id > 3 and id < 9",
    ),
    "select count(*) as n from orders grop by customer": (
        'grop [did you mean "group"?]',
        "select count(*) as n from orders group by customer",
    ),
    "selct id from orders": ('selct [did you mean "select"?]', "select id from orders"),
    GROUPS.replace("n > 3", "totl > 3").replace("as n", "as total"): (
        'totl [did you mean "total"?]',
        GROUPS.replace("n > 3", "total > 3").replace("as n", "as total"),
    ),
    FIRST.replace("by n ", "by nu "): ('nu [did you mean "n"?]', FIRST),
    PAID.replace("p.paid", "p.payd").replace("o.id =", "o.idd ="): (
        'payd [did you mean "paid"?]; idd [did you mean "id"?]',
        PAID,
    ),
    "select id, from orders": ("from [remove the comma before it]", "select id from orders"),
    "select id from orders, where id > 3": (
        "where [remove the comma before it]",
        "select id from orders where id > 3",
    ),
    "select distinct on (customer) id from orders": (
        "distinct on [as in qualify row_number() over (partition by customer order by at) = 1]",
        "select id from orders qualify row_number() over (partition by customer order by at) = 1",
    ),
    "select count(*) filter where id > 3 as n from orders": (
        "where [as in count(*) filter (where amount > 3)]",
        "select count(*) filter (where id > 3) as n from orders",
    ),
    "select listagg(customer, ',' order by at) as c from orders": (
        "order [as in listagg(name, ',') within group (order by at)]",
        "select listagg(customer, ',') within group (order by at) as c from orders",
    ),
    "select * exclude (id) from plain": (
        "exclude [write the columns by name]",
        "select at from plain",
    ),
    "select id from orders order by id fetch first 3 rows only": (
        "fetch [write limit 3 in its place]",
        "select id from orders order by id limit 3",
    ),
    "select id from orders fetch next 3 rows only": (
        "fetch [write limit 3 in its place]",
        "select id from orders order by id limit 3",
    ),
    "select id from orders order by id limit 2, 3": (
        ", [the rows before come last: limit 3 offset 2]",
        "select id from orders order by id limit 3 offset 2",
    ),
    "select id from orders order by id offset 2 rows": (
        "rows [as in limit 10 offset 2]",
        "select id from orders order by id limit 10 offset 2",
    ),
    "select at at time zone 'UTC' as x from orders": (
        "time [as in from_utc_timestamp(at, 'Europe/Oslo')]",
        "select from_utc_timestamp(at, 'UTC') as x from orders",
    ),
    "select id from orders where customer similar to 'a.*'": (
        'similar to [write "rlike"]',
        "select id from orders where customer rlike 'a.*'",
    ),
    "select cast(id as varchar(10)) as x from orders": (
        'varchar(10) [did you mean "string"?]',
        "select cast(id as string) as x from orders",
    ),
    "select at - '1 day'::interval as x from orders": (
        "interval [as in interval 1 day, without a cast]",
        "select at - interval 1 day as x from orders",
    ),
    "select customer ->> 'a' as x from orders": (
        "->> [as in get_json_object(text, '$.name')]",
        "select get_json_object(customer, '$.a') as x from orders",
    ),
    "select id from orders where customer = $1": (
        "$1 [there are no parameters: write the value itself]",
        "select id from orders where customer = 'a'",
    ),
    "select id from orders where customer = ?": (
        "? [there are no parameters: write the value itself]",
        "select id from orders where customer = 'a'",
    ),
    "select id from orders where customer = :name": (
        ":name [there are no parameters: write the value itself]",
        "select id from orders where customer = 'a'",
    ),
    "select [id] from orders": ("[id] [write id]", "select id from orders"),
    "select id from orders where exists payments": (
        "payments [as in exists (select 1 from orders where id = 1)]",
        "select id from orders where exists (select 1 from payments where order = id)",
    ),
    "select n from range(3) as t(n)": (
        "range [as in (select 1) lateral view explode(sequence(1, 3)) t as id]",
        "select n from (select 1) lateral view explode(sequence(0, 2)) t as n",
    ),
    "select * from moves pivot (count(*) for city in ('Oslo'))": (
        "pivot [as in sum(amount) filter (where city = 'Oslo') as oslo, a column for each value]",
        "select count(*) filter (where city = 'Oslo') as oslo from moves",
    ),
    "select id from orders emit changes": (
        "emit changes [a result is emitted when it changes, that of a window when it ends: remove"
        " it]",
        "select id from orders",
    ),
    "select id from orders for system_time as of timestamp '2026-01-01 00:00:00'": (
        "timestamp '2026-01-01 00:00:00' [as in from orders o join orders for system_time as of"
        " o.at as v on ...]",
        "select id from orders",
    ),
    "select floor(at to hour) as h from orders": (
        "to [as in date_trunc('hour', at)]",
        "select date_trunc('hour', at) as h from orders",
    ),
    "select ceil(at to day) as d from orders": (
        "to [as in date_trunc('day', at + interval 1 day - interval 1 microsecond)]",
        "select date_trunc('day', at + interval 1 day - interval 1 microsecond) as d from orders",
    ),
    "select cast(at as timestamp(3)) as x from orders": (
        "timestamp(3) [write timestamp, or timestamp_ntz without a time zone: both have"
        " microseconds]",
        "select cast(at as timestamp_ntz) as x from orders",
    ),
    "select cast(at as timestamp without time zone) as x from orders": (
        "timestamp [write timestamp_ntz alone]",
        "select cast(at as timestamp_ntz) as x from orders",
    ),
    "select cast(id as double precision) as x from orders": (
        "double precision [write double]",
        "select cast(id as double) as x from orders",
    ),
    "select array[id, 3] as x from orders": (
        "array [as in array(1, 2)]",
        "select array(id, 3) as x from orders",
    ),
    "select customer is json as x from orders": (
        "json [as in get_json_object(text, '$') is not null]",
        "select get_json_object(customer, '$') is not null as x from orders",
    ),
    "select id from orders where id between symmetric 9 and 3": (
        "9 [as in between least(a, b) and greatest(a, b)]",
        "select id from orders where id between least(9, 3) and greatest(9, 3)",
    ),
    "select customer similar to 'a' as x from orders": (
        'to [write "rlike"]',
        "select customer rlike 'a' as x from orders",
    ),
    "select customer collate en as x from orders": (
        "en [lower(text) on both sides compares without case]",
        "select lower(customer) as x from orders",
    ),
    "select json_value(customer, '$.a' returning int) as x from orders": (
        "returning [as in get_json_object(text, '$.a')]",
        "select int(get_json_object(customer, '$.a')) as x from orders",
    ),
    "select id from catalog.db.orders": (
        'catalog.db.orders [did you mean "orders"?]',
        "select id from orders",
    ),
    RANKED.format("proctime()"): (
        "proctime() [order by the event time; dedup in YAML keeps the row that arrives first]",
        RANKED.format("at"),
    ),
    "with t as select id from orders select id from t": (
        "select [as in with name as (select ...)]",
        "with t as (select id from orders) select id from t",
    ),
    "with t as (select id from orders), t as (select 1 as id) select id from t": (
        "t [rename one of them]",
        "with t as (select id from orders), u as (select 1 as id) select t.id from t, u",
    ),
}


@pytest.mark.parametrize("sql", MISTAKES)
def test_a_clause_that_is_none_is_marked_with_what_to_write(tmp_path: Path, sql: str) -> None:
    wanted, followed = MISTAKES[sql]
    errors = (each.partition(": ") for each in list_errors(tmp_path, sql))
    found = "; ".join(f"{marked} {text[text.rindex(' [') + 1 :]}" for marked, _, text in errors)
    assert found == wanted
    assert list_errors(tmp_path, followed) == []


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("insert into out select id from orders", "insert into SINK select"),
        ("create view v as select id from orders", "create view NAME as select"),
        ("update orders set id = 3", "a query only reads"),
        ("delete from orders", "a query only reads"),
        ("explain select id from orders", "headrace explain"),
        ("set 'table.exec.state.ttl' = '1 d'", "settings"),
        ("execute statement set begin end", "run together"),
        ("use catalog a", "a source or a step"),
        ("select * from table(top_two(table orders))", "lateral view explode"),
        ("select * from orders o, lateral table(prices(o.at)) p", "for system_time as of"),
        ("select * from orders cross join unnest(tags) as t (tag)", "lateral view explode"),
        ("select id from orders for update", "a query only reads"),
    ],
)
def test_a_statement_that_is_no_query_is_rejected_with_its_hint(
    tmp_path: Path, sql: str, hint: str
) -> None:
    (error,) = list_errors(tmp_path, sql)
    assert hint in error


@pytest.mark.parametrize(
    "sql",
    [
        "select fetch from (select 1 as fetch from orders) fetch",
        "select x, where from (select id as x, 2 as where from orders) where where = 2",
        "with t (select id from orders) select id from t",
        "with t (x) as (select id from orders) select x from t",
    ],
)
def test_a_word_of_a_clause_may_be_a_name(tmp_path: Path, sql: str) -> None:
    assert list_errors(tmp_path, sql) == []
