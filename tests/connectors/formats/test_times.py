"""The forms of dates and instants that are read, and those that are not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.formats import times

EIGHT = 1769846400_000000  # 2026-01-31T08:00:00Z

FORMS: dict[str, int] = {
    "2026-01-31T08:00:00Z": EIGHT,
    "2026-01-31T08:00:00z": EIGHT,
    "2026-01-31t08:00:00Z": EIGHT,
    "2026-01-31 08:00:00Z": EIGHT,
    "2026-01-31T08:00:00": EIGHT,
    "2026-01-31 08:00:00": EIGHT,
    "2026-01-31T08:00": EIGHT,
    "2026-01-31T08:00Z": EIGHT,
    "2026-01-31T10:00:00+02:00": EIGHT,
    "2026-01-31T10:00:00+0200": EIGHT,
    "2026-01-31T10:00:00+02": EIGHT,
    "2026-01-31 10:00+02:00": EIGHT,
    "2026-01-31T02:30:00-05:30": EIGHT,
    "2026-02-01T02:00:00+18:00": EIGHT,
    "2026-01-31T08:00:00-00:00": EIGHT,
    "2026-01-31T08:00:00.5Z": EIGHT + 500_000,
    "2026-01-31T08:00:00.123Z": EIGHT + 123_000,
    "2026-01-31T08:00:00.000001": EIGHT + 1,
    "2026-01-31T08:00:00.123456789Z": EIGHT + 123_456,
    "2026-01-31T08:00:00.9999999999999999Z": EIGHT + 999_999,
    "2026-01-31T10:00:00.25+02:00": EIGHT + 250_000,
    "2026-01-31": EIGHT - 8 * 3600 * 1_000_000,
    "1969-12-31T23:59:59.9999999Z": -1,
    "0001-01-01T00:00:00Z": -62135596800_000000,
    "9999-12-31T23:59:59.999999Z": 253402300799_999999,
    "2024-02-29": 1709164800_000000,
}

NONE_OF_THEM = (
    "",
    "x",
    "2026",
    "2026-01",
    "2026-1-31",
    "2026-01-31T",
    "2026-01-31T8:00:00Z",
    "2026-01-31T08",
    "2026-01-31T24:00:00Z",
    "2026-01-31T08:60:00Z",
    "2026-01-31T08:00:60Z",
    "2026-02-29",
    "2026-13-01T00:00:00Z",
    "2026-00-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "12026-01-31T08:00:00Z",
    "+2026-01-31T08:00:00Z",
    "-2026-01-31T08:00:00Z",
    " 2026-01-31T08:00:00Z",
    "2026-01-31T08:00:00Z ",
    "2026-01-31T08:00:00Z\n",
    "2026-01-31  08:00:00",
    "2026-01-31T08:00:00.Z",
    "2026-01-31T08:00.5Z",
    "2026-01-31T08:00:00,5Z",
    "2026-01-31T08:00:00+2",
    "2026-01-31T08:00:00+19:00",
    "2026-01-31T08:00:00+18:01",
    "2026-01-31T08:00:00+02:60",
    "2026-01-31T08:00:00+02:00:00",
    "2026-01-31T08:00:00 +02:00",
    "2026-01-31Z",
    "2026-01-31T08:00:00 UTC",
    "2026-01-31T08:00:00Europe/Berlin",
    "20260131T080000Z",
    "\N{FULLWIDTH DIGIT TWO}026-01-31",
    "1769846400",
)


@pytest.mark.parametrize("text", [*FORMS, *NONE_OF_THEM])
def test_a_form(text: str) -> None:
    assert micros([text]) == [FORMS.get(text)]


def test_a_text_is_parsed_the_same_in_any_batch() -> None:
    texts = [*FORMS, None, *NONE_OF_THEM]
    assert micros(texts) == [FORMS.get(text or "") for text in texts]


@pytest.mark.parametrize("form", FORMS)
def test_texts_of_one_length_are_what_each_is_alone(form: str) -> None:
    broken = form[:-1] + "x"
    assert micros([None, form, form]) == [None, FORMS[form], FORMS[form]]
    assert micros([form, broken, None]) == [FORMS[form], None, None]


@settings(deadline=None)
@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.sampled_from(("seconds", "milliseconds", "microseconds")),
    st.sampled_from("T "),
    st.one_of(st.none(), st.integers(-18 * 60, 18 * 60)),
)
def test_an_instant_is_what_python_reads(
    local: datetime, precision: str, between: str, east: int | None
) -> None:
    text = local.isoformat(between, precision)
    zone = (
        ""
        if east is None
        else f"{'-' if east < 0 else '+'}{abs(east) // 60:02}:{abs(east) % 60:02}"
    )
    whole = local if precision == "microseconds" else datetime.fromisoformat(text)
    instant = whole.replace(tzinfo=UTC) - timedelta(minutes=east or 0)
    assert micros([text + zone]) == [since_1970(instant)]
    assert micros([text + "Z"]) == [since_1970(whole.replace(tzinfo=UTC))]


def micros(texts: list[str | None]) -> list[int | None]:
    found: list[int | None] = (
        times.parse_timestamp_column(pl.Series(texts, dtype=pl.String)).to_physical().to_list()
    )
    return found


def since_1970(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
