"""Queries: names, groups, order, and what is refused, by parsing, typing and running them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions.typed import ExpressionError, ExpressionErrors
from headrace.core.queries import parse_query, run_query, type_query
from headrace.core.types.data_types import DOUBLE, INT, STRING, Field, Schema, Struct, to_polars

NESTED = Struct((Field("a", INT),))
SCHEMA = Schema(
    (
        Field("city", STRING),
        Field("n", INT),
        Field("x", DOUBLE),
        Field("r", NESTED),
        Field("s", NESTED),
    )
)
ROWS = pl.DataFrame(
    {
        "city": ["a", "b", "a", None],
        "n": [1, 2, 3, None],
        "x": [-0.0, 0.0, float("nan"), 1.5],
        "r": [{"a": 1}, {"a": 2}, None, {"a": 4}],
        "s": [{"a": 7}, None, None, None],
    },
    schema={field.name: to_polars(field.type) for field in SCHEMA},
)


def run(text: str) -> list[tuple[Any, ...]]:
    """Run a query over the rows."""
    query = parse_query(text)
    typed = type_query(query, SCHEMA if query.table else Schema(()))
    return run_query(typed, ROWS if query.table else None, 1_700_000_000_000_000).rows()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("select n, city from s where n > 1 order by 1 desc", [(3, "a"), (2, "b")]),
        ("select t.city c, t.n + 1 as m from s as t order by m nulls last limit 1", [("a", 2)]),
        ("select n from s order by n desc nulls first limit 2 offset 1", [(3,), (2,)]),
        (
            "select city, count(*) as n from s group by 1 order by n desc, city",
            [("a", 2), (None, 1), ("b", 1)],
        ),
        ("select n % 2 as odd, sum(n) from s group by odd having sum(n) > 2", [(1, 4)]),
        (
            "select n % 2 + 1, max(x) from s where n < 3 group by n % 2 order by 1",
            [(1, 0.0), (2, -0.0)],
        ),
        # Negative zero is in the group of zero, and not a number is one value.
        ("select x, count(*) from s group by x having x < 2 order by 2", [(1.5, 1), (0.0, 2)]),
        ("select distinct x from s where x < 1", [(0.0,)]),
        # An aggregate is over the column, and not over the column of the result.
        ("select -max(n) as n from s having max(n) = 3", [(-3,)]),
        # A column of the table goes before a field of a column of the table's name.
        ("select s.a, s.n from s where r.a = 1", [(7, 1)]),
        ("select first(n), collect_list(n) from s", [(1, [1, 2, 3])]),
        ("select count(*), max(n) from s where false", [(0, None)]),
        ("select city from s where false group by city", []),
        ("select 1 + 1 as two, now() > timestamp '2023-01-01' later;", [(2, True)]),
        ("select transform(array(n), city -> city + 1) y from s where n = 1", [([2],)]),
        ("select 'a' from s having true", [("a",)]),
    ],
)
def test_rows(text: str, wanted: list[tuple[Any, ...]]) -> None:
    assert list(map(repr, run(text))) == list(map(repr, wanted))


def test_a_star_is_the_columns_of_the_table() -> None:
    assert type_query(parse_query("select s.*, 1 as one from s"), SCHEMA).schema.names == (
        *SCHEMA.names,
        "one",
    )


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("select m from s", 'unknown column "m"', "the columns are city, n"),
        ("select n, n + 0 as n from s", 'two columns of the result are named "n"', "... as name"),
        ("select city, n from s group by city", '"n" is neither a key nor', "add it to group by"),
        ("select n from s where sum(n) > 1", "where is applied before rows", "after having"),
        ("select sum(n) from s group by sum(n)", "group by is applied before rows", ""),
        ("select n from s where n", "wanted a condition (boolean), got int", "compare it"),
        ("select n from s order by 2", "there is no column 2", "the positions are 1 to 1"),
        ("select n from s order by r", "order by wants single values, got struct<a:int>", ""),
        ("select map('a', n) from s group by 1", "group by wants values that can be", ""),
        ("select distinct map('a', n) from s", "distinct wants values that can be", ""),
        ("select distinct n from s order by city", "after select distinct, only columns", ""),
        ("select rand() from s", "rand makes its values from the place of a row", ""),
        ("select * from s limit -1", 'wanted a number of rows, got "-"', ""),
        ("select z.* from s", 'unknown table "z"', ""),
        ("select *", "* wants a table", ""),
        ("select from s", 'wanted a column of the result, got "from"', ""),
        ("n from s", 'wanted "select", got "n"', ""),
        ("select n from s n2 n3", 'wanted the end of the query, got "n3"', ""),
        ("select n from s, t", "a join is not supported", "one table"),
        ("select n from s a left join t on x", "a join is not supported", "one table"),
        ("select n from (select 1)", "a query inside a query is not supported", "one table"),
        ("select n from s where n in (select 1)", "a query inside a query", "one table"),
        ("select sum(n) over (partition by x) from s", "a window function is not", "one table"),
        ("select n from s union all select 1", "a union of queries is not", "one table"),
        ("with a as (select 1) select 1", "with is not supported", "one table"),
        (
            "select n from s group by rollup(n)",
            "group by with several sets is not supported",
            "one table",
        ),
    ],
)
def test_mistakes(text: str, said: str, hint: str) -> None:
    with pytest.raises((ExpressionError, ExpressionErrors)) as caught:
        run(text)
    error = caught.value
    first = error.errors[0] if isinstance(error, ExpressionErrors) else error
    assert isinstance(first, ExpressionError)
    assert said in first.message
    assert hint in first.hint


def test_an_expression_that_fails_for_a_row_fails_the_query() -> None:
    assert run("select if(n = 9, raise_error('nine'), n) as m from s limit 1") == [(1,)]
    with pytest.raises(ExpressionFailure, match="raise_error: three"):
        run("select if(n = 3, raise_error('three'), n) as m from s")
