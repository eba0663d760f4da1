"""The watermark that rows imply: the highest time less a delay, a column, a user's function."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from headrace.core.api.user_code import UserCodeError
from headrace.core.plan import nodes
from headrace.core.sources.event_time import (
    WatermarkExtractor,
    build_watermark_extractor,
    find_late_rows,
    find_max_us,
    to_microseconds,
)
from headrace.core.types.elements import MAX_WATERMARK_US, MIN_WATERMARK_US
from tests.support.runtime.memory_pipelines import cut, plan_of, simulated

TEXT = """
sources:
  s:
    memory: {{data: d}}
    schema: {{at: timestamp, mark: timestamp, x: bigint}}
    event_time: at
    {more}
steps: {{t: {{from: s, select: [x]}}}}
sinks: {{out: {{from: t, memory: {{data: d}}}}}}
"""
TYPE = pl.Datetime("us", "UTC")


def source_of(folder: Path, more: str) -> nodes.Source:
    text = TEXT.format(more=more)
    part = plan_of(folder, text, {"memory": InMemoryData({"d": {}}).build_connector()}).part("s")
    assert isinstance(part, nodes.Source)
    return part


def times(*at_us: int | None) -> pl.DataFrame:
    physical = pl.Series("", at_us, dtype=pl.Int64)
    return pl.DataFrame(
        {"at": physical.cast(TYPE), "mark": pl.Series("", [None] * len(at_us), TYPE)}
    )


def frame(mark: list[int | None]) -> pl.DataFrame:
    return times(*range(len(mark))).with_columns(pl.Series("mark", mark, pl.Int64).cast(TYPE))


@pytest.mark.parametrize(
    ("delay", "at_us", "expected"),
    [
        ("0s", [5, 9, 7], 9),
        ("2s", [5_000_000, 9_000_000], 7_000_000),
        ("2s", [-5_000_000], -7_000_000),
        ("250ms", [0], -250_000),
        ("1s", [], None),
        ("1s", [None, None], None),
        ("1s", [None, 3_000_000], 2_000_000),
        # The years 1 and 9999, and all that a bigint of microseconds can hold.
        (
            "365d",
            [to_microseconds(datetime(1, 1, 1))],
            to_microseconds(datetime(1, 1, 1)) - 365 * 86_400_000_000,
        ),
        ("1s", [to_microseconds(datetime.max)], to_microseconds(datetime.max) - 1_000_000),
        ("1s", [MIN_WATERMARK_US], MIN_WATERMARK_US),
        ("1s", [MIN_WATERMARK_US + 10], MIN_WATERMARK_US),
        ("0s", [MAX_WATERMARK_US], MAX_WATERMARK_US - 1),
    ],
)
def test_the_highest_time_less_the_delay(
    tmp_path: Path, delay: str, at_us: list[int | None], expected: int | None
) -> None:
    source = source_of(tmp_path, f"watermark: {{delay: {delay}}}")
    assert build_watermark_extractor(source, tmp_path).extract(times(*at_us)) == expected


def test_without_a_word_about_it_the_delay_is_none(tmp_path: Path) -> None:
    assert build_watermark_extractor(source_of(tmp_path, ""), tmp_path).extract(times(4, 8)) == 8


def test_a_source_without_event_time_says_nothing_of_time(tmp_path: Path) -> None:
    text = "sources: {s: {memory: {data: d}, schema: {x: bigint}}}\n"
    sinks = "sinks: {out: {from: s, memory: {data: d}}}"
    source = plan_of(tmp_path, text + sinks, {"memory": InMemoryData().build_connector()}).part("s")
    assert isinstance(source, nodes.Source)
    assert build_watermark_extractor(source, tmp_path).extract(times(4)) is None


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ([3, None, 7, 5], 7),
        ([None, None], None),
        ([], None),
        ([MAX_WATERMARK_US], MAX_WATERMARK_US - 1),
    ],
)
def test_a_column_that_carries_the_watermark(
    tmp_path: Path, mark: list[int | None], expected: int | None
) -> None:
    source = source_of(tmp_path, "watermark: {from: mark}")
    assert source.decoded_columns == ("at", "mark", "x")
    assert build_watermark_extractor(source, tmp_path).extract(frame(mark)) == expected


def asked(folder: Path, code: str) -> WatermarkExtractor:
    (folder / "marks.py").write_text(code)
    source = source_of(folder, "watermark: {python: marks.py:latest}")
    assert source.decoded_columns == ("at", "mark", "x")
    return build_watermark_extractor(source, folder)


EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ('rows["at"].max()', 8),
        ('rows["at"].dt.replace_time_zone(None).max()', 8),
        ("None", None),
        ("rows['mark'].max()", None),
        ("datetime(1970, 1, 1, 0, 0, 1)", 1_000_000),
        ("datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))", 0),
        ("datetime.min", -62_135_596_800_000_000),
        ("datetime.max", 253_402_300_799_999_999),
    ],
)
def test_a_function_of_the_user(tmp_path: Path, returns: str, expected: int | None) -> None:
    code = f"from datetime import *\n\ndef latest(rows):\n    return {returns}\n"
    time = asked(tmp_path, code)
    assert time.calls_user_code
    assert time.extract(times(4, 8)) == expected


@pytest.mark.parametrize(
    ("returns", "said"),
    [
        ("1 / 0", "marks.py:4: ZeroDivisionError: division by zero (in a batch of 2 rows)"),
        ("exit(3)", "marks.py:4: SystemExit: 3 (in a batch of 2 rows)"),
        ("7", "marks.py:latest must return a datetime or None, got int"),
        ("date(2026, 1, 1)", "marks.py:latest must return a datetime or None, got date"),
        ("rows['at']", "marks.py:latest must return a datetime or None, got Series"),
        (
            "datetime.max.replace(tzinfo=timezone(timedelta(hours=-2)))",
            "marks.py:latest returned 9999-12-31 23:59:59.999999-02:00, which is not within the",
        ),
    ],
)
def test_a_function_that_does_not_keep_its_word(tmp_path: Path, returns: str, said: str) -> None:
    time = asked(tmp_path, f"from datetime import *\n\ndef latest(rows):\n    return {returns}\n")
    with pytest.raises(UserCodeError) as raised:
        time.extract(times(4, 8))
    assert raised.value.message.startswith(said)


def test_a_time_has_the_same_micros_in_any_zone() -> None:
    utc = datetime(2026, 1, 31, 8, tzinfo=UTC)
    assert (
        to_microseconds(utc)
        == to_microseconds(utc.replace(tzinfo=None))
        == to_microseconds(utc.astimezone(EAST))
    )
    assert find_max_us(pl.DataFrame({"at": [utc]}, schema={"at": TYPE}), "at") == to_microseconds(
        utc
    )


@pytest.mark.parametrize(
    ("rows", "reached_us", "announced_us", "expected"),
    [
        ([(35, 35), (6, None), (5, None)], 0, 0, [(1, 35)]),
        ([(1, None), (6, 9), (9, None)], 0, 0, []),
        ([(6, None)], 35, 0, [(0, 35)]),
        ([(6, None)], 35, 35, []),
        ([(6, 40), (36, None), (39, 50), (49, None)], 35, 35, [(1, 40), (3, 50)]),
        ([(None, 40), (None, None), (6, 30), (7, None)], 0, 0, [(2, 40)]),
    ],
)
def test_rows_before_the_watermark_of_earlier_rows_are_late(
    rows: list[tuple[int | None, int | None]],
    reached_us: int,
    announced_us: int,
    expected: list[tuple[int, int]],
) -> None:
    columns = {"at": TYPE, "mark": TYPE}
    frame = pl.DataFrame(rows, {"at": pl.Int64, "mark": pl.Int64}, orient="row").cast(columns)  # type: ignore[arg-type]
    assert find_late_rows(frame, "at", "mark", reached_us, announced_us) == expected


LATE = """
settings: {{parallelism: {parallelism}}}
sources:
  s:
    memory: {{data: in}}
    schema: {{at: timestamp, mark: timestamp, id: bigint}}
    event_time: at
    watermark: {{from: mark}}
steps:
  counts: {{from: s, key: {{k: id % 3}}, aggregate: {{n: count(*)}},
            window: {{tumble: 5s, lateness: {lateness}s, late_to: late}}}}
sinks:
  out: {{from: counts, memory: {{data: out}}}}
  rest: {{from: late, memory: {{data: late}}}}
"""
SECOND = 1_000_000


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.none() | st.integers(0, 60)), min_size=1),
    st.integers(0, 20),
    st.sampled_from([1, 2, 5, 100]),
    st.sampled_from([1, 2]),
    st.integers(0, 99),
)
def test_a_watermark_column_holds_for_all_rows_after_its_own(
    rows: list[tuple[int, int | None]], lateness: int, size: int, parallelism: int, seed: int
) -> None:
    marks = [mark for _, mark in rows]
    late = {
        number
        for number, (at, _) in enumerate(rows)
        if max((m for m in marks[:number] if m is not None), default=-1)
        >= at // 5 * 5 + 5 + lateness
    }
    frame = pl.DataFrame(
        {
            "at": pl.Series([at * SECOND for at, _ in rows]).cast(TYPE),
            "mark": pl.Series([None if m is None else m * SECOND for m in marks], dtype=pl.Int64),
            "id": pl.Series(range(len(rows)), dtype=pl.Int64),
        }
    ).with_columns(pl.col("mark").cast(TYPE))
    memory = InMemoryData({"in": {"0": cut(frame, size)}})
    text = LATE.format(parallelism=parallelism, lateness=lateness)
    with TemporaryDirectory() as folder:
        assert simulated(Path(folder), text, memory, seed).failure is None
    assert {n for part in memory.outputs.get("late", []) for n in part["id"]} == late
