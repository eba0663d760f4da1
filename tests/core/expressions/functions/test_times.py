"""Dates and times: refusals, the ends of their ranges, and the clock.

Values are compared with Spark's in tests/core/spark/cases/times.json; where Spark fails a whole job
because one result is out of range, the value here is NULL.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.expressions import to_expr, type_expression
from headrace.core.expressions.typed import PROCESSING_TIME, ProcessingTime
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Decimal,
    Field,
    Schema,
    Type,
    to_polars,
)
from tests.support.expression_errors import assert_refused

SCHEMA = Schema(
    (
        Field("d", DATE),
        Field("t", TIMESTAMP),
        Field("n", INT),
        Field("b", BIGINT),
        Field("x", DOUBLE),
        Field("q", Decimal(20, 9)),
        Field("s", STRING),
        Field("p", BOOLEAN),
    )
)
INTS = (0, 1, -1, 2**31 - 1, -(2**31), 95_026_236, 95_026_237, -96_465_292, -96_465_293, None)
BIGINTS = (0, 1, -1, 2**63 - 1, -(2**63), 8_210_266_876_800_000_000, 10**15, -(10**15), 7, None)


def frame(**columns: list[object]) -> pl.DataFrame:
    """Build a frame of some columns of the schema."""
    physical: dict[Type, type[pl.DataType]] = {DATE: pl.Int32, TIMESTAMP: pl.Int64}
    made = []
    for name, values in columns.items():
        field = SCHEMA.get(name)
        assert field
        type = to_polars(field.type)
        coded = pl.Series(name, values, dtype=physical.get(field.type) or type)
        made.append(coded.cast(type))
    return pl.DataFrame(made)


def values(text: str, rows: pl.DataFrame) -> list[object]:
    """Evaluate an expression; dates and timestamps are returned as numbers."""
    result = rows.with_columns(to_expr(type_expression(text, SCHEMA)).alias("r"))["r"]
    return result.to_physical().to_list()


def value(text: str) -> object:
    """Evaluate an expression that reads no column."""
    (result,) = values(text, pl.DataFrame({"k": [1]}))
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("date_add(d, '-3')", date(2023, 12, 29)),
        ("date_sub(d, ' -3 ')", date(2024, 1, 4)),
        (r"dateadd(d, '\t+2\n')", date(2024, 1, 3)),
        ("date_add(d, '-0')", date(2024, 1, 1)),
    ],
)
def test_a_number_of_days_may_be_a_text(text: str, expected: date) -> None:
    rows = pl.DataFrame({"d": [date(2024, 1, 1), None]})
    result = rows.select(to_expr(type_expression(text, SCHEMA)).alias("r"))["r"].to_list()
    assert result == [expected, None]


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        ("hour(n)", "hour wants timestamp or a time, got int", "n", "cast(... as timestamp)"),
        ("date_add(d, b)", "a number of days must be an int, got bigint", "b", "cast(... as int)"),
        ("date_add(d, 1.0)", "wants an integer or string, got decimal(2,1)", "1.0", "date_add("),
        ("date_add(d, '1.0')", "must be an int, got '1.0'", "'1.0'", "as in date_add"),
        ("date_sub(d, '2147483648')", "an int, got '2147483648'", "'2147483648'", "as in date_add"),
        ("unix_date(t)", "unix_date wants date, got timestamp", "t", "cast(... as date)"),
        (
            "unix_seconds(d)",
            "unix_seconds wants timestamp or timestamp_ntz, got date",
            "d",
            "cast(... as",
        ),
        ("from_utc_timestamp(t, 'nix')", "'nix' is not a time zone", "'nix'", "written 'Europe/"),
        (
            "to_utc_timestamp(t, 'asia/seoul')",
            "'asia/seoul' is not a",
            "'asia/seoul'",
            "Asia/Seoul",
        ),
        ("make_timestamp(n, n, n, n, n, n, 'utc')", "'utc' is not a time zone", "'utc'", "'UTC'"),
        ("make_timestamp_ltz(d)", "arguments, got 1", "make_timestamp_ltz(d)", ""),
        ("current_timezone(1)", "takes 0 arguments, got 1", "current_timezone(1)", ""),
        ("time_bucket(s, t)", "wants a constant interval", "s", "a column is not allowed"),
        (
            "time_bucket(interval 0 days, t)",
            "the size of a bucket must be longer than 0",
            "interval 0 days",
            "as in interval 15 minutes",
        ),
        ("to_timestamp(p)", "got boolean", "p", ""),
        ("to_date(n)", "no cast from int to date", "to_date(n)", ""),
        ("to_date(s, 'dd/mm/yyyy b')", "b is not a field", "'dd/mm/yyyy b'", "a pattern is"),
        ("date_format(t, 'YYYY-MM-dd')", "Y counts weeks", "'YYYY-MM-dd'", "a pattern is"),
        ("from_unixtime(b, 'yyyy]')", "] closes no [", "'yyyy]'", ""),
        ("timestamp_millis(x)", "timestamp_millis wants an integer, got double", "x", ""),
        ("make_timestamp(1, 2, 3)", "make_timestamp wants a time, got int", "2", ""),
        (
            "extract(epoch from t)",
            'unknown field "epoch"',
            "extract(epoch from t)",
            "as in unix_timestamp(time)",
        ),
        ("extract(secnd from t)", 'unknown field "secnd"', "secnd", 'did you mean "second"'),
        ("date_part('year', n)", "date_part wants a date or timestamp, got int", "n", ""),
        ("date_part(s, t)", "date_part wants the name of a field in quotes", "s", ""),
        (
            "date_part('year')",
            "date_part takes 2 arguments, got 1",
            None,
            "as in date_part('year', time)",
        ),
        ("extract(week from t - t)", "finds no weekofyear in", "extract(week from t - t)", "DAY"),
        ("timestampdiff('DAY', t, t)", "a unit has no quotes here", "'DAY'", "write DAY"),
        (
            "timestampdiff(DAYOFYEAR, t, t)",
            "DAYOFYEAR is not a unit here",
            "DAYOFYEAR",
            "units are",
        ),
        ("months_between(t, t, p)", "wants a constant boolean", "p", ""),
        ("now(1)", "now takes 0 arguments, got 1", "now(1)", ""),
        ("to_unix_timestamp()", "takes 1 to 2 arguments, got 0", "to_unix_timestamp()", ""),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(
    text: str, message: str, at: str | None, hint: str
) -> None:
    assert_refused(text, SCHEMA, message, at or text, hint)


@pytest.mark.parametrize(
    "text",
    [
        "timestamp_seconds(9223372036854775807)",
        "timestamp_seconds(99999999999999999999.1)",
        "timestamp_seconds(1.0000001)",
        "timestamp_seconds(cast('NaN' as double))",
        "timestamp_millis(-9223372036854775808)",
        "add_months(date '2024-01-31', 2147483647)",
        "add_months(date_from_unix_date(2147483647), 1)",
        "make_date(5881580, 7, 12)",
        "make_date(999999999, 1, 1)",
        "make_timestamp(294247, 1, 10, 4, 0, 54.775808)",
        "to_timestamp(date_from_unix_date(2147483647))",
        "hour(date_from_unix_date(-2147483648))",
        "unix_timestamp(date_from_unix_date(106751992))",
        "date_format(date_from_unix_date(2147483647), 'yyyy')",
        "date_trunc('YEAR', timestamp_micros(-9223372036854775808))",
        "date_trunc('HOUR', timestamp_micros(-9223372036854775808))",
        "trunc(date_from_unix_date(-2147483648), 'QUARTER')",
        "timestampadd(MONTH, 9223372036854775807, timestamp '2024-01-31 00:00:00')",
        "timestampadd(WEEK, 9223372036854775807, timestamp '1969-01-31 00:00:00')",
        "timestampadd(YEAR, 292277, timestamp '2024-01-31 00:00:00')",
        "timestampdiff(MICROSECOND, timestamp_micros(-9223372036854775808), timestamp_micros(1))",
        "months_between(date_from_unix_date(2147483647), date '2024-01-01')",
        "months_between(timestamp_micros(-9223372036854775808), date '2024-01-01')",
        "to_timestamp('+294248-01-01', 'yyyy-MM-dd')",
        "to_date('+999999-01-01', 'yyyy-MM-dd')",
        "to_timestamp('9999999999999999999', 'y')",
    ],
)
def test_what_is_out_of_range_is_null(text: str) -> None:
    assert value(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("to_timestamp('+294247-01-10 04:00:54.775807', 'yyyy-MM-dd HH:mm:ss.S')", None),
        ("to_timestamp('+294247-01-10 04:00:54.775807', 'yyyy-MM-dd HH:mm:ss.SSSSSS')", 2**63 - 1),
        ("to_date('-290308-12-22', 'yyyy-MM-dd')", -106_751_991),
        ("timestamp_seconds(9223372036854.775807)", 2**63 - 1),
        ("make_date(5881580, 7, 11)", 2**31 - 1),
        ("make_date(-5877641, 6, 23)", -(2**31)),
        ("year(date_from_unix_date(2147483647))", 5_881_580),
        ("date_add(date '9999-12-31', 2147483647)", 2_932_896 + 2**31 - 1 - 2**32),
    ],
)
def test_the_ends_of_the_ranges_are_reached(text: str, number: int | None) -> None:
    assert value(text) == number


FUNCTIONS = (
    *(f"{part}(date_from_unix_date(n))" for part in ("year", "quarter", "month", "day", "weekday")),
    *(f"{part}(date_from_unix_date(n))" for part in ("dayofweek", "dayofyear", "weekofyear")),
    *(f"{part}(timestamp_micros(b))" for part in ("year", "month", "hour", "second", "last_day")),
    *(f"{f}(date_from_unix_date(n), n)" for f in ("date_add", "date_sub", "add_months")),
    *(f"trunc(date_from_unix_date(n), '{u}')" for u in ("year", "quarter", "month", "week")),
    *(
        f"date_trunc('{u}', timestamp_micros(b))"
        for u in ("year", "quarter", "week", "day", "hour")
    ),
    "datediff(date_from_unix_date(n), d)",
    "next_day(date_from_unix_date(n), 'tue')",
    "make_date(n, n, n)",
    "make_date(n, 2, 29)",
    "make_timestamp(n, 1, 1, 1, 1, 1)",
    "make_timestamp(2024, 1, 1, 1, 1, b)",
    "months_between(timestamp_micros(b), t)",
    "to_timestamp(date_from_unix_date(n))",
    "timestamp_seconds(b)",
    "timestamp_seconds(x)",
    "timestamp_seconds(q)",
    "timestamp_millis(b)",
    "from_unixtime(b)",
    "unix_timestamp(timestamp_micros(b))",
    "extract(yearofweek from date_from_unix_date(n))",
    "extract(second from timestamp_micros(b))",
    "date_format(timestamp_micros(b), 'yyyy-MM-dd HH:mm:ss.SSSSSS')",
    "date_format(timestamp_micros(b), 'y yy D k Q EEE')",
    *(f"timestampadd({u}, b, timestamp_micros(b))" for u in ("SECOND", "WEEK", "MONTH", "YEAR")),
    *(f"timestampdiff({u}, timestamp_micros(b), t)" for u in ("SECOND", "WEEK", "MONTH", "YEAR")),
)


@pytest.mark.parametrize("text", FUNCTIONS)
def test_no_value_fails_a_batch(text: str) -> None:
    rows = frame(
        n=list(INTS),
        b=list(BIGINTS),
        d=[0] * 9 + [None],
        t=list(BIGINTS),
        x=[0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 1e-320, 1.5, None],
        q=["99999999999.999999999", "-99999999999.999999999", "0.000000001", *"1234567"],
    )
    assert len(values(text, rows)) == 10
    for row in rows.iter_slices(1):
        assert len(values(text, row)) == 1


@given(st.dates(), st.integers(-30_000, 30_000))
@settings(max_examples=60, deadline=None)
def test_parts_of_dates_are_those_of_the_calendar(day: date, turns: int) -> None:
    number = (day - date(1970, 1, 1)).days
    year, week, weekday = day.isocalendar()
    for shift, years in ((0, 0), (turns // 2 % 2000 * 146_097, turns // 2 % 2000 * 400)):
        rows = frame(d=[number + shift])
        assert values("year(d)", rows) == [day.year + years]
        assert values("month(d) * 100 + day(d)", rows) == [day.month * 100 + day.day]
        assert values("dayofyear(d)", rows) == [day.timetuple().tm_yday]
        assert values("extract(yearofweek from d)", rows) == [year + years]
        assert values("weekofyear(d) * 10 + weekday(d)", rows) == [week * 10 + weekday - 1]
        assert values("make_date(year(d), month(d), day(d))", rows) == [number + shift]


@given(st.datetimes(min_value=datetime(1, 1, 1)))
@settings(max_examples=60, deadline=None)
def test_a_time_that_is_written_is_read_again(time: datetime) -> None:
    micros = (time - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    for pattern in (
        "yyyy-MM-dd HH:mm:ss.SSSSSS",
        "d MMM y, h:m:s.SSSSSS a",
        "DDD yyyy kk:mm:ss.SSSSSS",
    ):
        text = f"to_timestamp(date_format(t, '{pattern}'), '{pattern}')"
        assert values(text, frame(t=[micros])) == [micros]


def test_the_clock_is_the_processing_time_of_the_batch() -> None:
    now = pl.lit(1_714_979_289_500_000).cast(pl.Datetime("us", "UTC")).alias(PROCESSING_TIME)
    rows = pl.DataFrame({"k": [1, 2]}).with_columns(now)
    assert isinstance(type_expression("now()", SCHEMA), ProcessingTime)
    assert values("current_timestamp()", rows) == [1_714_979_289_500_000] * 2
    assert values("current_date()", rows) == [19_849] * 2
    assert values("curdate()", rows) == [19_849] * 2
    assert values("unix_timestamp()", rows) == [1_714_979_289] * 2


@pytest.mark.parametrize(
    "text",
    [
        "date_format(t, 'yyyy-MM-dd K')",
        "to_timestamp(s, 'yyyy-MM-dd')",
        "to_timestamp(s, 'y-M-d')",
        "add_months(d, n)",
        "make_date(n, n, n)",
        "months_between(t, d)",
        "timestampdiff(YEAR, t, d)",
        "last_day(d)",
    ],
)
def test_slices_and_chunks_are_frames_like_others(text: str) -> None:
    rows = frame(
        d=[19_000, None, 0, 5, 7, -3],
        t=[0, 10**15, None, 1, 2, 3],
        n=[1, 2, 3, None, 5, 2024],
        s=["2024-05-06", "x", None, "2024-2-3", "2024-02-30", "2023-01-01"],
    )
    whole = values(text, rows)
    assert values(text, rows[1:][1:4]) == whole[2:5]
    assert values(text, rows[:2].vstack(rows[2:])) == whole
    assert values(text, rows.filter(pl.lit(False))) == []


def test_texts_without_meaning_in_a_column_make_the_result_null() -> None:
    rows = frame(t=[0, 0, 0, None], s=["nix", "Asia/Tokyo", None, "Asia/Tokyo"])
    assert values("unix_micros(from_utc_timestamp(t, s))", rows) == [
        None,
        32_400_000_000,
        None,
        None,
    ]
    assert values("make_timestamp(1970, 1, 1, 9, 0, 0, s)", rows) == [None, 0, None, 0]
    rows = frame(t=[0, 0, 0], s=["{", "yyyy", None])
    assert values("date_format(t, s)", rows) == [None, "1970", None]
    assert values("to_date('1970', s)", rows) == [None, 0, None]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "+18:00", "-18:00"])
def test_zones_at_the_ends_of_the_range_are_null_or_exact(zone: str) -> None:
    ends: list[object] = [-(2**63), 2**63 - 1, 4_102_444_800_000_000, 64_060_588_800_000_000]
    for name in ("from_utc_timestamp", "to_utc_timestamp"):
        found = values(f"{name}(t, '{zone}')", frame(t=ends))
        assert all(
            not isinstance(end, int)
            or not isinstance(start, int)
            or abs(end - start) <= 18 * 3600 * 10**6
            for start, end in zip(ends, found, strict=True)
        )
        assert [each is None for each in found] in (
            [True, False, False, False],
            [False, True, False, False],
        )


def test_months_are_added_to_a_computed_time_without_a_zone() -> None:
    rows = frame(t=[0, None], n=[1, 1])
    moved = values("cast(t as timestamp_ntz) + interval 1 month * n", rows)
    assert moved == [31 * 86_400_000_000, None]
