"""The results are independent of how rows are split, states are merged and rows are grouped."""

from __future__ import annotations

import io
import math
import random
from decimal import Decimal as D
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.aggregates import (
    ORDER,
    compute_partial_states,
    compute_results,
    deduplicate_calls,
    merge_states,
)
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    Decimal,
    Field,
    Schema,
    Struct,
    to_polars,
)
from tests.support.aggregation import at_once, in_pieces, same, typed

SCHEMA = Schema(
    (
        Field("k", INT),
        Field("n", INT),
        Field("x", DOUBLE),
        Field("s", STRING),
        Field("ok", BOOLEAN),
        Field("d", Decimal(10, 2)),
        Field("w", Decimal(38, 0)),
    )
)
TYPES = {field.name: to_polars(field.type) for field in SCHEMA}
PLACE = Struct((Field("time", BIGINT), Field("position", BIGINT)))

TEXTS = (
    "count(*)",
    "count(n, s)",
    "count(distinct n)",
    "count(distinct n, x)",
    "sum(n)",
    "sum(d)",
    "sum(distinct x)",
    "avg(d)",
    "avg(x)",
    "min(x)",
    "max(x)",
    "max(s)",
    "first(s)",
    "last(x)",
    "first(n, true)",
    "last(s, true)",
    "min_by(s, x)",
    "max_by(n, s)",
    "stddev(x)",
    "var_pop(n)",
    "bool_and(ok)",
    "bool_or(ok)",
    "count_if(n > 1)",
    "collect_list(n)",
    "collect_set(x)",
    "sum(n) filter (where ok)",
    "first(s) filter (where ok)",
    "max_by(s, n) filter (where ok)",
    "collect_list(s) filter (where n > 1)",
    "count(*) filter (where s is null)",
    "avg(n) filter (where n > 100)",
    "coalesce(k, -1)",
    "max('x')",
    "stddev(distinct n)",
    "bit_and(n)",
    "bit_xor(distinct n)",
    "try_sum(n)",
    "regr_avgx(n, d)",
    "regr_count(n, x)",
    "round(corr(distinct n, d), 9)",
    "round(skewness(d), 9)",
    "round(kurtosis(d), 9)",
    "round(covar_pop(n, d) filter (where ok), 9)",
    "max_by(s, x, 2)",
    "min_by(n, s, 3) filter (where ok)",
    "collect_list(distinct s)",
    "collect_union(array(n, 1))",
    "approx_count_distinct(x)",
    "approx_count_distinct(s, 0.2) filter (where ok)",
    "median(x)",
    "percentile(n, array(0.1, 0.9))",
    "percentile(d, 0.4, n)",
    "percentile_cont(0.3) within group (order by n desc) filter (where ok)",
    "percentile_disc(0.3) within group (order by d desc)",
    "percentile_approx(distinct n, 0.5)",
    "mode(s)",
    "mode() within group (order by x desc)",
    "histogram_numeric(n, 2)",
    "listagg(s, '-')",
    "listagg(s) within group (order by x desc, n nulls last) filter (where ok)",
    "listagg(distinct s) within group (order by s desc)",
)
EXPRESSIONS = {text: typed(text, SCHEMA, ["k"]) for text in TEXTS}

ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from([1, 2, None]),
        "n": st.sampled_from([0, 1, 2, 3, None]),
        "x": st.sampled_from([0.0, -0.0, 1.0, 2.5, math.nan, math.inf, None]),
        "s": st.sampled_from(["", "a", "é", None]),
        "ok": st.sampled_from([True, False, None]),
        "d": st.sampled_from([D("1.00"), D("-0.05"), None]),
    }
)


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Add an order key to the rows."""
    return pl.DataFrame(rows, schema=TYPES).with_columns(pl.int_range(pl.len()).alias(ORDER))


def by_key(result: pl.DataFrame) -> dict[Any, list[Any]]:
    """Return the results of each group."""
    assert not result["k"].is_duplicated().any()
    return {row["k"]: list(row.values()) for row in result.to_dicts()}


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(ROW, max_size=12), seed=st.integers(0, 2**32))
def test_pieces_of_groups_give_what_the_whole_gives(rows: list[Any], seed: int) -> None:
    whole = by_key(at_once(frame(rows), EXPRESSIONS, ["k"]))
    pieces = by_key(in_pieces(frame(rows), EXPRESSIONS, random.Random(seed), ["k"]))
    assert whole.keys() == pieces.keys() == {row["k"] for row in rows}
    for key, values in whole.items():
        assert same_values(pieces[key], values), (key, pieces[key], values)


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=8), seed=st.integers(0, 2**32))
def test_a_group_does_not_notice_the_others(rows: list[Any], seed: int) -> None:
    everyone = by_key(in_pieces(frame(rows), EXPRESSIONS, random.Random(seed), ["k"]))
    for key, values in everyone.items():
        alone = frame(rows).filter(pl.col("k").eq_missing(pl.lit(key, dtype=pl.Int32)))
        assert same_values(by_key(at_once(alone, EXPRESSIONS, ["k"]))[key], values)


def same_values(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether values are equal up to rounding; NaN equals NaN."""
    return same(
        [["NaN"] if isinstance(v, float) and math.isnan(v) else plain(v) for v in ours],
        [["NaN"] if isinstance(v, float) and math.isnan(v) else plain(v) for v in theirs],
    )


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return ["NaN" if isinstance(v, float) and math.isnan(v) else v for v in value]
    return value


def test_the_order_key_may_be_a_struct() -> None:
    rows = frame([{"k": 1, "n": i, "s": f"s{i}", "x": 1.0} for i in range(6)])
    place = pl.struct(time=pl.lit(0, pl.Int64), position=pl.col(ORDER))
    expressions = {
        text: typed(text, SCHEMA)
        for text in ("first(s)", "last(s)", "max_by(s, x)", "min_by(s, x)", "collect_list(n)")
    }
    for seed in range(5):
        luck = random.Random(seed)
        result = in_pieces(rows.with_columns(place.alias(ORDER)), expressions, luck, order=PLACE)
        assert result.row(0) == ("s0", "s5", "s5", "s5", [0, 1, 2, 3, 4, 5])


def test_states_without_a_row_leave_the_others_alone() -> None:
    names = ("first(n)", "last(n)", "stddev_pop(n)", "max_by(n, n)", "collect_list(n)", "avg(d)")
    expression = {name: typed(f"{name} filter (where ok)", SCHEMA) for name in names}
    rows = frame([{"n": 1, "ok": False}, {"n": 2, "ok": True}, {"n": 3, "ok": None}])
    calls = deduplicate_calls(expression.values())
    states = [compute_partial_states(rows[i : i + 1], [], calls) for i in range(3)]
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        merged = merge_states(pl.concat([states[i] for i in order]), [], calls)
        again = merge_states(pl.concat([states[0], merged]), [], calls)
        result = compute_results(again, [], calls, expression)
        assert result.row(0) == (2, 2, 0.0, 2, [2], None)


def test_no_rows_without_keys_are_one_group_and_with_keys_none() -> None:
    empty = frame([])
    whole = {t: typed(t, SCHEMA) for t in ("count(*)", "sum(n)", "max(x)", "first(s)", "stddev(x)")}
    assert at_once(empty, whole).row(0) == (0, None, None, None, None)
    assert at_once(empty, EXPRESSIONS, ["k"]).height == 0
    calls = deduplicate_calls(EXPRESSIONS.values())
    states = compute_partial_states(empty, ["k"], calls)
    assert merge_states(pl.concat([states, states]), ["k"], calls).schema == states.schema


def test_states_are_written_and_read_as_arrow() -> None:
    rows = frame([{"k": 1, "n": 1, "x": 1.5, "s": "a", "ok": True, "d": D("1.25")}] * 3)
    calls = deduplicate_calls(EXPRESSIONS.values())
    states = compute_partial_states(rows, ["k"], calls)
    file = io.BytesIO()
    states.write_ipc(file)
    file.seek(0)
    again = pl.read_ipc(file)
    assert again.schema == states.schema
    assert compute_results(again, ["k"], calls, EXPRESSIONS).equals(
        compute_results(states, ["k"], calls, EXPRESSIONS)
    )


def value(text: str, rows: list[dict[str, Any]]) -> Any:
    """Return the value of an aggregate over rows, equal for one batch and for single rows."""
    expression = {"r": typed(text, SCHEMA)}
    whole = at_once(frame(rows), expression)["r"][0]
    calls = expression["r"].calls
    single = [compute_partial_states(frame(rows)[i : i + 1], [], calls) for i in range(len(rows))]
    merged = merge_states(pl.concat(single), [], calls)
    apart = compute_results(merged, [], calls, expression)["r"][0]
    assert str(whole) == str(apart)
    return whole.to_list() if isinstance(whole, pl.Series) else whole


@pytest.mark.parametrize(
    ("text", "column", "values", "result"),
    [
        ("stddev(x)", "x", [0.1] * 7, 0.0),
        ("var_pop(x)", "x", [1e308, 1e308], 0.0),
        ("var_samp(x)", "x", [1e15, 1e15 + 1, 1e15 + 2], 1.0),
        ("stddev(x)", "x", [4.0], None),
        ("stddev_pop(x)", "x", [4.0], 0.0),
        ("collect_set(n)", "n", [3, 1, 3, None, 2], [1, 2, 3]),
        ("collect_list(n)", "n", [3, None, 1, 3], [3, 1, 3]),
        ("sum(n)", "n", [2**31 - 1, 2**31 - 1], 2**32 - 2),
        ("avg(d)", "d", [D("0.01"), None, D("0.02")], D("0.015000")),
        ("avg(d)", "d", [D("0.01")] * 2 + [D("0.00")], D("0.006667")),
        ("avg(d)", "d", [D("-0.01")] * 2 + [D("0.00")], D("-0.006667")),
        ("sum(w)", "w", [D("9" * 36)] * 100, D("9" * 36 + "00")),
        ("sum(w)", "w", [D("9" * 38)] * 2, None),
        ("sum(w)", "w", [D("9" * 38), D("1"), D("-1")], D("9" * 38)),
        ("sum(w)", "w", [D("-" + "9" * 38), D("-1")], None),
        ("avg(w)", "w", [D("1"), D("1"), D("0")], D("0.6667")),
        ("avg(w)", "w", [D("9" * 35)], None),
        ("count(distinct x)", "x", [0.0, -0.0, math.nan, math.nan, None], 2),
        ("last(n)", "n", [1, None], None),
        ("last(n, true)", "n", [1, None], 1),
        ("bool_and(ok)", "ok", [None, None], None),
    ],
)  # fmt: skip
def test_whole_or_row_by_row(text: str, column: str, values: list[Any], result: Any) -> None:
    assert value(text, [{column: each} for each in values]) == result


def test_sums_of_whole_numbers_wrap() -> None:
    assert value("sum(n + 9223372036854775806L)", [{"n": 1}, {"n": 0}]) == -3


def test_a_set_has_one_zero_and_no_sign() -> None:
    (zero,) = value("collect_set(x)", [{"x": -0.0}, {"x": 0.0}])
    assert math.copysign(1, zero) == 1
    assert math.copysign(1, value("sum(x)", [{"x": -0.0}, {"x": -0.0}])) == 1


def test_ties_go_to_the_last_row() -> None:
    rows = [{"s": s, "n": 1} for s in ("a", "b", "c")]
    assert value("max_by(s, n)", rows) == "c"
    assert value("min_by(s, n)", rows) == "c"
