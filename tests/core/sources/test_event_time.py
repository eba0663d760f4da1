"""The watermark that rows imply: the highest time less a delay, a column, a user's function."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.api.user_code import UserCodeError
from headrace.core.plan import nodes
from headrace.core.sources.event_time import (
    WatermarkExtractor,
    build_watermark_extractor,
    find_max_us,
    to_microseconds,
)
from headrace.core.types.elements import MAX_WATERMARK_US, MIN_WATERMARK_US
from tests.support.runtime.memory_pipelines import plan_of

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
