"""Comparisons, conditions and choices: refusals, and frames of different shapes.

Values are compared with Spark's in tests/core/spark/cases/logic.json.
"""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Schema,
    to_polars,
)
from tests.support.expression_errors import assert_refused

SCHEMA = Schema(
    (
        Field("i", INT),
        Field("n", INT, nullable=False),
        Field("l", BIGINT),
        Field("x", DOUBLE),
        Field("s", STRING),
        Field("p", BOOLEAN),
        Field("q", BOOLEAN, nullable=False),
        Field("dt", DATE),
        Field("ts", TIMESTAMP),
        Field("a", Array(INT)),
        Field("w", Decimal(38, 0)),
        Field("d", Decimal(10, 2)),
    )
)
EMPTY = pl.DataFrame(schema={field.name: to_polars(field.type) for field in SCHEMA})


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        ("p > 0", "> cannot compare boolean with int", "p", "cast(... as int) converts true to 1"),
        ("dt = 1", "= cannot compare date with int", "dt = 1", ""),
        ("p in (1)", "in cannot compare boolean with int", "p", "cast(... as int) converts true"),
        ("p in ('true')", "in cannot compare boolean with string", "p", "as string)"),
        ("greatest(i, s)", "greatest cannot compare int and string", "greatest(i, s)", "to string"),
        ("coalesce(i, p)", "coalesce cannot return both int and boolean", "p", "cast(... as int)"),
        ("coalesce(i, s, p)", "coalesce cannot return both string and boolean", "p", "as string)"),
        ("case when i then 1 end", "case wants a boolean condition, got int", "i", "... <> 0"),
        ("case when null then 1 end", "case wants a boolean condition, got void", "null", "cast"),
        (
            "if(p, 1)",
            "if takes 3 arguments, got 2",
            "if(p, 1)",
            "its signature is if(condition, then, else)",
        ),
        (
            "nvl(i)",
            "nvl takes 2 arguments, got 1",
            "nvl(i)",
            "its signature is nvl(value, if_null)",
        ),
        ("coalesce()", "coalesce takes at least 1 argument, got 0", "coalesce()", ""),
        ("least(i)", "least takes at least 2 arguments, got 1", "least(i)", "least(first"),
        ("p and i", "and wants boolean, got int", "i", ""),
        ("not s", "not wants boolean, got string", "s", ""),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(
    text: str, message: str, at: str, hint: str
) -> None:
    assert_refused(text, SCHEMA, message, at, hint)


@pytest.mark.parametrize(
    "text",
    [
        *("i in (1, l, 3)", "x = i", "case when p then i when q then l end", "greatest(x, i)"),
        *("a = a", "i + 1 between n and 2.5", "case i + n when 2 then l when x then i end"),
    ],
)
def test_empty_frames_and_slices_of_slices_are_frames_like_others(text: str) -> None:
    expr = to_expr(type_expression(text, SCHEMA)).alias("r")
    assert EMPTY.select(expr).height == 0
    rows = pl.DataFrame(
        {
            **{"i": [1, 2, 3, None], "n": [1, 2, 3, 4], "l": [3, 2, 1, 0]},
            **{"x": [1.0, None, 3.0, 4.0], "p": [True, None, False, True], "q": [True] * 4},
            "a": [[1], None, [], [2]],
        },
        schema_overrides={"i": pl.Int32, "n": pl.Int32, "a": pl.List(pl.Int32)},
    )
    whole = rows.select(expr)["r"].to_list()
    assert rows[1:].slice(1, 2).select(expr)["r"].to_list() == whole[2:4]


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ("n = 1", False),
        ("i = 1", True),
        ("i <=> 1", False),
        ("i is null", False),
        ("q and p", True),
        ("q and n > 1", False),
        ("coalesce(i, 0)", False),
        ("coalesce(i, l)", True),
        ("case when p then 1 end", True),
        ("case when p then 1 else 2 end", False),
        ("if(p, n, i)", True),
        ("n in (1, 2)", False),
        ("n in (1, null)", True),
        ("nullif(n, 1)", True),
        ("greatest(i, n)", False),
    ],
)
def test_what_can_be_null_is_known(text: str, nullable: bool) -> None:
    assert type_expression(text, SCHEMA).nullable is nullable


def test_a_list_of_ten_thousand_values_is_one_look_up() -> None:
    values = ", ".join(str(number) for number in range(0, 20_000, 2))
    typed = type_expression(f"i in ({values})", SCHEMA)
    rows = pl.DataFrame({"i": pl.int_range(100_000, dtype=pl.Int32, eager=True)})
    expr = to_expr(typed)
    assert rows.select(expr.alias("r"))["r"].sum() == 10_000
    assert len(str(expr)) < 1000  # not a comparison for each value


def test_nan_is_found_in_a_list_and_zero_whatever_its_sign() -> None:
    rows = pl.DataFrame({"x": [float("nan"), -0.0, 0.0, 1.0, None]})
    typed = type_expression("x in (cast('NaN' as double), 0.0D)", SCHEMA)
    assert rows.select(to_expr(typed).alias("r"))["r"].to_list() == [True, True, True, False, None]


@pytest.mark.parametrize(
    "text",
    [
        "upper(s) between 'A' and 'Z'",
        "length(s) between 1 and 2.5",
        "case upper(s) when 'A' then 1 when 'B' then 2 when 'C' then 3 end",
        "case length(s) when 1 then 1 when 2.0 then 2 when 3L then 3 end",
    ],
)
def test_what_is_compared_with_several_values_is_computed_once(text: str) -> None:
    assert to_expr(type_expression(text, SCHEMA)).meta.root_names() == ["s"]


@pytest.mark.parametrize(
    "text",
    [
        "greatest({0}, x)",
        "nanvl({0}, x)",
        "nullif({0}, 7)",
        "least({0}, x)",
        "if({0} > 1, {0}, x)",
        "array({0}, x)[0]",
    ],
)
def test_nesting_does_not_multiply_the_work(text: str) -> None:
    deep = "x"
    for _ in range(4 if "> 1" in text else 12):
        deep = text.format(deep)
    rows = pl.DataFrame({"x": [1.0, None, float("nan")]})
    expr = to_expr(type_expression(deep, SCHEMA))
    assert rows.select(expr.alias("r")).height == 3
    assert len(str(expr)) < 2000  # if each argument stood there twice, it would be 4096 times


@pytest.mark.parametrize("operator", ["=", "<>", "<=>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("'a'", "cast(i as string)"),
        ("date '2024-01-01'", "dt"),
        ("cast('a' as binary)", "cast(s as binary)"),
        ("cast(null as string)", "s"),
        ("1.5", "d"),
    ],
)
def test_a_constant_is_compared_with_each_row_of_one_value(
    operator: str, constant: str, value: str
) -> None:
    text = f"{constant} {operator} if(i > 100, {value}, null)"
    expr = to_expr(type_expression(text, SCHEMA))
    few = pl.DataFrame({"i": [1, 2, 3]}, {"i": pl.Int32()})
    rows = pl.concat([EMPTY, few], how="diagonal")
    assert rows.select(expr).height == rows.height
