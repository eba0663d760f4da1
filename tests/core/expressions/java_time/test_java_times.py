"""Java's date and time patterns: refusals, and the equivalence of fast and slow paths.

Texts are compared with Spark's in tests/core/spark/cases/java_times.json.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from headrace.core.expressions.java_time.pattern import TimePatternError
from headrace.core.expressions.java_time.time_formatter import build_formatter
from headrace.core.expressions.java_time.time_parser import build_parser
from headrace.core.types.data_types import TIMESTAMP, to_polars


def read(pattern: str, texts: Sequence[str | None]) -> list[int | None]:
    """Parse the texts to microseconds."""
    frame = pl.DataFrame({"s": texts}, schema={"s": pl.String})
    return frame.select(build_parser(pattern)(pl.col("s")).to_physical())["s"].to_list()


def written(pattern: str, micros: Sequence[int | None]) -> list[str | None]:
    """Format the times."""
    times = pl.Series("t", micros, dtype=pl.Int64).cast(to_polars(TIMESTAMP))
    return (
        pl.DataFrame([times])
        .select(build_formatter(pattern)(pl.col("t")).alias("r"))["r"]
        .to_list()
    )


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("YYYY", "Y counts weeks, which Spark refuses: use weekofyear(...)"),
        ("MMMMM", "MMMMM is too long: Spark has no narrow names"),
        ("yyyyyyy", "yyyyyyy is too long"),
        ("hhh", "hhh is not supported: h occurs at most 2 times"),
        ("V", "V is not supported: use VV"),
        ("G", "G is not a field that can be formatted or parsed exactly"),
        ("b", "b is not a field that can be formatted or parsed exactly"),
        ("'open", "a quote is not closed"),
        ("yyyy]", "] closes no ["),
        ("{yyyy}", "{ is reserved: write '{' in quotes"),
    ],
)
def test_a_pattern_that_is_none_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(TimePatternError) as caught:
        build_formatter(pattern)
    assert message in str(caught.value)
    with pytest.raises(TimePatternError):
        build_parser(pattern)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("EEE d", "E can be formatted, but Spark does not parse it"),
        ("yyyy z", "z can be formatted, but not parsed: use X to XXX, xx, xxx or Z"),
        ("yyyy-MM-dd x", "x can be formatted, but not parsed"),
        ("'text'", "a pattern for parsing needs a field outside of brackets"),
        ("[yyyy]", "a pattern for parsing needs a field outside of brackets"),
        ("XXX", "a pattern for parsing needs a field outside of brackets"),
        ("yyyy yyyy", "the year occurs twice"),
        ("MM MMM", "MM and MMM cannot be combined"),
        ("HH a", "a and H cannot be combined"),
        ("DDD MM", "MM and D cannot be combined"),
        ("Hm", "a number without a fixed width cannot stand before more digits"),
        ("H[mm]", "a number without a fixed width cannot stand before more digits"),
        ("yyyyMMddHHmmssSSS", "a number without a fixed width cannot stand before more digits"),
        ("SSSmm", "a number without a fixed width cannot stand before more digits"),
        ("H'5'", "a number without a fixed width cannot stand before more digits"),
        ("[yyyy-]MM", "a section in brackets must not begin like what follows it"),
        ("yyyy[-MM][-dd]", "a section in brackets must not begin like what follows it"),
        ("yyyy'É'", '"É" is read in either case, which is not built yet'),
    ],
)
def test_a_pattern_that_cannot_be_read_as_java_does_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(TimePatternError) as caught:
        build_parser(pattern)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "texts", "odd"),
    [
        ("yyyy-MM-dd", ["2024-02-29", "2023-02-29", "0000-01-01", "9999-12-31", None], "2024-1-1"),
        ("yyyyMMdd", ["20240229", "20230229", "20240001", "20241301"], "+120240229"),
        (
            "yyyy-MM-dd HH:mm:ss",
            ["2024-02-29 23:59:59", "2024-02-29 24:00:00", "2024-02-29 23:60:00"],
            "2024-02-29 23:59:60",
        ),
        (
            "dd/MM/yyyy HH:mm:ss.SSS",
            ["29/02/2024 23:59:59.1", "29/02/2024 23:59:59.12", "29/02/2024 23:59:59.123"],
            "29/02/2024 23:59:59.",
        ),
        (
            "yyyy-MM-dd'T'HH:mm",
            ["2024-02-29T23:59", "0001-01-01T00:00"],
            "2024-02-29t23:59",
        ),
        ("yyyy%MM%%dd", ["2024%02%%29"], "2024%02%29"),
    ],
)
def test_a_batch_of_plain_texts_reads_as_one_with_an_odd_text(
    pattern: str, texts: list[str | None], odd: str
) -> None:
    assert read(pattern, [*texts, odd])[:-1] == read(pattern, texts)
    assert [read(pattern, [text])[0] for text in texts] == read(pattern, texts)


@pytest.mark.parametrize(
    "pattern",
    ["yyyy-MM-dd HH:mm:ss", "yy/MM/dd", "'%Y' yyyy", "dd.MM.yyyy SSS 'at' HHmm XXX", "100%yy"],
)
def test_a_batch_of_near_years_is_written_as_one_with_a_far_year(pattern: str) -> None:
    near = [0, 1_725_548_645_012_345, -62_167_219_200_000_000, 253_402_300_799_999_999, None]
    for far in (253_402_300_800_000_000, -62_167_219_200_000_001, 2**63 - 1, -(2**63)):
        assert written(pattern, [*near, far])[:-1] == written(pattern, near)
    assert written(pattern, [None]) == [None]
    assert written(pattern, []) == []


def test_years_of_other_than_four_digits_have_a_sign() -> None:
    micros = [2**63 - 1, -62_167_219_200_000_001, -(2**63)]
    assert written("yyyy", micros) == ["+294247", "-0001", "-290308"]
    assert written("y yy yyy", micros) == ["294247 47 294247", "-1 01 -001", "-290308 08 -290308"]
    texts = ["+294247-01", "-0001-12", "-290307-01", "294247-01", "-0000-01", "+2024-01"]
    assert [year is None for year in read("yyyy-MM", texts)] == [False] * 3 + [True] * 3


def test_missing_fields_are_those_of_1970() -> None:
    hour = 3_600_000_000
    assert read("HH", ["05"]) == [5 * hour]
    assert read("a", ["pm"]) == [12 * hour]
    assert read("h", ["12"]) == [0]
    assert read("MM-dd", ["02-29", "01-02"]) == [None, 24 * hour]
    assert read("HH[:mm]", ["05", "05:30", "05:"]) == [5 * hour, 5 * hour + hour // 2, None]
