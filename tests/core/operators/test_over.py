"""Columns over the rows of a key in the order of event time; random pipelines have more of them.

`core/operators/row_sequences` and `core/operators/row_frames` are tested here as well.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from headrace.core.aggregates.over_calls import type_over
from headrace.core.expressions.parsing.frame_parser import parse_framed_expression
from headrace.core.operators.over import OverOperator
from headrace.core.plan.nodes import Over, OverColumn
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.types.elements import MAX_WATERMARK_US
from tests.support.runtime.changelogs import computed, place, schema_of, timed

SCHEMA = schema_of(k="string", v="int")
Rows = list[tuple[str, int, int]]


def operator(*texts: str, ttl_s: int | None = None, key: str = "k") -> OverOperator:
    """An operator with the columns c0, c1, ...; its late rows have a reader."""
    columns = tuple(
        OverColumn(f"c{at}", type_over(parse_framed_expression(text), SCHEMA), text)
        for at, text in enumerate(texts)
    )
    ttl = None if ttl_s is None else Ttl(ttl_s * 1_000_000)
    by = computed(SCHEMA, *filter(None, [key]))
    context = replace(place(), read_streams=frozenset({"late"}))
    return OverOperator(Over(by, columns, SCHEMA, ttl, "late"), context)


def feed(over: OverOperator, *rows: tuple[str, int, int]) -> list[tuple[object, ...]]:
    """Pass rows of key, value and second; return the late ones."""
    frame = pl.DataFrame(
        [row[:2] for row in rows], schema={"k": pl.String(), "v": pl.Int32()}, orient="row"
    )
    times = [at for _, _, at in rows]
    return [
        row[:2] for _, out in over.process(timed(frame, times, ordered=True)) for row in out.rows()
    ]


def passed(over: OverOperator, at_s: int | None = None) -> list[tuple[object, ...]]:
    """Return the rows that are emitted at the watermark, without their time."""
    watermark_us = MAX_WATERMARK_US if at_s is None else at_s * 1_000_000
    return [row[:-1] for _, out in over.advance(watermark_us) for row in out.rows()]


def test_rows_get_their_values_when_the_watermark_has_passed_them() -> None:
    over = operator("lag(v)", "sum(v)", "row_number()")
    feed(over, ("a", 1, 5), ("b", 2, 4), ("a", 3, 2))
    assert passed(over, 5) == [("a", 3, None, 3, 1), ("b", 2, None, 2, 1)]
    assert feed(over, ("a", 4, 3), ("a", 5, 6)) == [("a", 4)]
    assert passed(over) == [("a", 1, 3, 4, 2), ("a", 5, 1, 9, 3)]


def test_rows_of_the_same_time_are_in_the_frame_of_a_range_and_have_one_rank() -> None:
    over = operator(
        "count(*)", "rank()", "dense_rank()", "count(*) over (rows unbounded preceding)"
    )
    feed(over, ("a", 1, 1), ("a", 2, 1), ("a", 3, 2))
    assert [row[2:] for row in passed(over)] == [(2, 1, 1, 1), (2, 1, 1, 2), (3, 3, 2, 3)]


def test_a_row_waits_for_the_rows_that_its_columns_need() -> None:
    over = operator("lead(v)")
    feed(over, ("a", 1, 1), ("b", 2, 2))
    assert passed(over, 9) == []
    feed(over, ("a", 3, 9))
    assert passed(over, 10) == [("a", 1, 3)]
    assert passed(over) == [("b", 2, None), ("a", 3, None)]
    assert over.watermark_delay_us == 1 << 62


def test_a_range_that_follows_waits_for_its_time_only() -> None:
    over = operator("sum(v) over (range between current row and interval 5 seconds following)")
    assert over.watermark_delay_us == 5_000_000
    feed(over, ("a", 1, 1), ("b", 2, 2))
    assert passed(over, 6) == []
    feed(over, ("a", 3, 6))
    assert passed(over, 7) == [("a", 1, 4)]
    assert passed(over, 8) == [("b", 2, 2)]


def test_with_a_ttl_a_key_begins_anew_and_its_last_rows_wait_no_longer() -> None:
    over = operator("lead(v)", "row_number()", "sum(v)", ttl_s=10)
    assert over.watermark_delay_us == 10_000_000
    feed(over, ("a", 1, 0), ("a", 2, 10))
    assert passed(over, 20) == [("a", 1, 2, 1, 1)]
    assert passed(over, 21) == [("a", 2, None, 2, 3)]
    feed(over, ("a", 4, 21), ("a", 8, 32))
    assert passed(over) == [("a", 4, None, 1, 4), ("a", 8, None, 1, 8)]


def test_without_a_key_all_rows_follow_each_other() -> None:
    over = operator("lag(k)", "lead(k, 1, 'none')", key="")
    feed(over, ("a", 1, 1), ("b", 2, 2), ("c", 3, 3))
    assert passed(over, 3) == [("a", 1, None, "b")]
    assert passed(over) == [("b", 2, "a", "c"), ("c", 3, "b", "none")]


def test_stored_rows_have_the_computed_arguments_of_calls() -> None:
    over = operator("count(*) filter (where v > 1) over (rows 2 preceding)", "lag(v * 2)")
    feed(over, ("a", 1, 1), ("a", 2, 2))
    assert passed(over, 3) == [("a", 1, 0, None), ("a", 2, 1, 2)]
    feed(over, ("a", 0, 3))
    assert passed(over) == [("a", 0, 1, 4)]


def test_frames_of_many_keys_and_long_ranges_are_found_in_parts() -> None:
    frame = "range between interval 100000 days preceding and interval 90000 days preceding"
    over = operator(
        "sum(v) over (range interval 40000000 days preceding)", f"sum(v) over ({frame})"
    )
    feed(over, *((f"k{at % 5}", at, at) for at in range(15)))
    assert [row[2:] for row in passed(over)] == [
        (sum(range(at % 5, at + 1, 5)), None) for at in range(15)
    ]


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_sums_wrap_and_averages_are_exact_in_every_frame(batch: int) -> None:
    texts = (
        "sum(9223372036854775807 - 1 + v) over (rows 1 preceding)",
        "avg(v) over (rows 1 preceding)",
        "sum(cast(v as decimal(38,0)) * 0.1) over (rows 2 preceding)",
    )
    over = operator(*texts)
    found = []
    for start in range(0, 6, batch):
        stop = min(start + batch, 6)
        feed(over, *(("a", at, at) for at in range(start, stop)))
        found += passed(over, stop)
    assert [row[2] for row in found][:3] == [9223372036854775806, -3, -1]
    assert [row[3] for row in found] == [0.0, 0.5, 1.5, 2.5, 3.5, 4.5]
    assert [str(row[4]) for row in found][3:] == ["0.6", "0.9", "1.2"]


def test_calls_of_the_same_expression_compute_it_once() -> None:
    over = operator("sum(v + 1)", "lag(v + 1)", "lead(v + 1)", "max(v + 1) over (rows 1 preceding)")
    feed(over, ("a", 0, 0), ("a", 2, 1), ("a", 1, 2))
    assert [row[2:] for row in passed(over)] == [(1, None, 3, 1), (4, 1, 2, 3), (6, 3, None, 3)]
