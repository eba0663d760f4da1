"""Keyed steps that Spark runs itself, case by case: the rows that a stream ends as."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headrace.core.spark.columns import columns_after_operation, stream_columns
from headrace.core.spark.dataframe_operations import apply_keyed
from headrace.core.types.elements import EVENT_TIME
from tests.support.spark.random_windows import Found, different, hold
from tests.support.spark.streamed import made, natively, operation_of, planned, streamed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = '{k: int, x: double, s: string, v: bigint, d: "decimal(30,2)", at: timestamp}'
COLUMNS = {
    "k": pl.Int32(),
    "x": pl.Float64(),
    "s": pl.String(),
    "v": pl.Int64(),
    "d": pl.Decimal(30, 2),
    "at": pl.Datetime("us", "UTC"),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAN = float("nan")


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows, with their time in seconds; what is not said is null."""
    timed = [{**row, "at": _time(row.get("at", 0.0))} for row in rows]
    return pl.DataFrame(timed, schema=COLUMNS, orient="row")


def at(*seconds: float) -> pl.DataFrame:
    """Rows of these times, with the values 1, 2 and so on."""
    return frame(*({"at": each, "v": v} for v, each in enumerate(seconds, 1)))


def _time(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def ends_as(
    quick: SparkSession, clauses: str, rows: pl.DataFrame, event_time: str = ", event_time: at"
) -> Counter[tuple[Any, ...]]:
    """The rows that a step ends as on Spark, which a stream ends as too; times in seconds."""
    plan = planned(SCHEMA, clauses, event_time)
    native = natively(made(quick, plan, rows), plan)
    assert native is not None
    found = pl.from_arrow(native.toArrow())
    assert isinstance(found, pl.DataFrame)
    assert [*different(plan, found, streamed(plan, rows, Random(0)))] == []
    shown = found.select(pl.exclude("__order"))
    return Counter(tuple(map(_plain, row)) for row in shown.rows())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) / timedelta(seconds=1)
    if isinstance(value, float) and value != value:
        return "NaN"
    return tuple(value) if isinstance(value, list) else value


def is_native(quick: SparkSession, clauses: str, rows: pl.DataFrame) -> bool:
    plan = planned(SCHEMA, clauses)
    return natively(made(quick, plan, rows), plan) is not None


N = "aggregate: {n: count(*)}"
LESS = 1e-6


def test_windows_tumble_from_the_epoch_also_before_it(quick: SparkSession) -> None:
    rows = at(-LESS, 0, 10 - LESS, 10, -10)
    found = ends_as(quick, f"window: {{tumble: 10s}}, {N}", rows)
    assert found == {(-10, 0, 2, -LESS): 1, (0, 10, 2, 10 - LESS): 1, (10, 20, 1, 20 - LESS): 1}
    found = ends_as(quick, f"window: {{tumble: 10s, offset: 3s}}, {N}", at(2, 3))
    assert found == {(-7, 3, 1, 3 - LESS): 1, (3, 13, 1, 13 - LESS): 1}


def test_windows_slide_over_each_other_or_with_time_between(quick: SparkSession) -> None:
    found = ends_as(quick, f"window: {{slide: 5s, every: 3s}}, {N}", at(4))
    assert found == {(0, 5, 1, 5 - LESS): 1, (3, 8, 1, 8 - LESS): 1}
    found = ends_as(quick, f"window: {{slide: 2s, every: 5s}}, {N}", at(1, 2, 4, 5, -4, -3))
    assert found == {(-5, -3, 1, -3 - LESS): 1, (0, 2, 1, 2 - LESS): 1, (5, 7, 1, 7 - LESS): 1}


def test_windows_cumulate_up_to_their_length(quick: SparkSession) -> None:
    found = ends_as(quick, f"window: {{cumulate: 6s, every: 2s}}, {N}", at(-1, 2))
    assert found == {(-6, 0, 1, -LESS): 1, (0, 4, 1, 4 - LESS): 1, (0, 6, 1, 6 - LESS): 1}


def test_rows_just_the_gap_apart_are_one_session(quick: SparkSession) -> None:
    found = ends_as(quick, f"window: {{session: 2s}}, {N}", at(0, 2, 4 + LESS, -9, -9))
    assert found == {
        (-9, -7, 2, -7 - LESS): 1,
        (0, 4, 2, 4 - LESS): 1,
        (4 + LESS, 6 + LESS, 1, 6): 1,
    }


@pytest.mark.parametrize("window", ["", "window: {global: true},", "window: {session: 1s},"])
def test_no_rows_make_no_group(quick: SparkSession, window: str) -> None:
    assert not ends_as(quick, f"{window} aggregate: {{n: count(*), total: sum(v)}}", frame())


def test_rows_without_bounds_have_the_greatest_time_of_their_key(quick: SparkSession) -> None:
    rows = frame({"k": 1, "at": 5}, {"k": 1, "at": 3}, {"at": -1})
    assert ends_as(quick, f"key: k, {N}", rows) == {(1, 2, 5): 1, (None, 1, -1): 1}
    found = ends_as(quick, f"key: k, window: {{global: true}}, {N}", rows)
    assert found == {(1, 2, 5): 1, (None, 1, -1): 1}


@pytest.mark.parametrize("window", ["", "window: {session: 1s},"])
def test_null_nan_and_zero_are_a_key_each(quick: SparkSession, window: str) -> None:
    rows = frame(*({"x": x} for x in (0.0, -0.0, None, NAN, None, NAN, -NAN)))
    found = ends_as(quick, f"key: x, {window} {N}", rows)
    assert Counter((row[0], row[-2]) for row in found) == {("NaN", 3): 1, (0.0, 2): 1, (None, 2): 1}
    assert not any(str(row[0]) == "-0.0" for row in found)


def test_a_key_may_be_called_like_a_column_that_aggregates_read(quick: SparkSession) -> None:
    rows = frame(*({"v": v, "s": "b"} for v in (1, 2, 3)), {"v": 4, "s": None})
    clauses = "key: {v: v % 2, s: \"coalesce(s, 'a')\"}, aggregate: {t: sum(v) + v * 10}"
    assert ends_as(quick, clauses, rows) == {
        (1, "b", 14, 0): 1,
        (0, "b", 2, 0): 1,
        (0, "a", 4, 0): 1,
    }


def test_having_keeps_what_is_true(quick: SparkSession) -> None:
    rows = frame({"k": 1, "v": 1}, {"k": 2}, {"k": 3, "v": -1})
    assert ends_as(quick, "key: k, aggregate: {t: sum(v)}, having: t > 0", rows) == {(1, 1, 0): 1}


def test_what_goes_by_the_order_of_rows_goes_by_their_time_and_place(quick: SparkSession) -> None:
    rows = frame(
        {"at": 2, "v": 1, "s": "a"}, {"at": 1, "s": "b"}, {"at": 1, "v": 3}, {"at": 2, "s": "d"}
    )
    texts = ["first(s)", "first(v)", "last(v)", "collect_list(s)"]
    texts += ["first(v, true)", "last(v, true)", "min_by(s, at)", "max_by(s, at)", "max_by(v, s)"]
    shown = ", ".join(f'a{at}: "{text}"' for at, text in enumerate(texts))
    found = ends_as(quick, f"aggregate: {{{shown}}}", rows)
    assert found == {("b", None, None, ("b", "a", "d"), 3, 1, None, "d", None, 2): 1}


def test_top_ranks_ties_by_place_and_nulls_where_it_is_said(quick: SparkSession) -> None:
    rows = frame(
        *({"v": v, "s": s, "x": NAN} for s, v in zip("abcde", (1, None, 2, 1, 2), strict=True))
    )
    found = ends_as(quick, "top: {n: 3, by: v desc}", rows)
    assert {row[6]: row[2] for row in found} == {1: "c", 2: "e", 3: "a"}
    found = ends_as(
        quick, "key: x, window: {tumble: 1s}, top: {n: 2, by: [v nulls first, s]}", rows
    )
    assert {row[6]: row[2] for row in found} == {1: "b", 2: "a"}


def test_dedup_keeps_the_first_row_of_a_key_or_the_last(quick: SparkSession) -> None:
    rows = frame(*({"k": k, "v": v} for v, k in enumerate((None, 1, None, 1))))
    found = ends_as(quick, "dedup: {key: k}", rows)
    assert Counter((row[0], row[3]) for row in found) == {(None, 0): 1, (1, 1): 1}
    found = ends_as(quick, "dedup: {key: k, keep: last}", rows)
    assert Counter((row[0], row[3]) for row in found) == {(None, 2): 1, (1, 3): 1}


def test_rows_need_no_event_time(quick: SparkSession) -> None:
    rows = frame({"k": 1, "v": 1}, {"k": 1, "v": 3}, {"v": 2})
    found = ends_as(quick, "key: k, aggregate: {t: sum(v), f: first(v)}", rows, "")
    assert found == {(1, 4, 1): 1, (None, 2, 2): 1}
    found = ends_as(quick, f"window: {{global: true}}, {N}", rows, "")
    assert found == {(3,): 1}
    found = ends_as(quick, "window: {global: true}, top: {n: 1, by: v desc}", rows, "")
    assert [(row[3], row[6]) for row in found] == [(3, 1)]
    assert len(ends_as(quick, "dedup: {key: k}", rows, "")) == 2


def test_columns_have_any_name(quick: SparkSession) -> None:
    step = 'key: {"a b": k}, aggregate: {"n.1": count(*), "total of v": sum(v)}'
    rows = frame({"k": 1, "v": 1}, {"k": 2})
    found = ends_as(quick, f'{step}, having: "`n.1` + `a b` > 2"', rows)
    assert found == {(2, 1, None, 0): 1}


@pytest.mark.parametrize(
    "clauses",
    [
        f"window: {{count: 2}}, {N}",
        f"window: {{slide: 1d, every: 1s}}, {N}",
        f"window: {{tumble: 1s, evict: {{last: 2}}}}, {N}",
        f"window: {{tumble: 1s, trigger: {{count: 2}}, accumulate: false}}, {N}",
        f"window: {{tumble: 1s, time: processing}}, {N}",
        f"key: k, {N}, ttl: {{after: 1h}}",
        "aggregate: {t: sum(d)}",
        "top: {n: 1, by: v}, ttl: {after: 1h}",
        "dedup: {key: k, ttl: 1h}",
    ],
)
def test_what_spark_has_no_form_for_is_left_to_our_operators(
    quick: SparkSession, clauses: str
) -> None:
    assert not is_native(quick, clauses, at(0))


def test_rows_that_need_their_place_among_all_are_made_by_us(quick: SparkSession) -> None:
    plan = planned(SCHEMA, f"window: {{tumble: 1s}}, {N}")
    rows = made(quick, plan, at(0))
    wanted = columns_after_operation(
        operation_of(plan), stream_columns(plan.streams["rows"]), ordered=True
    )
    assert EVENT_TIME in wanted
    assert apply_keyed(rows, operation_of(plan), wanted) is None


@pytest.mark.parametrize("seed", range(5))
def test_random_steps_end_as_the_same_rows(quick: SparkSession, seed: int) -> None:
    found = Found()
    hold(quick, seed, 9, found)
    assert not found.wrong, "\n".join(found.wrong)
    assert found.native >= 7
