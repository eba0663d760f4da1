"""Durations of steps: windows, lateness, ttl."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import InvalidScalar, ScalarReading, choice_of, duration

MAX_DURATION = timedelta(days=1_000_000)
"""Longer than any stream, and short enough that an event time moved by it does not overflow."""


def _parse_bounded_duration(text: Text) -> timedelta:
    length = duration.parse(text)
    assert isinstance(length, timedelta)
    if length > MAX_DURATION:
        raise InvalidScalar(wanted=f"a duration of at most {MAX_DURATION.days}d")
    return length


def _parse_nonzero_duration(text: Text) -> timedelta:
    length = _parse_bounded_duration(text)
    if not length:
        raise InvalidScalar(wanted="a duration longer than 0s")
    return length


bounded_duration = ScalarReading(duration.wanted, _parse_bounded_duration, duration.json)
nonzero_duration = ScalarReading(duration.wanted, _parse_nonzero_duration, duration.json)

NonzeroDuration = Annotated[timedelta, nonzero_duration]
BoundedDuration = Annotated[timedelta, bounded_duration]
TimeDomain = Annotated[Literal["event", "processing"], choice_of("event", "processing")]
