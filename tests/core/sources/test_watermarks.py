"""The watermark of a source's subtask, with literal times."""

from __future__ import annotations

import pytest

from headrace.core.api.splits import Split
from headrace.core.sources.watermarks import SplitWatermarks
from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    MIN_WATERMARK_US,
    IdleMarker,
    WatermarkElement,
)

A, B, C = (Split("s", name) for name in "abc")
END = WatermarkElement(MAX_WATERMARK_US)


def of(*splits: Split, last: bool = True, ordered: bool = False) -> SplitWatermarks:
    watermarks = SplitWatermarks(ordered)
    watermarks.assign(dict.fromkeys(splits), last=last)
    return watermarks


def news(watermarks: SplitWatermarks) -> object:
    """Return the elements to send now: one, nothing, or several."""
    marks = watermarks.collect_changes()
    return marks[0] if len(marks) == 1 else (marks or None)


def came(watermarks: SplitWatermarks, *rows: tuple[Split, int | None]) -> list[object]:
    """Return the elements to send after each of these rows."""
    emitted: list[object] = []
    for split, at_us in rows:
        watermarks.record_rows(split, at_us)
        emitted.append(news(watermarks))
    return emitted


def ended(watermarks: SplitWatermarks, split: Split) -> object:
    watermarks.finish_split(split)
    return news(watermarks)


def idle(watermarks: SplitWatermarks, *splits: Split) -> object:
    watermarks.set_idle(splits)
    return news(watermarks)


def test_a_split_never_goes_back() -> None:
    assert came(of(A), (A, 5), (A, 3), (A, 5), (A, 6)) == [
        WatermarkElement(5),
        None,
        None,
        WatermarkElement(6),
    ]


def test_the_least_of_the_splits_counts() -> None:
    assert came(of(A, B), (A, 5), (B, 3), (B, 9), (A, 7)) == [
        None,
        WatermarkElement(3),
        WatermarkElement(5),
        WatermarkElement(7),
    ]


def test_rows_that_say_nothing_of_time_leave_it_where_it_is() -> None:
    assert came(of(A), (A, None), (A, 5), (A, None), (A, -7)) == [
        None,
        WatermarkElement(5),
        None,
        None,
    ]


def test_a_split_that_is_not_read_yet_holds_time_back() -> None:
    watermarks = of(A, B)
    assert came(watermarks, (A, 5)) == [None]
    assert ended(watermarks, A) is None
    assert came(watermarks, (B, 2)) == [WatermarkElement(2)]
    assert ended(watermarks, B) == END


def test_ordered_splits_that_are_not_read_yet_do_not() -> None:
    watermarks = of(A, B, C, ordered=True)
    assert news(watermarks) is None
    assert came(watermarks, (A, 5)) == [WatermarkElement(5)]
    assert ended(watermarks, A) is None
    assert came(watermarks, (B, 4), (B, 8)) == [None, WatermarkElement(8)]
    assert ended(watermarks, B) is None
    assert ended(watermarks, C) == END


def test_a_split_of_which_only_bad_records_came_is_being_read() -> None:
    watermarks = of(A, B, ordered=True)
    assert came(watermarks, (A, None), (B, 5)) == [None, None]
    assert came(watermarks, (A, 4)) == [WatermarkElement(4)]


def test_a_split_may_have_a_watermark_and_become_idle_without_rows() -> None:
    watermarks = of(A, B)
    watermarks.record_time(A, 30)
    assert news(watermarks) is None, "B holds time back"
    watermarks.record_time(B, None)
    assert news(watermarks) == WatermarkElement(30)
    watermarks.record_time(A, 20)
    assert news(watermarks) is None, "a watermark never decreases"
    watermarks.record_time(A, None)
    assert news(watermarks) == IdleMarker()
    assert came(watermarks, (B, 40)) == [WatermarkElement(40)], "its next row ends idleness"


def test_a_split_that_ended_holds_nothing_back() -> None:
    watermarks = of(A, B)
    assert came(watermarks, (A, 5), (B, 3)) == [None, WatermarkElement(3)]
    assert ended(watermarks, B) == WatermarkElement(5)
    assert ended(watermarks, A) == END
    assert news(watermarks) is None


def test_the_end_of_a_split_that_comes_before_its_time_was_reported_does_not_lose_it() -> None:
    watermarks = of(A, last=False)
    watermarks.record_rows(A, 5)
    watermarks.finish_split(A)
    assert watermarks.collect_changes() == [WatermarkElement(5), IdleMarker()]
    watermarks.assign({B: None, C: None}, last=False)
    watermarks.record_rows(B, 7)
    watermarks.record_rows(C, 6)
    watermarks.finish_split(C)
    watermarks.record_rows(B, 8)
    watermarks.finish_split(B)
    assert watermarks.collect_changes() == [WatermarkElement(8), IdleMarker()]


def test_a_split_without_a_record_ends_like_any_other() -> None:
    watermarks = of(A, B)
    assert ended(watermarks, A) is None
    assert ended(watermarks, B) == END


def test_no_split_and_none_to_come_is_the_end() -> None:
    assert news(of(last=True)) == END


def test_no_split_for_now_is_idle_and_reported_once() -> None:
    watermarks = of(last=False)
    assert (news(watermarks), news(watermarks)) == (IdleMarker(), None)


def test_a_source_that_watches_for_splits_is_idle_when_all_are_read() -> None:
    watermarks = of(A, last=False)
    assert came(watermarks, (A, 5)) == [WatermarkElement(5)]
    assert ended(watermarks, A) == IdleMarker()
    watermarks.assign({}, last=True)
    assert news(watermarks) == END


def test_a_split_that_is_assigned_ends_idleness_and_its_older_rows_take_nothing_back() -> None:
    watermarks = of(A, last=False)
    came(watermarks, (A, 5))
    ended(watermarks, A)
    watermarks.assign({B: None}, last=False)
    assert news(watermarks) == WatermarkElement(5)
    assert came(watermarks, (B, 2), (B, 6)) == [None, WatermarkElement(6)]
    assert ended(watermarks, B) == IdleMarker()


def test_the_first_split_of_a_subtask_ends_its_idleness_before_any_row() -> None:
    watermarks = of(last=False)
    assert news(watermarks) == IdleMarker()
    watermarks.assign({A: None}, last=False)
    assert news(watermarks) == WatermarkElement(MIN_WATERMARK_US)


def test_an_idle_split_is_left_out_until_something_comes_of_it() -> None:
    watermarks = of(A, B)
    came(watermarks, (A, 5), (B, 3))
    assert idle(watermarks, B) == WatermarkElement(5)
    assert came(watermarks, (A, 9)) == [WatermarkElement(9)]
    assert came(watermarks, (B, 4), (A, 12), (B, 10)) == [None, None, WatermarkElement(10)]


def test_a_split_of_which_nothing_ever_came_can_be_idle() -> None:
    watermarks = of(A, B)
    assert idle(watermarks, B) is None
    assert came(watermarks, (A, 5)) == [WatermarkElement(5)]
    assert came(watermarks, (B, None), (B, 7), (A, 6)) == [None, None, WatermarkElement(6)]


def test_all_splits_idle_is_reported_and_its_end_by_the_watermark() -> None:
    watermarks = of(A, B)
    came(watermarks, (A, 5), (B, 3))
    assert idle(watermarks, A, B) == IdleMarker()
    assert idle(watermarks, A, B) is None
    assert came(watermarks, (B, None)) == [WatermarkElement(3)]
    assert idle(watermarks, A, B) == IdleMarker()
    assert came(watermarks, (A, 8)) == [WatermarkElement(8)]


def test_what_is_idle_when_the_others_have_ended_is_not_the_end() -> None:
    watermarks = of(A, B)
    came(watermarks, (A, 5), (B, 3))
    assert idle(watermarks, B) == WatermarkElement(5)
    assert ended(watermarks, A) == IdleMarker()
    assert ended(watermarks, B) == END


def test_a_split_that_ended_can_not_be_idle() -> None:
    watermarks = of(A, B)
    came(watermarks, (A, 5), (B, 3))
    ended(watermarks, B)
    assert idle(watermarks, B) is None
    assert idle(watermarks, A, B) == IdleMarker()


@pytest.mark.parametrize("last", [True, False])
def test_a_subtask_that_reads_no_more_is_at_the_end_of_time(last: bool) -> None:
    watermarks = of(A, B, C, last=last)
    came(watermarks, (A, 5), (B, 3))
    idle(watermarks, B)
    watermarks.finish()
    assert (news(watermarks), news(watermarks)) == (END, None)


def test_the_slowest_of_those_that_are_being_read() -> None:
    watermarks = of(A, B, C)
    assert watermarks.slowest_us is None
    came(watermarks, (A, 5), (B, None))
    assert watermarks.slowest_us == 5
    came(watermarks, (B, 3))
    assert watermarks.slowest_us == 3
    assert watermarks.find_splits_beyond(4) == {A}
    assert watermarks.find_splits_beyond(2) == {A, B}
    idle(watermarks, B)
    assert watermarks.slowest_us == 5
    ended(watermarks, A)
    assert watermarks.slowest_us is None
