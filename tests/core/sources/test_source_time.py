"""Time as sources make it: on virtual time, with one subtask and with three, in any order of tasks.

A split that is alone in its subtask and one that shares it with others are the same to a reader.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import MemoryEvent
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.types.elements import MAX_WATERMARK_US, EndOfStream, IdleMarker, WatermarkElement
from tests.support.runtime.source_subtasks import Alone, Seen, at, disordered, seen

END = [WatermarkElement(MAX_WATERMARK_US), EndOfStream()]
Splits: TypeAlias = "dict[str, list[MemoryEvent]]"
both = pytest.mark.parametrize("parallelism", [1, 3])


def mark(second: int) -> WatermarkElement:
    return WatermarkElement(second * 1_000_000)


def marks(found: list[Seen]) -> list[Seen]:
    """What is not rows, nor a watermark that only says once more where time is."""
    seen: list[Seen] = []
    reached = -(1 << 63)
    for when, element in found:
        if isinstance(element, WatermarkElement):
            if element.at_us <= reached:
                continue
            reached = element.at_us
        if not isinstance(element, list):
            seen.append((when, element))
    return seen


def watermarks(found: list[Seen]) -> list[tuple[float, int]]:
    """When time came to which second, up to the end."""
    return [
        (when, element.at_us // 1_000_000)
        for when, element in marks(found)
        if isinstance(element, WatermarkElement) and element.at_us < MAX_WATERMARK_US
    ]


def test_a_watermark_follows_the_rows_that_raise_it(tmp_path: Path) -> None:
    source = Alone(tmp_path, {"a": [at(1, 5), 1, at(3), 1, at(9), 1]}, "delay: 2s")
    assert seen(source) == [
        (0, [1, 5]),
        (0, mark(3)),
        (1, [3]),
        (2, [9]),
        (2, mark(7)),
        (3, END[0]),
        (3, END[1]),
    ]


def test_rows_that_wait_for_more_are_not_overtaken_by_their_watermark(tmp_path: Path) -> None:
    bounds = ChannelBounds(linger_s=3)
    splits: Splits = {"a": [at(1), 1, at(5), 4, at(9), 10], "b": [at(2), 2, at(3)]}
    assert seen(Alone(tmp_path, splits, bounds=bounds)) == [
        (3, [1, 2, 5, 3]),
        (3, mark(5)),
        (8, [9]),
        (8, mark(9)),
        (15, END[0]),
        (15, END[1]),
    ]


@both
@pytest.mark.parametrize("seed", range(3))
def test_time_is_that_of_the_slowest_split(tmp_path: Path, parallelism: int, seed: int) -> None:
    splits: Splits = {
        "a": [at(10), 1, at(20), 1, at(30), 9],
        "b": [at(5), 3, at(15), 3, at(25), 9],
        "c": [at(40), 2],
    }
    found = seen(Alone(tmp_path, splits, parallelism=parallelism), seed)
    assert watermarks(found) == [(0, 5), (3, 15), (6, 25), (11, 25)][:3]
    assert marks(found)[-2:] == [(15, END[0]), (15, END[1])]


@both
def test_a_split_that_is_not_read_yet_holds_time_back_unless_ordered(
    tmp_path: Path, parallelism: int
) -> None:
    splits: Splits = {"a": [at(1), 10, at(5), 30], "b": [20, at(7), 30]}
    unordered = Alone(tmp_path, splits, parallelism=parallelism)
    assert watermarks(seen(unordered)) == [(20, 5), (40, 7)]
    ordered = Alone(tmp_path, splits, parallelism=1, more=", ordered: true")
    assert watermarks(seen(ordered)) == [(0, 1), (10, 5), (40, 7)]


@both
@pytest.mark.parametrize("seed", range(3))
def test_a_split_without_rows_for_so_long_holds_nothing_back(
    tmp_path: Path, parallelism: int, seed: int
) -> None:
    busy: list[MemoryEvent] = [happening for n in range(100) for happening in (at(n), 1)]
    splits: Splits = {"a": busy, "b": [at(7), 60.5, at(8), at(70), 100]}
    found = seen(Alone(tmp_path, splits, "idle: 30s", parallelism), seed)
    # At 30 it is not said whether the row or the look is first.
    moved = [(when, second) for when, second in watermarks(found) if when != 30]
    assert moved[:9] == [*((n, n) for n in range(8)), (31, 31)]
    # Its rows come again at 60.5, and it is idle again at 90.5; the other one ends at 100.
    later = [*((n, n) for n in range(61, 71)), (90.5, 90), *((n, n) for n in range(91, 100))]
    assert moved[-20:] == later


@both
def test_a_source_whose_splits_are_all_idle_says_so(tmp_path: Path, parallelism: int) -> None:
    splits: Splits = {"a": [at(1), 100, at(5), 3], "b": [at(2), 5, at(3), 200]}
    found = seen(Alone(tmp_path, splits, "idle: 30s", parallelism))
    assert marks(found) == [
        (0, mark(1)),
        (30, mark(3)),
        (35, IdleMarker()),
        (100, mark(5)),
        (103, IdleMarker()),
        (205, END[0]),
        (205, END[1]),
    ]


@both
def test_a_partition_that_never_had_a_row_is_idle_so_long_after_the_start(
    tmp_path: Path, parallelism: int
) -> None:
    splits: Splits = {"a": [at(1), 20, at(2), 20, at(3), 20], "never": [1000.0]}
    found = seen(Alone(tmp_path, splits, "idle: 30s", parallelism))
    assert watermarks(found) == [(30, 2), (40, 3)]
    assert (60, IdleMarker()) in found


def test_a_split_whose_rows_nobody_takes_is_not_idle(tmp_path: Path) -> None:
    splits: Splits = {"a": [at(n) for n in range(5)], "b": [1, at(9)]}
    source = Alone(tmp_path, splits, "idle: 30s", bounds=ChannelBounds(rows=1))
    source.channels[0].bounds = ChannelBounds(rows=1)
    found = seen(source, slow_s=100)
    assert found[-1][0] > 300
    assert IdleMarker() not in [element for _, element in found]
    assert watermarks(found)[-1][1] <= 9


DRIFT = 15


def parted(found: list[Seen]) -> list[tuple[float, int]]:
    return [(when, second) for when, rows in found if isinstance(rows, list) for second in rows]


@both
@pytest.mark.parametrize("seed", range(5))
def test_a_split_waits_that_is_too_far_ahead_of_the_slowest(
    tmp_path: Path, parallelism: int, seed: int
) -> None:
    fast: list[MemoryEvent] = [at(10 * n) for n in range(20)]
    slow: list[MemoryEvent] = [happening for n in range(10) for happening in (at(10 * n + 1), 5)]
    splits: Splits = {"fast": fast, "slow": slow}
    found = parted(seen(Alone(tmp_path, splits, f"max_drift: {DRIFT}s", parallelism), seed))
    assert sorted(second for _, second in found) == sorted(
        [10 * n for n in range(20)] + [10 * n + 1 for n in range(10)]
    )
    slowest = 1
    for when, second in found:
        if second % 10:
            slowest = second
            # It is never made to wait for the others itself.
            assert when == (second - 1) / 2
        elif when < 50:
            # What was on its way when its split was paused may still come: two chunks.
            assert second <= slowest + DRIFT + 2 * 10
    # When the slow one has ended, at 50, nobody waits for it.
    assert max(when for when, _ in found) == 50


@both
def test_a_split_that_was_made_to_wait_is_not_idle(tmp_path: Path, parallelism: int) -> None:
    fast: list[MemoryEvent] = [at(100 * n) for n in range(5)]
    slow: list[MemoryEvent] = [happening for n in range(10) for happening in (at(n), 20)]
    splits: Splits = {"fast": [*fast, 1000.0, at(1000)], "slow": slow}
    found = seen(Alone(tmp_path, splits, "max_drift: 10s, idle: 30s", parallelism))
    assert IdleMarker() not in [element for when, element in found if when < 230]
    assert watermarks(found)[:10] == [(20 * n, n) for n in range(10)]


@both
def test_an_idle_split_makes_none_wait(tmp_path: Path, parallelism: int) -> None:
    splits: Splits = {"a": [at(n * 10) for n in range(10)], "b": [at(0), 1000.0, at(5)]}
    found = seen(Alone(tmp_path, splits, "max_drift: 25s, idle: 30s", parallelism))
    assert {when for when, second in parted(found) if second > 60} == {30}
    assert watermarks(found)[-1] == (30, 90) if parallelism == 1 else True


@both
def test_splits_that_come_later_are_read_and_older_rows_take_nothing_back(
    tmp_path: Path, parallelism: int
) -> None:
    splits: Splits = {"a": [at(50)]}
    source = Alone(tmp_path, splits, parallelism=parallelism, more=", watch: 10s")
    source.later[15] = lambda: splits.update(b=[at(40), 4, at(60), 4])
    source.later[22] = lambda: splits.update(c=[at(70)])
    found = seen(source, stop_at=100)
    assert parted(found) == [(0, 50), (20, 40), (24, 60), (30, 70)]
    assert marks(found) == [
        (0, mark(50)),
        (0, IdleMarker()),
        (24, mark(60)),
        (28, IdleMarker()),
        (30, mark(70)),
        (30, IdleMarker()),
        (100, END[0]),
        (100, END[1]),
    ]
    # The first rows after an idle time are followed by a watermark, though time stands still.
    assert (20, mark(50)) in found


@both
@pytest.mark.parametrize("seed", range(3))
def test_a_stop_ends_time_wherever_it_is(tmp_path: Path, parallelism: int, seed: int) -> None:
    splits: Splits = {name: [at(1), 1000.0, at(2)] for name in "abcd"}
    found = seen(Alone(tmp_path, splits, parallelism=parallelism), seed, stop_at=7)
    assert marks(found) == [(0, mark(1)), (7, END[0]), (7, END[1])]


@both
def test_rows_without_a_time_are_bad_records(tmp_path: Path, parallelism: int) -> None:
    splits: Splits = {"a": [at(None), 5, at(3, None, 4)], "b": [at(1), 9]}
    source = Alone(tmp_path, splits, parallelism=parallelism)
    found = seen(source)
    assert sorted(parted(found)) == [(0, 1), (5, 3), (5, 4)]
    assert sum(intake.bad_records for intake in source.intakes.values()) == 2
    assert sum(intake.rows_in for intake in source.intakes.values()) == 3


CENTURY = 100 * 365 * 86_400
YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799


@pytest.mark.parametrize(
    ("seconds", "moved"),
    [
        ([YEAR_1, YEAR_9999], [YEAR_1 - 5, YEAR_9999 - 5]),
        ([-CENTURY, -CENTURY + 7], [-CENTURY - 5, -CENTURY + 2]),
        ([0, CENTURY, 10, CENTURY + 1], [-5, CENTURY - 5, CENTURY - 4]),
    ],
)
def test_times_may_be_far_away_and_jump(
    tmp_path: Path, seconds: list[int], moved: list[int]
) -> None:
    happenings: list[MemoryEvent] = [each for second in seconds for each in (at(second), 1)]
    found = watermarks(seen(Alone(tmp_path, {"a": happenings}, "delay: 5s")))
    assert [second for _, second in found] == moved


@settings(max_examples=60, deadline=None)
@given(
    splits=st.lists(disordered(), max_size=5),
    parallelism=st.integers(1, 3),
    drift=st.sampled_from(["", ", max_drift: 20s"]),
    seed=st.integers(0, 1000),
)
def test_no_row_is_late_that_the_delay_allows(
    tmp_path_factory: pytest.TempPathFactory,
    splits: list[list[MemoryEvent]],
    parallelism: int,
    drift: str,
    seed: int,
) -> None:
    folder = tmp_path_factory.mktemp("source")
    named = {str(number): happenings for number, happenings in enumerate(splits)}
    found = seen(Alone(folder, named, f"delay: 10s{drift}", parallelism), seed)
    assert marks(found)[-2:] == [(found[-1][0], END[0]), (found[-1][0], END[1])]
    latest = -(1 << 63)
    for _, element in found:
        if isinstance(element, WatermarkElement):
            assert element.at_us > latest
            latest = element.at_us
        elif isinstance(element, list):
            assert all(second * 1_000_000 >= latest for second in element)
    rows = sum(chunk.height for each in splits for chunk in each if not isinstance(chunk, float))
    assert len(parted(found)) == rows
    assert all(a <= b for (a, _), (b, _) in pairwise(found))
