"""Common parts of trials: the input rows, and their times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace import Row

ROWS = {"k": "string", "v": "bigint", "at": "timestamp"}
START = datetime(2026, 1, 31, 8, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Payment(Row):
    k: str
    v: int
