"""Weighted rows: equal rows add up, and are stored without a lookup."""

from __future__ import annotations

import polars as pl

from headrace.core.operators.changelog.weighted_rows import (
    WeightedRows,
    consolidate,
    expand_weights,
    get_weights,
    make_change_rows,
    repeat_rows,
)
from headrace.core.types.elements import DELETE, ORDER, WEIGHT
from headrace.core.types.row_order import order_by_sequence
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import ALL, timed


def weighted(*rows: tuple[str | None, list[int] | None, int]) -> pl.DataFrame:
    types = {"k": pl.String(), "v": pl.List(pl.Int64()), WEIGHT: pl.Int64()}
    return pl.DataFrame(rows, types, orient="row")


def test_equal_rows_add_up_and_rows_without_weight_are_dropped() -> None:
    rows = weighted(("a", [1], 1), ("a", None, 1), ("a", [1], 2), (None, [], 1), ("a", None, -1))
    assert consolidate(rows).rows() == [("a", [1], 3), (None, [], 1)]


def test_a_row_is_repeated_as_often_as_it_is_there() -> None:
    rows = weighted(("a", [1], 2), ("b", None, -1), ("c", [], 1))
    assert repeat_rows(rows).rows() == [("a", [1]), ("a", [1]), ("c", [])]
    assert expand_weights(rows)["k", DELETE].rows() == [
        ("a", False),
        ("a", False),
        ("b", True),
        ("c", False),
    ]


def test_rows_of_an_append_only_stream_are_added_once() -> None:
    assert get_weights(pl.DataFrame({"k": ["a", "b"]})).to_list() == [1, 1]


def test_rows_of_a_key_are_read_merged_and_taken_once() -> None:
    state = MemoryBackend().open_state(ALL)
    types = {"k": pl.String(), "v": pl.List(pl.Int64())}
    stored = WeightedRows(state, "rows", ["k"], types)
    stored.add(weighted(*(("a", [at], 1) for at in range(40)), ("b", [1], 1)))
    stored.add(weighted(("a", [0], -1), ("b", [1], 1)))
    (key,) = (pl.DataFrame({"k": ["b"]}),)
    equal = [("b", [1], 1), ("b", [1], 1)]
    assert stored.read(key).rows() == equal
    assert stored.take(key).rows() == equal
    assert stored.take(key).rows() == []
    assert stored.read(pl.DataFrame({"k": ["a"]})).height == 39


def test_rows_that_cancel_each_other_out_are_no_rows() -> None:
    state = MemoryBackend().open_state(ALL)
    stored = WeightedRows(state, "rows", ["k"], {"k": pl.String(), "v": pl.List(pl.Int64())})
    stored.add(weighted(("a", [1], 1)))
    stored.add(weighted(("a", [1], -1)))
    key = pl.DataFrame({"k": ["a"]})
    assert stored.read(key).height == 0
    stored.add(weighted(("a", [2], 1)))
    assert stored.read(key).rows() == [("a", [2], 1)]


def test_changes_of_a_table_as_rows_go_by_event_time() -> None:
    sequenced = order_by_sequence(
        timed(pl.DataFrame({"seq": [7, -7], DELETE: [False, True]}), [1, 2], ordered=True), "seq"
    )
    assert sequenced[ORDER].struct.field("time").to_list() == [7, -7]
    changes = make_change_rows(sequenced)
    assert changes[ORDER].struct.field("time").to_list() == [1_000_000, 2_000_000]
