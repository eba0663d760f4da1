"""Aggregates of rows that are added and removed go by the rows that are there, whatever the batches
and the pages of their values.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.core.aggregates.user_aggregates import GroupCodeError
from headrace.core.api.state import StepState
from headrace.core.operators.changelog.counting_aggregate import CountingAggregateOperator
from headrace.core.operators.keyed_factory import build_keyed_operator
from headrace.core.operators.operator import Operator
from headrace.core.plan import nodes
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE, ORDER, WEIGHT
from headrace.core.types.row_order import ORDER_TYPE
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import ALL, Table, aggregate, computed, place, schema_of

SCHEMA = schema_of(g="string", i="int", x="double", s="string")
Row = tuple[str | None, int | None, float | None, str | None]
COLUMNS = {
    "n": "count(*)",
    "whole": "sum(i)",
    "total": "sum(x)",
    "least": "min(x)",
    "most": "max(s)",
    "some": "min(i) filter (where x > 1)",
    "later": "max(i + 1)",
    "kinds": "count(distinct i)",
    "pairs": "count(distinct i, s)",
    "once": "sum(distinct i)",
    "middle": "median(x)",
    "shares": "percentile(x, array(0.0, 0.1, 0.9, 1.0))",
    "low": "percentile_disc(0.3) within group (order by i desc)",
    "begun": "first(s)",
    "best": "max_by(s, i)",
    "every": "collect_list(i)",
    "set": "collect_set(s)",
    "usual": "mode(i)",
}
FRAME = {
    **{"g": pl.String(), "i": pl.Int32(), "x": pl.Float64(), "s": pl.String()},
    **{ORDER: to_polars(ORDER_TYPE), WEIGHT: pl.Int64()},
}


def operation(
    columns: dict[str, str], having: str | None = None, key: str | None = "g"
) -> nodes.Aggregate:
    made = aggregate(SCHEMA, computed(SCHEMA, key) if key else (), columns, having)
    return nodes.Aggregate(made.key, None, made.columns, made.having, reads_retractions=True)


def counting(
    columns: dict[str, str] = COLUMNS,
    page_values: int = 4,
    state: StepState | None = None,
    key: str | None = "g",
) -> CountingAggregateOperator:
    return CountingAggregateOperator(operation(columns, key=key), place(state), page_values)


def changes(*rows: tuple[Row, int, int]) -> pl.DataFrame:
    """Return rows with their positions and weights."""
    placed = [(*row, {"time": at, "at": at, "part": 0}, weight) for row, at, weight in rows]
    return pl.DataFrame(placed, schema=FRAME, orient="row")


def table_of(outputs: Iterable[Any], key: tuple[str, ...] = ("g",)) -> dict[Any, Any]:
    """Return what the output comes to; floats are rounded, as sums are."""
    table = Table(key)
    table.take(outputs)
    return {k: tuple(map(_rounded, row)) for k, row in table.rows.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return repr([_rounded(each) for each in value])
    return repr(round(value, 9) + 0.0) if isinstance(value, float) else value


FLOATS = st.none() | st.sampled_from([0.0, -0.0, 1.5, 2.5, float("nan"), -7.0])
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from(["a", "a", "b", None]),
    st.none() | st.integers(0, 30),
    FLOATS | st.integers(0, 99).map(lambda n: n / 8),
    st.sampled_from(["x", "y", "z", None]),
)


@settings(deadline=None, max_examples=8)
@given(
    rows=st.lists(ROWS, max_size=60),
    removed=st.sets(st.integers(0, 59)),
    seed=st.integers(0, 1 << 30),
    cuts=st.sets(st.integers(0, 119), max_size=8),
    page_values=st.sampled_from([2, 4, 16, 1024]),
    key=st.sampled_from(["g", None]),
)
# The entries of written pages have their columns in another order than those of the others.
@example(
    rows=[("a", None, None, "x")] * 9 + [("a", None, 0.0, "x"), ("a", None, 1.5, "x")],
    removed=set(),
    seed=0,
    cuts={10},
    page_values=2,
    key="g",
)
def test_the_results_are_those_of_the_rows_that_are_there(
    rows: list[Row],
    removed: set[int],
    seed: int,
    cuts: set[int],
    page_values: int,
    key: str | None,
) -> None:
    """Removals may arrive before their rows, and restarts may come at any time."""
    every = [(row, at, 1) for at, row in enumerate(rows)]
    every += [(row, at, -1) for row, at, _ in every if at in removed]
    random.Random(seed).shuffle(every)
    state = MemoryBackend().open_state(ALL)
    operator = counting(page_values=page_values, state=state, key=key)
    outputs, start = [], 0
    for end in (*sorted(cuts), len(every)):
        outputs += [*operator.process(changes(*every[start:end]))]
        start = max(start, end)
    there = [(row, at, 1) for at, row in enumerate(rows) if at not in removed]
    names = (key,) if key else ()
    fresh = counting(page_values=1 << 20, key=key).process(changes(*there))
    assert table_of(outputs, names) == table_of(fresh, names)
    if not there:
        assert not any(size.rows for size in state.measure_sizes().values())


def test_a_group_grows_and_shrinks_by_single_rows() -> None:
    """Its pages are divided, emptied and joined; the oldest rows go first."""
    state = MemoryBackend().open_state(ALL)
    columns = {"n": "count(*)", "least": "min(i)", "kinds": "count(distinct i)", "mid": "median(i)"}
    operator = counting(columns, 8, state)
    rows: list[tuple[Row, int, int]] = [(("a", at, None, None), at, 1) for at in range(100)]
    list(operator.process(changes(*rows)))
    assert state.measure_sizes()["values"].rows > 8
    for at in range(97):
        (out,) = (frame for _, frame in operator.process(changes((rows[at][0], at, -1))))
        assert out.rows()[0][:5] == ("a", 99 - at, at + 1, 99 - at, (at + 100) / 2)
    assert state.measure_sizes()["values"].rows == 1
    ((_, out),) = operator.process(changes(*((row, at, -1) for row, at, _ in rows[97:])))
    assert out[DELETE].to_list() == [True]
    assert {name: size.rows for name, size in state.measure_sizes().items()} == {
        "keys": 0,
        "values": 0,
    }


def test_a_change_writes_one_page_of_a_large_group() -> None:
    state = MemoryBackend().open_state(ALL)
    operator = counting({"least": "min(i)", "low": "percentile(i, 0.1)"}, 64, state)
    list(operator.process(changes(*((("a", at, None, None), at, 1) for at in range(4096)))))
    written: list[int] = []
    table = operator._sets[0]._pages._table
    put, find = table.put, table.find

    def spy_put(frame: pl.DataFrame) -> None:
        written.append(frame.height)
        put(frame)

    def spy_find(keys: pl.Series) -> pl.DataFrame:
        written.append(len(keys))
        return find(keys)

    table.put, table.find = spy_put, spy_find  # type: ignore[method-assign]
    ((_, out),) = operator.process(changes((("a", 0, None, None), 0, -1)))
    assert out["least"].to_list() == [1]
    assert sum(written) <= 6, "a page is read and written, and some are read for the percentile"


def test_equal_arguments_share_their_values() -> None:
    state = MemoryBackend().open_state(ALL)
    counting({"a": "min(i)", "b": "max(i)", "c": "count(distinct i)", "d": "min(s)"}, 4, state)
    assert {*state.measure_sizes()} == {"keys", "values", "values_2"}


def test_a_group_that_does_not_pass_is_deleted_as_it_was() -> None:
    made = operation({"least": "min(i)"}, "least > 4")
    operator = CountingAggregateOperator(made, place())
    ((_, out),) = operator.process(
        changes((("a", 5, None, None), 0, 1), (("b", 1, None, None), 1, 1))
    )
    assert out.select("g", "least", DELETE).rows() == [("a", 5, False)]
    ((_, out),) = operator.process(changes((("a", 3, None, None), 2, 1)))
    assert out.select("g", "least", DELETE).rows() == [("a", 5, True)]
    assert not [*operator.process(changes((("a", 2, None, None), 3, 1)))]


def of_class(
    folder: Path, text: str, columns: dict[str, str] | None = None, *, can_retract: bool = True
) -> Operator:
    """Return the operator of an aggregate of the class `Mine` of `i`, and of others."""
    from headrace.core.aggregates.user_aggregates import build_user_call
    from headrace.core.api.user_code import UserCode
    from headrace.core.expressions import type_expression
    from headrace.core.types.type_parser import parse_type

    (folder / "w.py").write_text(f"from headrace import Aggregate\n{text}")
    call = build_user_call(
        UserCode(folder, "w.py", "Mine"),
        [("i", type_expression("i", SCHEMA))],
        parse_type("bigint"),
        None,
        can_retract=can_retract,
    )
    others = operation(columns or {"n": "count(*)"})
    mine = nodes.AggregatedColumn("mine", call, "mine")
    made = nodes.Aggregate(others.key, None, (mine, *others.columns), None, reads_retractions=True)
    return build_keyed_operator(made, place())


SUMMING = """
class Mine(Aggregate):
    def partial(self, i): return int(i.sum())
    def merge(self, partials): return sum(partials)
    def finish(self, partial): return partial
"""
RETRACT = "    def retract(self, partial, removed): return partial - removed\n"


@pytest.mark.parametrize(
    ("text", "can_retract", "columns"),
    [
        (SUMMING, False, {"n": "count(*)"}),
        (SUMMING + RETRACT, True, {"n": "count(*)"}),
        (SUMMING + RETRACT, True, {"n": "count(*)", "least": "min(i)"}),
    ],
)
def test_a_users_class_goes_by_the_rows_that_are_there(
    tmp_path: Path, text: str, can_retract: bool, columns: dict[str, str]
) -> None:
    operator = of_class(tmp_path, text, columns, can_retract=can_retract)
    table = Table(("g",))
    one, two, other = ("a", 1, None, None), ("a", 20, None, None), ("b", 5, None, None)
    table.take(operator.process(changes((one, 0, 1), (other, 1, 1), (two, 2, -1))))
    assert {*table.rows} == {("b",)}, "a removal came before its row"
    table.take(operator.process(changes((two, 2, 1), (two, 3, 1))))
    assert table.rows[("a",)][:3] == ("a", 21, 2)
    table.take(operator.process(changes((one, 0, -1), (other, 1, -1))))
    assert {k: row[:3] for k, row in table.rows.items()} == {("a",): ("a", 20, 1)}
    table.take(operator.process(changes((two, 3, -1))))
    assert not table.rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SUMMING + "    def retract(self, partial, removed): return {1}\n",
            "retract returned a value that is not JSON",
        ),
        (SUMMING + "    def retract(self, partial, removed): return 1 // 0\n", "in retract"),
    ],
)
def test_an_error_in_retract_is_told_with_its_group(
    tmp_path: Path, text: str, message: str
) -> None:
    operator = of_class(tmp_path, text)
    rows: Sequence[tuple[Row, int, int]] = [(("a", n, None, None), n, 1) for n in range(3)]
    list(operator.process(changes(*rows)))
    with pytest.raises(GroupCodeError) as failed:
        list(operator.process(changes((rows[0][0], 0, -1))))
    assert message in failed.value.message
    assert "key g='a'" in failed.value.message


def test_an_inherited_retract_is_not_passed_over(tmp_path: Path) -> None:
    operator = of_class(tmp_path, SUMMING + RETRACT, can_retract=False)
    with pytest.raises(Exception, match="has a retract that its file does not define in it"):
        list(operator.process(changes((("a", 1, None, None), 0, 1))))


def test_all_pages_of_a_group_change_at_once() -> None:
    """Percentiles go by the order of the values, and not by that of the pages."""
    drawn = random.Random(3)
    operator = counting({"mid": "median(i)", "low": "percentile(i, 0.2)", "n": "count(*)"}, 8)
    there: list[int] = []
    for _ in range(12):
        values = [drawn.randrange(200) for _ in range(150)]
        gone = [there.pop(drawn.randrange(len(there))) for _ in range(min(len(there), 30))]
        there += values
        weighted = [*((value, 1) for value in values), *((value, -1) for value in gone)]
        rows = [(("a", value, None, None), 0, weight) for value, weight in weighted]
        ((_, out),) = operator.process(changes(*rows))
        wanted = pl.Series(there)
        assert out["mid"].to_list() == [wanted.median()]
        assert out["low"].to_list() == [pytest.approx(wanted.quantile(0.2, "linear"))]
