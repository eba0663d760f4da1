"""Operators over literal rows: the same rows whatever the batches, and bounded pieces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import polars as pl
import pytest

from headrace.core.expressions import type_expression
from headrace.core.expressions.typed import FunctionCall, Span, TypedExpression
from headrace.core.operators.map import MapOperator
from headrace.core.operators.operator import Operator, OperatorChain
from headrace.core.operators.stateless_operators import (
    ExplodeOperator,
    ProjectionOperator,
    RouteOperator,
    build_stages,
)
from headrace.core.plan import nodes
from headrace.core.plan.nodes import ComputedColumn, Filter, Project
from headrace.core.types.data_types import BIGINT, TIMESTAMP, Array, Field, Schema
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.row_order import add_row_order

SCHEMA = Schema((Field("a", BIGINT), Field("b", BIGINT), Field("list", Array(BIGINT))))
ROWS = pl.DataFrame(
    {"a": [1, 2, None, 4], "b": [10, None, 30, 40], "list": [[1, 2], [], None, [None, 3]]},
    schema={"a": pl.Int64, "b": pl.Int64, "list": pl.List(pl.Int64)},
)


def twice(typed: TypedExpression) -> TypedExpression:
    """An expression that is computed, without asking the function table for one."""
    return FunctionCall(typed.type, True, Span(0, 0), "twice", (typed,), lambda value: value * 2)


def where(text: str) -> Filter:
    return Filter(type_expression(text, SCHEMA), text)


def select(**columns: str | TypedExpression) -> Project:
    typed = [
        ComputedColumn(n, type_expression(c, SCHEMA) if isinstance(c, str) else c)
        for n, c in columns.items()
    ]
    return Project("select", tuple(typed), "")


def out(
    operator: Operator | OperatorChain, frame: pl.DataFrame = ROWS
) -> dict[str, list[tuple[object, ...]]]:
    """The rows that come out, by stream."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for stream, rows in operator.process(frame):
        found.setdefault(stream, []).extend(rows.rows())
    return found


def columns_of(*operations: Filter | Project) -> ProjectionOperator:
    return ProjectionOperator("s", [(f"step{i}", o) for i, o in enumerate(operations)], lambda: 7)


def test_filters_and_projections_are_one_stage() -> None:
    operations: list[Filter | Project] = [
        where("a is not null"),
        select(b="a", a="b"),
        where("a = 10"),
    ]
    assert len(build_stages([("s", o) for o in operations])) == 1
    operator = columns_of(*operations)
    assert out(operator) == {"s": [(1, 10)]}
    assert operator.passed_rows == {"step0": 3, "step2": 1}


def test_a_null_condition_holds_a_row_back() -> None:
    assert out(columns_of(where("b = 10 or b = 40"), where("a = 4"))) == {"s": [(4, 40, [None, 3])]}


def test_what_is_computed_and_read_twice_is_computed_once() -> None:
    column = type_expression("a", SCHEMA)
    operations = [select(x=twice(column)), select(y="a", z="a")]
    read_twice = Project(
        "select",
        tuple(ComputedColumn(n, type_expression("x", Schema((Field("x", BIGINT),)))) for n in "yz"),
        "",
    )
    assert len(build_stages([("s", operations[0]), ("s", read_twice)])) == 2
    assert out(columns_of(operations[0], read_twice)) == {
        "s": [(2, 2), (4, 4), (None, None), (8, 8)]
    }


def test_constants_alone_keep_the_number_of_rows() -> None:
    assert out(columns_of(select(one="1"))) == {"s": [(1,)] * 4}
    assert out(columns_of(where("true"), where("not false"), select(one="1"))) == {"s": [(1,)] * 4}


def test_the_event_time_goes_along_unseen() -> None:
    timed = ROWS.with_columns(pl.lit(5).alias(EVENT_TIME))
    assert out(columns_of(select(a="a")), timed) == {"s": [(1, 5), (2, 5), (None, 5), (4, 5)]}


def explode(*, outer: bool) -> ExplodeOperator:
    return ExplodeOperator("s", nodes.Explode("x", type_expression("list", SCHEMA), outer))


def test_explode_keeps_nulls_inside_an_array_and_drops_empty_ones() -> None:
    rows = ROWS.select("a", "list")
    assert [row[::2] for row in out(explode(outer=False), rows)["s"]] == [
        (1, 1),
        (1, 2),
        (4, None),
        (4, 3),
    ]
    assert [row[::2] for row in out(explode(outer=True), rows)["s"]] == [
        (1, 1),
        (1, 2),
        (2, None),
        (None, None),
        (4, None),
        (4, 3),
    ]


def test_explode_comes_out_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.core.operators.stateless_operators.MAX_OUTPUT_ROWS", 10)
    frame = pl.DataFrame({"list": [[1] * 4, [2] * 4, [3] * 25, [4], [5] * 9]})
    pieces = [rows.height for _, rows in explode(outer=False).process(frame)]
    assert pieces == [8, 10, 10, 5, 10]
    kept = [row for _, rows in explode(outer=True).process(frame) for row in rows.rows()]
    assert kept == [(array, x) for (array,) in frame.rows() for x in array]


def test_a_row_goes_to_the_first_branch_that_is_true() -> None:
    branches = (
        ("low", type_expression("a < 3", SCHEMA), ""),
        ("odd", type_expression("b = 10 or b = 30", SCHEMA), ""),
    )
    names = frozenset(("s.low", "s.odd", "s.else"))
    found = out(RouteOperator("s", nodes.Route(branches), names), ROWS.select("a", "b"))
    assert found == {"s.low": [(1, 10), (2, None)], "s.odd": [(None, 30)], "s.else": [(4, 40)]}
    only = out(
        RouteOperator("s", nodes.Route(branches), frozenset(("s.else",))), ROWS.select("a", "b")
    )
    assert only == {"s.else": [(4, 40)]}


def test_a_chain_feeds_one_operator_with_what_the_one_before_puts_out() -> None:
    route = RouteOperator(
        "r",
        nodes.Route((("x", type_expression("a = 1", SCHEMA), ""),)),
        frozenset(("r.x", "r.else")),
    )
    last = ProjectionOperator("t", [("t", select(b="b"))], lambda: 0)
    chain = OperatorChain(
        [("in", columns_of(where("a is not null"))), ("s", route), ("r.else", last)]
    )
    assert out(chain) == {"r.x": [(1, 10, [1, 2])], "t": [(None,), (40,)]}


class _ReadOnceChain(OperatorChain):
    """A chain whose tap is removed by another thread as soon as it has been read."""

    _tap: Callable[[int, pl.DataFrame], None] | None = None

    @property
    def tap(self) -> Callable[[int, pl.DataFrame], None] | None:
        """The tap, which is gone afterwards."""
        tap, self._tap = self._tap, None
        return tap

    @tap.setter
    def tap(self, tap: Callable[[int, pl.DataFrame], None] | None) -> None:
        self._tap = tap


def test_a_tap_that_is_removed_while_rows_pass_does_not_fail_the_chain() -> None:
    chain = _ReadOnceChain([("in", columns_of(where("a is not null")))])
    seen = list[int]()
    chain.tap = lambda operator, frame: seen.append(frame.height)
    assert out(chain) == out(OperatorChain([("in", columns_of(where("a is not null")))]))
    assert seen == [ROWS.height]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_the_rows_do_not_depend_on_the_batches(cut: int) -> None:
    chain = OperatorChain([("in", columns_of(where("a is not null"))), ("s", explode(outer=True))])
    pieces = [ROWS.slice(at, cut) for at in range(0, ROWS.height, cut)]
    assert [row for piece in pieces for row in out(chain, piece).get("s", [])] == out(chain)["s"]


def places(frame: pl.DataFrame) -> list[tuple[int, int, int]]:
    """Return the positions of the rows in the order of all rows."""
    return [tuple(place.values()) for place in frame[ORDER].to_list()]


ORDERED = add_row_order(
    ROWS.with_columns(pl.Series(EVENT_TIME, [5, 5, 3, 5]).cast(pl.Datetime("us", "UTC"))),
    pl.Series([7, 8, 9, 10]),
)


@pytest.mark.parametrize("outer", [True, False])
def test_the_rows_of_one_array_are_parts_of_the_place_of_theirs(outer: bool) -> None:
    ((_, frame),) = explode(outer=outer).process(ORDERED)
    kept = [(5, 7, 0), (5, 7, 1), (5, 10, 0), (5, 10, 1)]
    empty = [(5, 8, 0), (3, 9, 0)]
    assert places(frame) == (kept[:2] + empty + kept[2:] if outer else kept)


def test_parts_are_numbered_however_long_an_array_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.core.operators.stateless_operators.MAX_OUTPUT_ROWS", 3)
    frame = add_row_order(pl.DataFrame({"list": [[0, 1, 2, 3, 4, 5, 6]]}), pl.Series([4]))
    found = [row for _, rows in explode(outer=False).process(frame) for row in places(rows)]
    assert found == [(0, 4, part) for part in range(7)]


def test_parts_of_parts_keep_their_order() -> None:
    nested = pl.DataFrame({"list": [[[1, 2], [3]], [[4]]]})
    ((_, once),) = explode(outer=False).process(add_row_order(nested, pl.Series([1, 2])))
    ((_, twice),) = explode(outer=False).process(once.with_columns(list=pl.col("x")).drop("x"))
    found = places(twice)
    assert found == sorted(found) and len(set(found)) == 4


def mapped(folder: Path, body: str, *, batch: bool, event_time: str | None = None) -> MapOperator:
    """A map over `a`."""
    file = folder / f"f{len(list(folder.iterdir()))}.py"
    file.write_text(f"import polars as pl\ndef f(rows):\n    return {body}\n")
    returns = Schema((Field("a", BIGINT), Field("t", TIMESTAMP)))
    mode: Literal["batch", "row"] = "batch" if batch else "row"
    return MapOperator("s", "s", nodes.Map(file.name, "f", mode, returns, event_time), folder)


TIMED = ORDERED.select("a", EVENT_TIME, ORDER, t=pl.col(EVENT_TIME) + pl.duration(microseconds=1))


def test_map_hands_on_the_places_of_its_rows(tmp_path: Path) -> None:
    ((_, frame),) = mapped(tmp_path, "rows", batch=True).process(TIMED)
    assert places(frame) == places(TIMED)
    ((_, frame),) = mapped(tmp_path, "[rows, rows] if rows['a'] else None", batch=False).process(
        TIMED
    )
    assert places(frame) == [(5, at, part) for at in (7, 8, 10) for part in (0, 1)]


def test_map_places_its_rows_by_the_time_that_it_says(tmp_path: Path) -> None:
    ((_, frame),) = mapped(tmp_path, "rows", batch=True, event_time="t").process(TIMED)
    assert places(frame) == [(6, 7, 0), (6, 8, 0), (4, 9, 0), (6, 10, 0)]
    assert frame[EVENT_TIME].to_physical().to_list() == [6, 6, 4, 6]
    more = mapped(tmp_path, "pl.concat([rows, rows])", batch=True, event_time="t")
    ((_, frame),) = more.process(TIMED)
    assert len(set(places(frame))) == 8
    assert [time for time, _, _ in places(frame)] == [6, 6, 4, 6] * 2


def test_map_needs_neither_times_nor_places(tmp_path: Path) -> None:
    plain = TIMED.select("a", "t")
    ((_, frame),) = mapped(tmp_path, "pl.concat([rows, rows])", batch=True).process(plain)
    assert frame.columns == ["a", "t"] and frame.height == 8
    ((_, frame),) = mapped(tmp_path, "[rows, rows]", batch=False).process(plain)
    assert frame.columns == ["a", "t"] and frame.height == 8
