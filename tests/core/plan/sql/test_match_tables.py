"""`match_recognize` in queries: its plans are those of `match`, its mistakes have places, and the
examples of Flink's page on pattern recognition have the rows that this page names."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from tests.support.runtime.memory_pipelines import simulated
from tests.support.sql_steps import (
    SINKS,
    SOURCES,
    build_steps,
    describe_steps,
    list_errors,
    write_query,
)
from tests.support.trials import START

EQUAL_PLANS = {
    "one row per match": (
        "partition by customer order by at measures a.id as first, last(b.amount) as amount,"
        " count(*) as n one row per match after match skip to next row pattern (a b+ c)"
        " within interval '10' minutes define b as b.amount > a.amount, c as amount < 1",
        "key: customer, match: {pattern: a b+ c, define: {b: amount > a.amount, c: amount < 1},"
        " within: 10m, after_match: next, emit: {first: a.id, amount: last(b.amount),"
        " n: count(*)}}, select: [customer, first, amount, n]",
    ),
    "quantifiers, groups and alternatives": (
        "partition by customer order by at asc measures last(a.id) as id"
        " after match skip past last row pattern (a{2,3}? (b | c d)+ e{,2} f) define f as id > 3",
        "key: customer, match: {pattern: 'a{2,3}? (b | c d)+ e{0,2} f', define: {f: id > 3},"
        " after_match: past_last, emit: {id: last(a.id)}}, select: [customer, id]",
    ),
    "rows of other variables": (
        "partition by customer order by at measures first(a.id) as id, final last(b.id) as last,"
        " running sum(b.amount) as s after match skip to first b pattern (a b c)"
        " define b as b.id = last(a.id, 0), c as c.id > first(a.id) and sum(b.amount) > 3"
        " and count(b.*) = 1",
        "key: customer, match: {pattern: a b c, define: {b: id = last(a.id), c: id > first(a.id)"
        " and sum(b.amount) > 3 and count(b) = 1}, after_match: {first: b}, emit: {id: first(a.id),"
        " last: last(b.id), s: sum(b.amount)}}, select: [customer, id, last, s]",
    ),
    "rows of all variables": (
        "partition by customer order by at measures amount as a, max(id) + 1 as top,"
        " first(id, 1) as second, match_rowtime() as at, match_rowtime(at) as match_end"
        " after match skip to b pattern (a b) define b as prev(id) < b.id and last(id, 1) < 9",
        "key: customer, match: {pattern: a b, define: {b: last(id) < id and last(id) < 9},"
        " after_match: {last: b}, emit: {a: last(amount), top: max(id) + 1, second:"
        " \"element_at(collect_list(named_struct('value', id)), 2).value\","
        " at: last(at), match_end_: last(at)}},"
        " select: {customer: customer, a: a, top: top, second: second, at: at,"
        " match_end: match_end_}",
    ),
    "all rows per match": (
        "partition by customer order by at measures classifier() as step, amount * 2 as twice"
        " all rows per match omit empty matches pattern (a b) define b as b.id > a.id",
        "key: customer, match: {pattern: a b, define: {b: id > a.id}, all_rows: true},"
        " select: {customer: customer, at: at, step: variable, twice: amount * 2, id: id,"
        " amount: amount, tags: tags}",
    ),
    "signs of match": (
        "partition by upper(customer) order by at measures a.id as id pattern (a -> not b)"
        " within interval 1 hour define b as b.id = a.id",
        "key: {upper(customer): upper(customer)}, match: {pattern: a -> not b,"
        " define: {b: id = a.id}, within: 1h, emit: {id: a.id}},"
        " select: [upper(customer), id]",
    ),
}
CONDITIONS = {
    "last(b.id) > 1": "id > 1",
    "running last(b.id + 1, 0) > 1": "(id + 1) > 1",
    "b.id > last(b.id, 1)": "id > last(b.id)",
    "last(b.id, 2) > 1": "element_at(collect_list(named_struct('value', b.id)), -2).value > 1",
    "first(b.id) > 1": "first(b.id, id) > 1",
    "first(b.id, 1) > 1": "if(count(b) = 1, id, element_at(collect_list(named_struct('value',"
    " b.id)), 2).value) > 1",
    "first(id, 1) > 1": "if(count(*) = 1, id, element_at(collect_list(named_struct('value',"
    " id)), 2).value) > 1",
    "last(a.id, 1) > 1": "element_at(collect_list(named_struct('value', a.id)), -2).value > 1",
    "sum(b.amount) > 1": "coalesce(sum(b.amount) + amount, sum(b.amount), amount) > 1",
    "sum(amount) > 1": "coalesce(sum(amount) + amount, sum(amount), amount) > 1",
    "sum(a.amount) > 1": "sum(a.amount) > 1",
    "min(b.id) > 1": "least(min(b.id), id) > 1",
    "max(id) > 1": "greatest(max(id), id) > 1",
    "count(*) > 2": "(count(*) + 1) > 2",
    "count(b.*) > 2": "(count(b) + 1) > 2",
    "count(b.id) > 2": "(count(b.id) + nvl2(id, 1, 0)) > 2",
    "avg(b.id * 2) > 2": "(coalesce(sum(b.id * 2) + (id * 2), sum(b.id * 2), (id * 2))"
    " / (count(b.id * 2) + nvl2((id * 2), 1, 0))) > 2",
    "prev(b.id) > 1": "last(id) > 1",
    "exists(tags, b -> b = 'x')": "exists(tags, b -> b = 'x')",
}
"""Conditions of `b` in the pattern `a+ b+ c`."""
SINGLE_CONDITIONS = {
    "sum(c.amount) > 1": "amount > 1",
    "avg(c.id) > 1": "cast(id as double) > 1",
    "count(c.id) = 1": "nvl2(id, 1, 0) = 1",
    "count(c.*) < id": "1 < id",
    "first(c.id) > 1": "id > 1",
    "max(c.id) > 1": "id > 1",
}
"""Conditions of `c` in the same pattern, which has one row of `c`."""
M_SINKS = SINKS.replace("from: q", "from: m")


def write_match(clauses: str, columns: str = "*") -> str:
    return f"select {columns} from orders match_recognize ({clauses}) as m"


def write_condition(variable: str, condition: str) -> str:
    return write_match(
        "partition by customer order by at measures a.id as id pattern (a+ b+ c)"
        f" define {variable} as {condition}"
    )


@pytest.mark.parametrize("case", EQUAL_PLANS)
def test_a_query_has_the_plan_of_match(tmp_path: Path, case: str) -> None:
    clauses, keys = EQUAL_PLANS[case]
    made = build_steps(tmp_path, write_query(write_match(clauses)))
    wanted = build_steps(tmp_path, f"{SOURCES}steps:\n  m: {{from: orders, {keys}}}\n{M_SINKS}")
    assert describe_steps(made)["m"] == describe_steps(wanted)["m"]


@pytest.mark.parametrize(
    ("variable", "sql", "yaml"),
    [
        *(("b", sql, yaml) for sql, yaml in CONDITIONS.items()),
        *(("c", sql, yaml) for sql, yaml in SINGLE_CONDITIONS.items()),
    ],
)
def test_a_condition_includes_the_tested_row(
    tmp_path: Path, variable: str, sql: str, yaml: str
) -> None:
    made = build_steps(tmp_path, write_query(write_condition(variable, sql)))
    text = (
        f"{SOURCES}steps:\n  m:\n    from: orders\n    key: customer\n    match:\n"
        f"      pattern: a+ b+ c\n      define:\n        {variable}: {yaml}\n"
        "      emit: {id: a.id}\n    select: [customer, id]\n"
        f"{M_SINKS}"
    )
    assert describe_steps(made)["m"] == describe_steps(build_steps(tmp_path, text))["m"]


MEASURES = "partition by customer order by at measures a.id as id "
MISTAKES = {
    "partition by customer measures a.id as id pattern (a b) define a as id > 1": (
        "match_recognize: match_recognize wants an order by: a match is a row after another"
        " [as in order by at, after partition by]"
    ),
    "partition by customer order by at desc measures a.id as id pattern (a) define a as id > 1": (
        "match_recognize: match_recognize goes from early to late rows, got desc [order by at]"
    ),
    "partition by customer order by at, id measures a.id as id pattern (a) define a as id > 1": (
        "id: match_recognize goes by event time alone, got id after it [leave out id: rows of the"
        " same time are in the order of their source]"
    ),
    "order by at pattern (a b) define b as id > 1": (
        "match_recognize: match_recognize has no columns without partition by and measures"
        " [as in measures last(a.id) as id, before pattern]"
    ),
    "partition by customer order by at measures a.id pattern (a b) define b as id > 1": (
        'pattern: sql: wanted "as", got "pattern" [each measure has a name, as in last(a.price)'
        " as price]"
    ),
    "measures a.id as x order by at pattern (a b) define b as id > 1": (
        'order: sql: wanted "pattern", got "order" [the clauses are partition by, order by,'
        " measures, one row per match, after match skip, pattern (...), within, define, in this"
        " order]"
    ),
    MEASURES + "pattern (a b)": (
        '): sql: wanted "define", got ")" [the clauses are partition by, order by, measures, one'
        " row per match, after match skip, pattern (...), within, define, in this order]"
    ),
    MEASURES + "pattern (a b+ define b as id > 1": (
        "pattern: sql: the parenthesis after pattern is not closed before define"
        " [as in pattern (a b+ c) define ...]"
    ),
    MEASURES + "pattern (a (b c) within interval 1 hour define b as (id) > 1": (
        "pattern: sql: the parenthesis after pattern is not closed before within"
        " [as in pattern (a b+ c) define ...]"
    ),
    MEASURES + "pattern (a bb) define b as id > 1": (
        'b: define: the pattern has no variable "b" [did you mean "bb"?]'
    ),
    MEASURES + "pattern (a b) define b as c.id > 1": (
        'c: the pattern has no variable "c" [its variables are a, b]'
    ),
    MEASURES + "pattern (a b) define b as id > 1, b as id > 2": (
        'b: there are two conditions of "b"'
    ),
    MEASURES + "pattern (a ^b) define b as id > 1": (
        '^: pattern: wanted a variable or a group, got "^" [a match begins with any row of the key]'
    ),
    MEASURES + "pattern (a {- b -}) define b as id > 1": (
        "{-: {- ... -} is not supported [all rows per match has classifier(), by which the query"
        " around leaves rows out]"
    ),
    MEASURES + "pattern (permute(a, b)) define b as id > 1": (
        "permute(: permute is not supported [write the orders as alternatives, whose variables have"
        " names of their own]"
    ),
    MEASURES + "pattern (a b{,2} a) define b as id > 1": (
        'a: pattern: the variable "a" is used twice [give the second one a name and a condition of'
        " its own]"
    ),
    MEASURES + "pattern (a b) subset u = (a, b) define b as id > 1": (
        "subset: sql: subset is not supported [define and measures name single variables; an"
        " aggregate of none is of all rows]"
    ),
    MEASURES + "pattern (a b) within interval 1 month define b as id > 1": (
        "interval 1 month: within wants an interval of days to seconds above 0, got interval 1"
        " month [as in within interval '10' minutes]"
    ),
    MEASURES + "pattern (a -> b+) define b as id > 1": (
        "a -> b+: pattern: a match could grow for ever, so it needs within [as in within interval"
        " '10' minutes; or end it with a reluctant quantifier or another variable]"
    ),
    MEASURES + "after match skip pattern (a b) define b as id > 1": (
        'pattern: sql: wanted "past last row" or "to", got "pattern"'
    ),
    MEASURES + "after match skip to next rows pattern (a b) define b as id > 1": (
        'rows: sql: wanted "pattern", got "rows" [the clauses are partition by, order by,'
        " measures, one row per match, after match skip, pattern (...), within, define, in this"
        " order]"
    ),
    MEASURES + "after match skip to first a pattern (a b) define b as id > 1": (
        'a: after match skip: the first row of "a" is where the match began [the same match would'
        " be found again; after match skip to next row begins after that row]"
    ),
    MEASURES + "pattern (a b) define a as prev(a.id) > 1": (
        'prev(a.id): prev reads the row before the match, as "a" may have its first row [begin the'
        " pattern with a variable that fits any row, as in (before up+)]"
    ),
    MEASURES + "pattern (a b) define b as prev(b.id, 2) > 1": (
        "prev(b.id, 2): prev reads only the row before the tested one [write b.column, or last(...)"
        " of the rows of a variable]"
    ),
    MEASURES + "pattern (a -> b) within interval 1 hour define b as prev(b.id) > 1": (
        "prev(b.id): prev is the row before, which ->, => and not may pass over [read the rows of a"
        " variable, as in a.price]"
    ),
    MEASURES + "pattern (a not b c) within interval 1 hour define b as prev(b.id) > 1": (
        "prev(b.id): prev is the row before, which ->, => and not may pass over [read the rows of a"
        " variable, as in a.price]"
    ),
    MEASURES + "pattern (a b) define b as last(b.at, interval 1 second) > b.at": (
        "last(b.at, interval 1 second): last takes a value, and a number of rows [as in"
        " last(a.price, 1)]"
    ),
    MEASURES + "pattern (a b) define b as next(b.id) > 1": (
        "next: next is not supported in define [compare the rows in the condition of the later"
        " variable]"
    ),
    MEASURES + "pattern (a b) define b as final last(a.id) > 1": (
        "final: final is not supported in define [a condition knows the rows up to the tested one:"
        " leave it out]"
    ),
    MEASURES + "pattern (a b) define b as last(a.id, id) > 1": (
        "last(a.id, id): last takes a value, and a number of rows [as in last(a.price, 1)]"
    ),
    MEASURES + "pattern (a b) define b as sum(id * b.id) > 1": (
        "id: a function reads the rows of one variable, or of all [write b.id]"
    ),
    MEASURES + "pattern (a b) define b as sum(a.id * b.id) > 1": (
        "b: a function reads the rows of one variable, or of all [call it once for each]"
    ),
    MEASURES + "pattern (a b) define b as count(distinct a.id) > 1": (
        "count(distinct a.id): count is over all rows of a variable here [leave out distinct,"
        " filter and within group]"
    ),
    MEASURES + "pattern (a b) define b as stddev(b.id) > 1": (
        "stddev(b.id): stddev is not computed over the rows of a variable [the functions are first,"
        " last, count, sum, min, max, avg, collect_list]"
    ),
    MEASURES.replace("a.id as id", "match_number() as n") + "pattern (a b) define b as id > 1": (
        "match_number: match_number is not supported in measures [the columns of partition by and"
        " match_rowtime() tell matches apart]"
    ),
    MEASURES.replace("a.id as id", "match_rowtime(id) as t") + "pattern (a b) define b as id > 1": (
        "match_rowtime(id): match_rowtime is about the column of order by [write match_rowtime()]"
    ),
    MEASURES.replace("a.id as id", "a.id as customer") + "pattern (a b) define b as id > 1": (
        'customer: there are two columns "customer" [give the measure another name]'
    ),
    MEASURES + "all rows per match pattern (a b) define b as id > 1": (
        "a.id: a.id is a value of the whole match, and all rows per match has its rows [its"
        " measures read the columns of one row, and classifier()]"
    ),
    MEASURES + "all rows per match with unmatched rows pattern (a b) define b as id > 1": (
        "with: sql: with unmatched rows is not supported [a join with the rows of the matches, or a"
        " query without, finds the others]"
    ),
}


@pytest.mark.parametrize("clauses", MISTAKES)
def test_a_mistake_has_its_place(tmp_path: Path, clauses: str) -> None:
    assert list_errors(tmp_path, write_match(clauses)) == [MISTAKES[clauses]]


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("orders o join payments p on o.id = p.order match_recognize", "wanted the end of the"),
        ("(orders o join payments p on o.id = p.order) match_recognize", "follows one table"),
        ("moves match_recognize", "match does not take a stream of changes"),
        ("plain match_recognize", "goes by event time, and these rows have none"),
        ("orders match_recognise", 'wanted "match_recognize", got "match_recognise"'),
    ],
)
def test_a_table_without_matches_is_refused(tmp_path: Path, table: str, error: str) -> None:
    clauses = (
        "partition by id order by at measures last(id) as n pattern (a b) define b as id > '2'"
    )
    (found,) = list_errors(tmp_path, f"select n from {table} ({clauses})")
    assert error in found


ROWS = {
    "stock": [12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19],
    "average": [12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30],
    "greedy": [10, 11, 12, 13, 14, 16],
    "drop": [20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19],
    "mode": [10, 12, 13, 11],
    "sums": [10, 15, 20, 31, 35],
    "offsets": [10, 15, 20, 31, 35],
    "skip": [7, 9, 10, 5, 10, 7, 14],
}
"""The prices in the examples of Flink's page on pattern recognition."""
TIMES = "first(rowtime) as s, last(rowtime) as e"
SKIPPED = (
    f"sum(A.price) as total, {TIMES} one row per match after match skip {{}} pattern (A+ C)"
    " define A as sum(A.price) < 30"
)
FLINK_EXAMPLES = {
    "falling prices": (
        "stock",
        "START_ROW.rowtime as s, last(PRICE_DOWN.rowtime) as b, last(PRICE_UP.rowtime) as e"
        " one row per match after match skip to last PRICE_UP"
        " pattern (START_ROW PRICE_DOWN+ PRICE_UP) define PRICE_DOWN as"
        " (last(PRICE_DOWN.price, 1) is null and PRICE_DOWN.price < START_ROW.price)"
        " or PRICE_DOWN.price < last(PRICE_DOWN.price, 1),"
        " PRICE_UP as PRICE_UP.price > last(PRICE_DOWN.price, 1)",
        [(4, 7, 8)],
    ),
    "average": (
        "average",
        "first(A.rowtime) as s, last(A.rowtime) as e, avg(A.price) as p one row per match"
        " after match skip past last row pattern (A+ B) define A as avg(A.price) < 15",
        [(0, 3, 14.5), (5, 10, 13.5)],
    ),
    "greedy": (
        "greedy",
        "C.price as p one row per match after match skip past last row pattern (A B* C)"
        " define A as A.price > 10, B as B.price < 15, C as C.price > 12",
        [(16,)],
    ),
    "reluctant": (
        "greedy",
        "C.price as p one row per match after match skip past last row pattern (A B*? C)"
        " define A as A.price > 10, B as B.price < 15, C as C.price > 12",
        [(13,), (16,)],
    ),
    "within": (
        "drop",
        "C.rowtime as t, A.price - C.price as drop one row per match after match skip past last row"
        " pattern (A B* C) within interval '3' second define B as B.price > A.price - 10,"
        " C as C.price < A.price - 10",
        [(9, 13)],
    ),
    "output mode": (
        "mode",
        "first(A.price) as s, last(A.price) as top, B.price as p one row per match pattern (A+ B)"
        " define A as last(A.price, 1) is null or A.price > last(A.price, 1),"
        " B as B.price < last(A.price)",
        [(10, 13, 11)],
    ),
    "sums": (
        "sums",
        f"{TIMES} one row per match pattern (A B+ C) define A as A.price >= 10,"
        " B as B.price > A.price and sum(price) < 100 and sum(B.price) < 80",
        [(0, 4)],
    ),
    "offsets": (
        "offsets",
        f"{TIMES}, count(*) as n one row per match pattern (A B+ C) define A as A.price >= 10,"
        " B as (last(B.price, 1) is null or B.price > last(B.price, 1))"
        " and (last(B.price, 2) is null or B.price > 2 * last(B.price, 2))",
        [(0, 4, 5)],
    ),
    "past last row": ("skip", SKIPPED.format("past last row"), [(26, 0, 3), (17, 4, 6)]),
    "to next row": (
        "skip",
        SKIPPED.format("to next row"),
        [(26, 0, 3), (24, 1, 4), (25, 2, 5), (22, 3, 6), (17, 4, 6), (7, 5, 6)],
    ),
    "to last": (
        "skip",
        SKIPPED.format("to last A"),
        [(26, 0, 3), (25, 2, 5), (17, 4, 6), (7, 5, 6)],
    ),
}
"""The rows, the measures and clauses, and the matches; times are numbers of rows.

Flink does not have the matches of 7, whose last row fits A, too. Its page names 14 for `within`, of
a match whose last row is at the very end; Flink 2.3 finds 13.
"""
PIPELINE = """
sources:
  ticker:
    memory: {data: in}
    schema: {symbol: string, price: bigint, rowtime: timestamp}
    event_time: rowtime
    watermark: {delay: 0s}
steps:
  matches:
    sql: |
      select * from ticker match_recognize (partition by symbol order by rowtime measures
      CLAUSES) as m
sinks:
  out: {from: matches, memory: {data: out}}
"""
TYPES = {"symbol": pl.String(), "price": pl.Int64(), "rowtime": pl.Datetime("us", "UTC")}


def find_matches(folder: Path, prices: list[int], clauses: str) -> list[tuple[object, ...]]:
    """Return the measures of the matches that a job finds; times are numbers of rows."""
    times = [START + timedelta(seconds=at) for at in range(len(prices))]
    frame = pl.DataFrame([["ACME"] * len(prices), prices, times], TYPES)
    memory = InMemoryData({"in": {"0": [frame]}})
    outcome = simulated(folder, PIPELINE.replace("CLAUSES", clauses), memory, 0)
    assert outcome.failure is None, outcome.failure
    found = (row for each in memory.outputs.get("out", []) for row in each.rows(named=True))
    return [
        tuple(
            times.index(value) if isinstance(value, datetime) else value
            for name, value in row.items()
            if name != "symbol" and not name.startswith("__")
        )
        for row in found
    ]


@pytest.mark.parametrize("case", FLINK_EXAMPLES)
def test_an_example_of_flink_has_its_rows(tmp_path: Path, case: str) -> None:
    rows, clauses, wanted = FLINK_EXAMPLES[case]
    assert find_matches(tmp_path, ROWS[rows], clauses) == wanted


def test_all_rows_per_match_have_their_variables(tmp_path: Path) -> None:
    clauses = (
        "classifier() as step, price * 2 as twice all rows per match"
        " pattern (low up+) define up as price > prev(price)"
    )
    assert find_matches(tmp_path, [3, 4, 5, 1], clauses) == [
        (0, "low", 6, 3),
        (1, "up", 8, 4),
        (2, "up", 10, 5),
    ]
