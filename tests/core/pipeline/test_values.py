"""The readings of durations, sizes, counts, rates, numbers and words."""

from datetime import timedelta

import pytest

from headrace.core.pipeline.diagnostics import InvalidValue
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    MAX_COUNT,
    FieldReading,
    Rate,
    choice_of,
    column,
    count,
    decimal_number,
    duration,
    flag,
    name,
    rate,
    size,
    stream,
    whole_number,
)


def refused(reading: FieldReading, text: str) -> str:
    """Return the wanted value and the hint of the error."""
    with pytest.raises(InvalidValue) as caught:
        reading.read(Text(text))
    (complaint,) = caught.value.problems
    return f"{complaint.wanted or complaint.message} [{complaint.hint}]"


@pytest.mark.parametrize(
    ("reading", "text", "value"),
    [
        (duration, "250ms", timedelta(milliseconds=250)),
        (duration, "10s", timedelta(seconds=10)),
        (duration, "5m", timedelta(minutes=5)),
        (duration, "1h", timedelta(hours=1)),
        (duration, "7d", timedelta(days=7)),
        (duration, "0ms", timedelta()),
        (size, "1B", 1),
        (size, "64KB", 65_536),
        (size, "256MB", 268_435_456),
        (size, "2GB", 2_147_483_648),
        (count, "10", 10),
        (count, "10k", 10_000),
        (count, "1M", 1_000_000),
        (count, str(MAX_COUNT)[:18], int(str(MAX_COUNT)[:18])),
        (rate, "10000/s", Rate(10_000, timedelta(seconds=1))),
        (rate, "1M/h", Rate(1_000_000, timedelta(hours=1))),
        (whole_number(1, 9), "9", 9),
        (whole_number(0), "+7", 7),
        (decimal_number(0, 1), "0.25", 0.25),
        (decimal_number(0), "1e3", 1000.0),
        (flag, "True", True),
        (flag, "false", False),
        (choice_of("a", "b"), "b", "b"),
        (name, "bid-totals_2", "bid-totals_2"),
        (stream, "split.big", "split.big"),
        (column, "my column.x", "my column.x"),
    ],
)
def test_a_value_is_read(reading: FieldReading, text: str, value: object) -> None:
    assert reading.read(Text(text)) == value


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("10", "add a unit: 10ms, 10s, 10m, 10h or 10d"),
        ("10 s", 'did you mean "10s"?'),
        ("10S", 'did you mean "10s"?'),
        ("5min", 'did you mean "5m"?'),
        ("2 Hours", 'did you mean "2h"?'),
        ("1h30m", "units are ms, s, m, h and d"),
        ("1.5s", "units are ms, s, m, h and d"),
        ("-1s", "units are ms, s, m, h and d"),
        ("1w", "units are ms, s, m, h and d"),
        ("", "units are ms, s, m, h and d"),
        ("\u0661s", "units are ms, s, m, h and d"),
        ("1" * 30, ""),
    ],
)
def test_a_wrong_duration_is_mended(text: str, hint: str) -> None:
    assert refused(duration, text) == f"a duration such as 10s [{hint}]"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("64", "add a unit: 64KB, 64MB or 64GB"),
        ("64kb", 'did you mean "64KB"?'),
        ("64 MiB", 'did you mean "64MB"?'),
        ("2g", 'did you mean "2GB"?'),
        ("0KB", ""),
        ("many", ""),
    ],
)
def test_a_wrong_size_is_mended(text: str, hint: str) -> None:
    assert refused(size, text) == f"a size such as 256MB [{hint}]"


@pytest.mark.parametrize(
    ("reading", "text", "said"),
    [
        (count, "0", "a count such as 1000 or 1M []"),
        (count, "1e6", "a count such as 1000 or 1M []"),
        (count, "9" * 18 + "G", "a count such as 1000 or 1M []"),
        (rate, "100", 'a rate such as 10000/s [did you mean "100/s"?]'),
        (rate, "0/s", "a rate such as 10000/s []"),
        (rate, "10/d", "a rate such as 10000/s []"),
        (whole_number(1, 9), "10", "a whole number from 1 to 9 []"),
        (whole_number(1), "1.0", "a whole number of at least 1 []"),
        (whole_number(1), "\u0661", "a whole number of at least 1 []"),
        (decimal_number(0, 1), "1.1", "a number from 0 to 1 []"),
        (decimal_number(0, 1), "nan", "a number from 0 to 1 []"),
        (decimal_number(1), ".", "a number of at least 1 []"),
        (flag, "yes", 'true or false [did you mean "true"?]'),
        (flag, "0", 'true or false [did you mean "false"?]'),
        (choice_of("a", "bc", "d"), "bcc", 'a, bc or d [did you mean "bc"?]'),
        (choice_of("a", later=("b",)), "b", '"b" is not built yet [there is a]'),
        (choice_of("a", "c", later=("b",)), "b", '"b" is not built yet [there are a or c]'),
        (name, "a" * 101, "a name of at most 100 characters [it has 101]"),
        (stream, "a.b.c", f"{stream.wanted} []"),
        (stream, "a, b", f"{stream.wanted} [several names are a list: [a, b]]"),
        (
            column,
            "__x",
            f"{column.wanted} [names that start with __, and _delete, are reserved]",
        ),
        (column, "a\nb", f"{column.wanted} []"),
    ],
)
def test_a_wrong_value_is_refused(reading: FieldReading, text: str, said: str) -> None:
    assert refused(reading, text) == said


def test_a_secret_is_refused_where_values_are_shown() -> None:
    with pytest.raises(InvalidValue) as caught:
        duration.read(Text("10", secret=True))
    assert "a secret is not allowed here" in caught.value.problems[0].message


def test_a_rate_prints_as_it_is_written() -> None:
    assert str(Rate(500, timedelta(minutes=1))) == "500/m"
    assert Rate(500, timedelta(minutes=1)).per_second == 500 / 60
