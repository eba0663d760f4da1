"""The comparison of rows, the table that changes result in, and how a difference is shown."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from headrace.core.errors.problems import Location
from headrace.core.pipeline.pipeline_tests.model import StreamExpectation
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.testing.visible_rows import (
    MAX_SHOWN_ROWS,
    are_equal_rows,
    find_difference,
    find_missing,
    fold_changes,
    format_difference,
    format_rows,
)

WRITTEN = StreamExpectation(Text("s"), Location("f", 1, 1, 1, ""))
A, B = {"k": "a", "n": 1}, {"k": "b", "n": 2}


def test_upserts_replace_rows_by_key_and_deletions_remove_them() -> None:
    changes: list[dict[str, object]] = [
        {**A, "_delete": False},
        {**B, "_delete": False},
        {"k": "a", "n": 5, "_delete": False},
        {"k": "b", "n": None, "_delete": True},
    ]
    assert fold_changes(changes, nodes.Upsert(("k",), has_deletes=True)) == [{"k": "a", "n": 5}]


def test_removed_rows_take_one_equal_row_away() -> None:
    added, removed = {**A, "_delete": False}, {**A, "_delete": True}
    assert fold_changes([added, added, removed], nodes.Retract()) == [A]
    assert fold_changes([added, removed], nodes.Retract()) == []


def test_appended_rows_are_all_there() -> None:
    assert fold_changes([A, A], nodes.Append()) == [A, A]


def test_each_row_counts_once() -> None:
    difference = find_difference([A, A, B], [A, B, B], WRITTEN)
    assert (difference.missing, difference.unexpected, difference.equal) == ((A,), (B,), (A, B))
    assert find_missing([A, A], [A, B], 0.0) == [A]


def test_the_order_counts_only_if_it_is_wanted() -> None:
    ordered = replace(WRITTEN, is_ordered=True)
    assert not find_difference([A, B], [B, A], WRITTEN)
    assert find_difference([A, B], [B, A], ordered).is_reordered
    assert not find_difference([A, B], [A, B], ordered)


@pytest.mark.parametrize(
    ("expected", "row", "tolerance", "equal"),
    [
        ({"x": 0.3}, {"x": 0.1 + 0.2}, 0.0, False),
        ({"x": 0.3}, {"x": 0.1 + 0.2}, 1e-9, True),
        ({"x": math.nan}, {"x": math.nan}, 0.0, True),
        ({"x": math.nan}, {"x": 1.0}, 9.0, False),
        ({"x": [0.3, None]}, {"x": [0.1 + 0.2, None]}, 1e-9, True),
        ({"x": {"y": 1}}, {"x": {"y": 2}}, 0.0, False),
        ({"x": None}, {"x": 0}, 0.0, False),
        ({"x": 1}, {"x": 1, "y": 2}, 0.0, True),
        ({"x": 1}, {"x": 1, "_delete": True}, 0.0, False),
        ({"x": 1, "_delete": True}, {"x": 1, "_delete": True}, 0.0, True),
        ({"x": 1, "_delete": False}, {"x": 1}, 0.0, True),
    ],
)
def test_equality_of_rows(
    expected: dict[str, object], row: dict[str, object], tolerance: float, equal: bool
) -> None:
    assert are_equal_rows(expected, row, tolerance) is equal


def test_a_difference_is_a_table_with_marks() -> None:
    lines = format_difference(find_difference([A], [B, {"k": None, "n": 10}], WRITTEN))
    assert lines == ["  k     n", "- a     1", "+ b     2", "+ null  10"]


def test_a_long_table_is_cut() -> None:
    lines = format_rows([(" ", A)] * (MAX_SHOWN_ROWS + 5))
    assert (len(lines), lines[-1]) == (MAX_SHOWN_ROWS + 2, "  ... and 5 more")
