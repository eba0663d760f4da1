"""`explode` of expressions and of Spark's generators: its columns, rows and errors."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.window_classes import EPOCH
from headrace.core.expressions.generators import split_aliases
from headrace.core.operators.stateless_operators import ExplodeOperator
from headrace.core.plan import nodes
from headrace.core.plan.explain import explain
from headrace.core.testing.reference.interpreter import interpret
from headrace.core.testing.reference.rows import Value
from tests.support.plans import over_orders, plan_of, said

IDS: list[dict[str, Value]] = [
    {"id": 1, "tags": ["a", None]},
    {"id": 2, "tags": []},
    {"id": 3, "tags": None},
]


def explode_of(folder: Path, clause: str) -> tuple[nodes.Explode, list[tuple[object, ...]]]:
    """Return the operation, and its rows of `IDS` by the operator and the interpreter."""
    plan = plan_of(folder, over_orders(f"explode: {clause}"))
    step = next(part for part in plan if isinstance(part, nodes.Step))
    operation = step.operations[0]
    assert isinstance(operation, nodes.Explode)
    rows: list[dict[str, Value]] = [
        {**dict.fromkeys(plan.streams["orders"].schema.names), **row} for row in IDS
    ]
    frame = pl.DataFrame(
        rows,
        schema_overrides={"id": pl.Int64, "tags": pl.List(pl.String), "name": pl.String},
    )
    names = ["id", *(column.name for column in operation.added_columns)]
    emitted = ExplodeOperator("s", operation, lambda: 0).process(frame)
    found = [row for _, part in emitted for row in part.select(names).rows()]
    timed = [{**row, "at": EPOCH} for row in rows]
    wanted = interpret(plan, {"orders": [timed]})["s"]
    assert found == [tuple(row.values[name] for name in names) for row in wanted]
    return operation, found


@pytest.mark.parametrize(
    ("clause", "columns", "rows"),
    [
        ("{tag: 'array_compact(tags)'}", "tag string", [(1, "a")]),
        ("{n: 'array(id, 7)'}", "n bigint", [(1, 1), (1, 7), (2, 2), (2, 7), (3, 3), (3, 7)]),
        ("explode(tags)", "col string", [(1, "a"), (1, None)]),
        ("explode_outer(tags)", "col string", [(1, "a"), (1, None), (2, None), (3, None)]),
        (
            "posexplode(tags)",
            "pos int not null, col string",
            [(1, 0, "a"), (1, 1, None)],
        ),
        (
            "posexplode_outer(tags) as (place, tag)",
            "place int, tag string",
            [(1, 0, "a"), (1, 1, None), (2, None, None), (3, None, None)],
        ),
        (
            "posexplode(map('a', id, 'b', null))",
            "pos int not null, key string, value bigint",
            [(n, *row) for n in (1, 2, 3) for row in ((0, "a", n), (1, "b", None))],
        ),
        (
            "inline(if(id > 1, null, array(named_struct('p', id, 'q', 'x'), null)))",
            "p bigint, q string",
            [(1, 1, "x"), (1, None, None)],
        ),
        (
            "inline_outer(if(id > 1, null, array(named_struct('p', id))))",
            "p bigint",
            [(1, 1), (2, None), (3, None)],
        ),
        (
            "stack(2, id, 'x', 5L)",
            "col0 bigint, col1 string",
            [(n, *rest) for n in (1, 2, 3) for rest in ((n, "x"), (5, None))],
        ),
        (
            "json_tuple(if(id = 1, '{\"a\":1,\"b\":[2.0]}', 'x'), 'b', 'a', 'c')",
            "c0 string, c1 string, c2 string",
            [(1, "[2.0]", "1", None), (2, None, None, None), (3, None, None, None)],
        ),
    ],
)
def test_a_generator_makes_these_columns_and_rows(
    tmp_path: Path, clause: str, columns: str, rows: list[tuple[object, ...]]
) -> None:
    text = clause if clause[0] == "{" else f'"{clause.replace(chr(34), chr(92) + chr(34))}"'
    operation, found = explode_of(tmp_path, text)
    shown = ", ".join(
        f"{each.name} {each.type}{'' if each.nullable else ' not null'}"
        for each in operation.added_columns
    )
    assert (shown, found) == (columns, rows)


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("tags", "wanted one column and the array it comes from"),
        ("upper(name)", 'wanted a generator, got "upper(name)" [write explode(...) as item'),
        ("explode(tagz)", 'unknown column "tagz" [did you mean "tags"?]'),
        ("explode(name)", "wanted an array or a map to explode, got a value of type string"),
        ("explode(tags) as (a, b)", "wanted 1 names of columns, got 2 [they are col"),
        ("explode(tags) as id", 'there is a column "id" already [name the columns:'),
        ("posexplode(tags) as (a, a)", 'two columns would be called "a" [name the columns:'),
        ("{x: posexplode(tags)}", "makes 2 columns: pos, col [write explode: posexplode(tags) as"),
        ("inline(tags)", "inline wants an array of structs, got a value of type array<string>"),
        ("stack(id, 1)", "stack wants a number of rows above 0, and values"),
        ("stack(2, id, name)", "col0 of stack is bigint, and here string"),
        ("json_tuple(name)", "json_tuple wants a JSON text, and constant names"),
        ("explode(array(null))", "a column needs a type"),
    ],
)
def test_an_error_in_a_generator_is_reported(tmp_path: Path, clause: str, message: str) -> None:
    text = clause if clause[0] == "{" else f'"{clause}"'
    lines = said(tmp_path, over_orders(f"explode: {text}"))
    assert any(message in line for line in lines), lines


def test_names_of_columns_end_the_text() -> None:
    assert split_aliases("inline(a) AS ( x , `y z` )") == (9, ("x", "y z"))
    assert split_aliases("explode(cast(a as array<int>))") == (30, ())


def test_a_generator_is_shown_as_written(tmp_path: Path) -> None:
    lines = explain(plan_of(tmp_path, over_orders('explode: "posexplode(tags) as (i, tag)"')))
    assert "    explode i, tag from posexplode(tags)\n" in lines
    lines = explain(plan_of(tmp_path, over_orders("explode: {x: \"split(name, ',')\"}")))
    assert "    explode x from split(name, ',') (array<string>)\n" in lines


def test_positions_go_on_in_the_slices_of_a_long_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.core.operators.stateless_operators.MAX_OUTPUT_ROWS", 10)
    plan = plan_of(tmp_path, over_orders('explode: "posexplode(tags)"'))
    operation = next(part for part in plan if isinstance(part, nodes.Step)).operations[0]
    assert isinstance(operation, nodes.Explode)
    frame = pl.DataFrame({"tags": [["x"] * 25, ["y"]]})
    parts = [part for _, part in ExplodeOperator("s", operation).process(frame)]
    assert [part.height for part in parts] == [10, 10, 5, 1]
    assert [pos for part in parts for pos in part["pos"]] == [*range(25), 0]
