"""Queries whose plans are those of steps in YAML: the same operations, texts and state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sql_steps import SINKS, SOURCES, build_steps, describe_steps, write_query

CASES = {
    "filter": (
        "select id, amount * 2 as twice from orders o where o.amount > 1",
        "q: {from: orders, where: amount > 1, select: {id: id, twice: amount * 2}}",
    ),
    "columns": (
        "select customer, id from orders",
        "q: {from: orders, select: [customer, id]}",
    ),
    "star": (
        "select * from orders where amount > 1",
        "q: {from: orders, where: amount > 1}",
    ),
    "groups": (
        "select customer, count(*) as n, sum(amount) total from orders group by customer"
        " having n > 1",
        "q: {from: orders, key: customer, aggregate: {n: count(*), total: sum(amount)},"
        " having: n > 1}",
    ),
    "computed key": (
        "select to_date(at) as day, max(amount) m from orders group by 1",
        "q: {from: orders, key: {day: to_date(at)}, aggregate: {m: max(amount)}}",
    ),
    "order of columns": (
        "select count(*) as n, customer from orders group by customer",
        "q: {from: orders, key: customer, aggregate: {n: count(*)}, select: [n, customer]}",
    ),
    "hidden aggregate": (
        "select customer, count(*) + 1 as n from orders group by customer having max(amount) > 3",
        "q: {from: orders, key: customer, aggregate: {n: count(*) + 1, 'max(amount)': max(amount)},"
        " having: '`max(amount)` > 3', select: [customer, n]}",
    ),
    "global": (
        "select count(*) as n from orders",
        "q: {from: orders, aggregate: {n: count(*)}, emit_empty: true}",
    ),
    "condition on all groups": (
        "select sum(amount) as s from orders having count(*) = 0",
        "q: {from: orders, aggregate: {s: sum(amount), count(*): count(*)}, emit_empty: true,"
        " having: '`count(*)` = 0', select: [s]}",
    ),
    "grouping sets": (
        "select customer, id, count(*) as n, grouping_id() as g from orders where id > 1"
        " group by customer, rollup(id), tumble(at, interval 10 seconds)",
        "sets: {from: orders, explode: {grouping_id(): 'array(0L, 1L)'}, where: id > 1}\n"
        "  q: {from: sets, key: {customer: customer,"
        " id: case when (`grouping_id()` & 1) = 0 then id end, grouping_id(): '`grouping_id()`'},"
        " window: {tumble: 10s}, aggregate: {n: count(*)},"
        " select: {customer: customer, id: id, n: n, g: '`grouping_id()`'}}",
    ),
    "tumble": (
        "select customer, window_start, window_end, count(*) as n from orders"
        " group by customer, tumble(at, interval 10 seconds)",
        "q: {from: orders, key: customer, window: {tumble: 10s}, aggregate: {n: count(*)}}",
    ),
    "hop": (
        "select window_end, count(*) as n from orders"
        " group by hop(at, interval 10 seconds, interval 1 minute)",
        "q: {from: orders, window: {slide: 1m, every: 10s}, aggregate: {n: count(*)},"
        " select: [window_end, n]}",
    ),
    "cumulate": (
        "select window_start, window_end, count(*) as n from orders"
        " group by cumulate(at, interval 10 minutes, interval 1 hour)",
        "q: {from: orders, window: {cumulate: 1h, every: 10m}, aggregate: {n: count(*)}}",
    ),
    "session": (
        "select customer, window_start, window_end, count(*) as n from orders"
        " group by session(at, interval 30 seconds), customer",
        "q: {from: orders, key: customer, window: {session: 30s}, aggregate: {n: count(*)}}",
    ),
    "spark window": (
        "select window.start as s, count(*) as n from orders group by window(at, '10 seconds')",
        "q: {from: orders, window: {tumble: 10s}, aggregate: {n: count(*)},"
        " select: {s: window_start, n: n}}",
    ),
    "join": (
        "select o.id, c.city as city from orders o join moves c on o.customer = c.id",
        "q: {join: {left: {from: orders, as: o}, right: {from: moves, as: c},"
        " on: o.customer = c.id}, select: {id: o.id, city: c.city}}",
    ),
    "within": (
        "select o.id, paid from orders o left join payments p"
        " on o.id = p.order"
        " and p.at between o.at - interval 5 seconds and o.at + interval 1 minute",
        "q: {join: {left: {from: orders, as: o}, right: {from: payments, as: p},"
        " on: o.id = p.order, type: left, within: [-5s, 1m]}, select: {id: o.id, paid: paid}}",
    ),
    "within by comparisons": (
        "select id from orders o, payments p"
        " where id = order and p.at >= o.at and p.at <= o.at + interval 1 second",
        "q: {join: {left: {from: orders, as: o}, right: {from: payments, as: p},"
        " on: id = order, within: [0s, 1s]}, select: {id: id}}",
    ),
    "at once": (
        "select o.id, paid from orders o left join payments p on o.id = p.order",
        "q: {join: {left: {from: orders, as: o}, right: {from: payments, as: p},"
        " on: o.id = p.order, type: left, emit: at_once}, select: {id: o.id, paid: paid}}",
    ),
    "as of": (
        "select o.id, paid from orders o join payments for system_time as of o.at as p"
        " on o.id = p.order",
        "q: {join: {left: {from: orders, as: o}, right: {from: payments, as: p},"
        " on: o.id = p.order, as_of: true}, select: {id: o.id, paid: paid}}",
    ),
    "semi": (
        "select * from orders o where exists (select 1 from payments p where o.id = p.order)",
        "q: {join: {left: {from: orders, as: o}, right: {from: payments, as: p},"
        " on: o.id = p.order, type: semi}}",
    ),
    "distinct": (
        "select distinct customer from orders",
        "q: {from: orders, dedup: {key: customer}, select: [customer]}",
    ),
    "union": (
        "select * from orders union all select * from others",
        "q: {from: [orders, others]}",
    ),
    "explode": (
        "select id, tag from orders lateral view outer explode(tags) t as tag where tag <> 'x'",
        "q: {from: orders, explode: {tag: tags, outer: true}, where: tag <> 'x',"
        " select: [id, tag]}",
    ),
    "top": (
        "select *, row_number() over (partition by customer order by amount desc) as rn"
        " from orders qualify rn <= 2",
        "q: {from: orders, key: customer, top: {n: 2, by: amount desc},"
        " select: {id: id, customer: customer, amount: amount, tags: tags, at: at, rn: rank}}",
    ),
    "top with ties": (
        "select id, dense_rank() over (partition by customer order by amount desc nulls first) as d"
        " from orders qualify d < 3",
        "q: {from: orders, key: customer,"
        " top: {n: 2, by: amount desc nulls first, ties: dense_rank}, select: {id: id, d: rank}}",
    ),
    "top with ties of a query around it": (
        "select * from (select *, rank() over (order by at desc) as rank from orders) as o"
        " where o.rank = 1",
        "o: {from: orders, top: {n: 1, by: at desc, ties: rank}}\n"
        "  q: {from: o, select: [id, customer, amount, tags, at, rank]}",
    ),
    "ranks of facts by event time": (
        "select *, rank() over (partition by customer order by at) as r from orders qualify r <= 2",
        "over: {from: orders, key: customer, over: {r: rank()}}\n  q: {from: over, where: r <= 2}",
    ),
    "top with its rank": (
        "select *, row_number() over (partition by customer order by amount desc) as rank"
        " from orders qualify rank <= 2",
        "q: {from: orders, key: customer, top: {n: 2, by: amount desc}}",
    ),
    "window of results": (
        "with counts as (select customer, count(*) as n, window_end as ends from orders"
        " group by customer, hop(at, interval 2 seconds, interval 10 seconds))"
        " select ends, max(n) as most from counts group by ends",
        "counts: {from: orders, key: customer, window: {slide: 10s, every: 2s},"
        " aggregate: {n: count(*)}, select: {customer: customer, n: n, ends: window_end}}\n"
        "  q: {from: counts, key: ends, window: {tumble: 2s}, aggregate: {most: max(n)},"
        " select: [ends, most]}",
    ),
    "longer window of results": (
        "with counts as (select customer, count(*) as n, window_end from orders"
        " group by customer, tumble(at, interval 10 seconds))"
        " select max(n) as most from counts"
        " group by tumble(window_end - interval 1 microsecond, interval 1 minute)",
        "counts: {from: orders, key: customer, window: {tumble: 10s}, aggregate: {n: count(*)},"
        " select: [customer, n, window_end]}\n"
        "  q: {from: counts, window: {tumble: 1m}, aggregate: {most: max(n)}, select: [most]}",
    ),
    "equal times": (
        "select o.id, paid from orders o left join payments p on o.id = p.order and p.at = o.at",
        "q: {join: {left: {from: orders, as: o}, right: {from: payments, as: p},"
        " on: o.id = p.order and p.at = o.at, type: left, within: [0s, 0s]},"
        " select: {id: o.id, paid: paid}}",
    ),
    "dedup": (
        "select id, customer from orders"
        " qualify row_number() over (partition by customer order by at desc) = 1",
        "q: {from: orders, dedup: {key: customer, keep: last, order: event_time},"
        " select: [id, customer]}",
    ),
    "over": (
        "select *, row_number() over w as n, lag(customer, 1, 'none') over w as before,"
        " amount - avg(amount) over (partition by customer order by at rows 4 preceding) as change,"
        " count(*) filter (where amount > 3) over (partition by customer order by at range between"
        " interval '1' hour preceding and current row) as big"
        " from orders where amount > 1 window w as (partition by customer order by at)",
        "q: {from: orders, where: amount > 1, key: customer, over: {n: row_number(),"
        " before: \"lag(customer, 1, 'none')\","
        " change: amount - avg(amount) over (rows 4 preceding),"
        " big: count(*) filter (where amount > 3) over (range between interval '1' hour preceding"
        " and current row)}}",
    ),
    "columns of over": (
        "select o.id, sum(o.amount) over (order by o.at) as amount from orders o",
        "q: {from: orders, over: {amount_: sum(amount)}, select: {id: id, amount: amount_}}",
    ),
    "condition on over": (
        "select id, n from (select id, at, lead(id) over (partition by to_date(at)"
        " order by at) as n from orders) where n > id",
        "subquery: {from: orders, key: {to_date(at): to_date(at)},"
        " over: {n: lead(id)}, select: [id, at, n]}\n"
        "  q: {from: subquery, where: n > id, select: [id, n]}",
    ),
    "over windows": (
        "select customer, window_end, avg(sum(amount)) over (partition by customer"
        " order by window_end rows 2 preceding) as recent"
        " from orders group by customer, tumble(at, interval 10 seconds)",
        "groups: {from: orders, key: customer, window: {tumble: 10s},"
        " aggregate: {sum(amount): sum(amount)},"
        " select: [customer, window_end, sum(amount)]}\n"
        "  q: {from: groups, key: customer, over: {recent: 'avg(`sum(amount)`) over (rows 2"
        " preceding)'}, select: [customer, window_end, recent]}",
    ),
    "named query": (
        "with big as (select id, customer from orders where amount > 9)"
        " select customer, count(*) as n from big group by customer",
        "big: {from: orders, where: amount > 9, select: [id, customer]}\n"
        "  q: {from: big, key: customer, aggregate: {n: count(*)}}",
    ),
    "first rows": (
        "select id from orders order by amount desc limit 3",
        "top: {from: rows, top: {n: 3, by: '`order by amount` desc'}}\n"
        "  rows: {from: orders, select: {id: id, order by amount: amount}}\n"
        "  q: {from: top, select: [id]}",
    ),
}
OTHERS = "  others: {from: orders, where: id > 0}\n"


@pytest.mark.parametrize("case", CASES)
def test_plan_of_a_query_is_that_of_its_yaml(tmp_path: Path, case: str) -> None:
    sql, yaml = CASES[case]
    sinks = f"{SINKS}  e: {{from: others, console: {{}}}}\n"
    query = write_query(sql).replace("steps:\n", f"steps:\n{OTHERS}").replace(SINKS, sinks)
    made = build_steps(tmp_path, query)
    wanted = build_steps(tmp_path, f"{SOURCES}steps:\n{OTHERS}  {yaml}\n{sinks}")
    assert describe_steps(made) == describe_steps(wanted)
