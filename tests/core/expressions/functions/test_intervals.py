"""Intervals: literals, refusals, and results out of the range of intervals and times.

Values are compared with Spark's in tests/core/spark/cases/intervals.json.
"""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.expressions import ExpressionErrors, to_expr, type_expression
from headrace.core.expressions.typed import Constant
from headrace.core.types.data_types import (
    BIGINT,
    DATE,
    DAY,
    DAY_TIME,
    INT,
    STRING,
    TIMESTAMP,
    Decimal,
    Field,
    Interval,
    Schema,
    Type,
)

SCHEMA = Schema(
    (
        Field("d", DATE),
        Field("t", TIMESTAMP),
        Field("n", INT),
        Field("b", BIGINT),
        Field("q", Decimal(38, 2)),
        Field("s", STRING),
    )
)
SECOND = 10**6
HOUR = 3600 * SECOND
A_DAY = 24 * HOUR


def value(text: str) -> object:
    """Evaluate an expression that reads no column."""
    typed = type_expression(text, SCHEMA)
    return pl.select(to_expr(typed).alias("r"))["r"].to_physical()[0]


@pytest.mark.parametrize(
    ("text", "type", "count"),
    [
        ("interval 1 day", "interval day", A_DAY),
        ("interval '2' WEEKS", "interval day", 14 * A_DAY),
        ("interval -1 day", "interval day", -A_DAY),
        ("interval -'-1' day", "interval day", A_DAY),
        ("interval 24 hours", "interval hour", A_DAY),
        ("interval 1 day 2 hours", "interval day to hour", 26 * HOUR),
        ("interval '-1 day 2 hours'", "interval day to hour", -22 * HOUR),
        ("interval 1.9999999 seconds", "interval second", 1_999_999),
        ("interval -1.9999999 seconds", "interval second", -1_999_999),
        ("interval .5 second", "interval second", SECOND // 2),
        ("interval 3 milliseconds 7 microseconds", "interval second", 3007),
        ("interval '1 2' day to hour", "interval day to hour", 26 * HOUR),
        (
            "interval '-1 02:03:04.5' day to second",
            "interval day to second",
            -(26 * HOUR + 184_500_000),
        ),
        ("interval '100:03' hour to minute", "interval hour to minute", 100 * HOUR + 180 * SECOND),
        ("interval '65:04.123456789' minute to second", "interval minute to second", 3_904_123_456),
        ("interval 1 month", "interval month", 1),
        ("interval 1 year 2 months", "interval year to month", 14),
        ("interval '-1-2' year to month", "interval year to month", -14),
        ("interval '-178956970-8' year to month", "interval year to month", -(2**31)),
        ("interval 9223372036854.775807 seconds", "interval second", 2**63 - 1),
    ],
)
def test_a_literal_is_a_count_of_microseconds_or_months(text: str, type: str, count: int) -> None:
    typed = type_expression(text, SCHEMA)
    assert isinstance(typed, Constant)
    assert (str(typed.type), typed.value) == (type, count)


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("interval 1 month 1 day", "has months, or days and time, but not both", None),
        ("interval 1.5 hours", "only seconds have fractions, got 1.5 hours", "1.5 hours"),
        ("interval 'x' day", 'wanted a number of days, got "x"', "'x' day"),
        ("interval 1 fortnight", 'wanted a unit such as year, month', "1 fortnight"),
        ("interval '1'", 'wanted numbers and units such as "1 day 2 hours"', "'1'"),
        ("interval '1 24' day to hour", "hours must be at most 23 here, got 24", None),
        ("interval '1-12' year to month", "months must be at most 11 here, got 12", None),
        ("interval '1' day to second", 'wanted text such as "1 02:03:04.5"', None),
        ("interval '1 2' hour to day", "there is no interval of hour to day", None),
        ("interval 2147483648 months", "the interval is too long", "2147483648 months"),
        ("interval 106751991 days 1 day", "the interval is too long", None),
    ],
)  # fmt: skip
def test_a_literal_that_is_none_is_refused(text: str, message: str, at: str | None) -> None:
    with pytest.raises(ExpressionErrors) as caught:
        type_expression(text, SCHEMA)
    (error,) = caught.value.errors
    assert message in error.message
    span = text[error.span.start : error.span.end]
    assert span == at or (at is None and span in text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t + 1", "+ does not take timestamp and int"),
        ("t - n", "- does not take timestamp and int"),
        ("1 - d", "- does not take int and date"),
        ("d + b", "a number of days must be an int, got bigint"),
        ("d - 1L", "a number of days must be an int, got bigint"),
        ("d + 1.5", "+ does not take date and decimal(2,1)"),
        ("d + s", "+ wants"),
        ("d - '2024-01-01'", "- wants"),
        ("'2024-01-01' + interval 1 day", "+ wants"),
        ("interval 1 day - d", "- does not take interval day and date"),
        ("interval 1 day + interval 1 month", "+ does not take interval day and"),
        ("interval 1 day < interval 1 month", "cannot compare"),
        ("interval 1 day * interval 1 day", "* does not take interval day and"),
        ("2 / interval 1 day", "/ does not take int and interval day"),
        ("interval 1 day * q", "decimals of up to 18 digits, got decimal(38,2)"),
        ("cast(t - t as double)", "no cast from interval day to second to double"),
    ],
)
def test_what_does_not_go_together_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionErrors) as caught:
        type_expression(text, SCHEMA)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("d + interval 1 day", DATE),
        ("d + interval 1 week", DATE),
        ("d + interval 24 hours", TIMESTAMP),
        ("d + interval 1 day * 1", TIMESTAMP),
        ("d + interval 1 month", DATE),
        ("d + 1", DATE),
        ("t + interval 1 day", TIMESTAMP),
        ("d - d", DAY),
        ("t - d", DAY_TIME),
        ("-interval 1 day", DAY),
        ("interval 1 day + interval 1 hour", Interval("day", "hour")),
        ("d + null", TIMESTAMP),
        ("d - null", DAY),
        ("null + interval 1 day", DAY),
    ],
)
def test_days_make_dates_of_dates_and_all_else_timestamps(text: str, type: Type) -> None:
    assert type_expression(text, SCHEMA).type == type


LAST = "timestamp_micros(9223372036854775807)"


@pytest.mark.parametrize(
    "text",
    [
        f"{LAST} + interval 1 microsecond",
        f"{LAST} - timestamp_micros(-1)",
        f"{LAST} + interval 1 month",
        "timestamp '2024-01-31 00:00:00' - interval 2147483647 months",
        "date '2024-01-31' - interval -2147483648 months",
        "date_from_unix_date(2147483647) + interval 1 hour",
        "date_from_unix_date(2147483647) - date_from_unix_date(0)",
        "interval 2147483647 months + interval 1 month",
        "interval '106751991 04:00:54.775807' day to second + interval 1 microsecond",
        "-interval '-106751991 04:00:54.775808' day to second",
        "-interval -2147483648 months",
        "interval 1 day * 9223372036854775807",
        "interval 1 month * 2147483648",
        "interval 1 day * cast('NaN' as double)",
        "interval 1 day * 1e300",
        "interval 1 day / 0",
        "interval 1 day / 0.0",
        "interval 1 month / 0e0",
        "interval '-106751991 04:00:54.775808' day to second / -1",
    ],
)
def test_what_is_out_of_range_is_null(text: str) -> None:
    assert value(text) is None


def test_days_wrap_around_where_their_int_ends() -> None:
    assert value("date_from_unix_date(2147483647) + interval 1 day") == -(2**31)
    assert value("date_from_unix_date(-2147483648) - 1") == 2**31 - 1


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("interval 7 microseconds / 2", 4),
        ("interval -7 microseconds / 2", -4),
        ("interval 7 microseconds / 2e0", 4),
        ("interval 1 microsecond * 0.5", 1),
        ("interval -1 microsecond * 0.5", -1),
        ("interval 1 microsecond * 0.49", 0),
        ("interval 2 microseconds * 1.25", 3),
    ],
)
def test_fractions_of_microseconds_are_rounded_away_from_zero(text: str, micros: int) -> None:
    assert value(text) == micros


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extract(hour from interval 3 days)", "date_part finds no hour in interval day"),
        ("extract(day from interval 3 months)", "date_part finds no day in interval month"),
        ("cast(interval 1 month as interval day)", "no cast from interval month to interval day"),
        ("cast(t as interval day)", "no cast from timestamp to interval day"),
        ("cast(n as interval day to year)", "wanted hour or minute or second"),
        ("interval 1 day div interval 1 month", "div"),
        ("time '12:00:00' + interval 1 month", "+ does not take time(6) and interval month"),
    ],
)
def test_fields_and_kinds_of_intervals_are_kept_apart(text: str, message: str) -> None:
    with pytest.raises(ExpressionErrors) as caught:
        type_expression(text, SCHEMA)
    assert message in caught.value.errors[0].message


@pytest.mark.parametrize(
    "text",
    [
        "cast('1 25:00:00' as interval day to second)",
        "cast('3 days' as interval day)",
        "cast('1-12' as interval year to month)",
        "cast(2147483648 as interval month)",
        "cast(178956971 as interval year)",
        "cast(9223372036854775807 as interval hour)",
        "cast(interval 200 hours as tinyint)",
        "make_ym_interval(178956970, 8)",
        "time '23:30:00' + interval 1 hour",
        "time '00:30:00' - interval 1 hour",
        "interval 1 year div interval 0 month",
        "abs(interval '-178956970-8' year to month)",
    ],
)
def test_what_spark_fails_at_is_null(text: str) -> None:
    assert value(text) is None
