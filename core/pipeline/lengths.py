"""Durations of steps: windows, lateness, ttl."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import Reads, Unfit, choice, duration

LONGEST = timedelta(days=1_000_000)
"""Longer than any stream, and short enough that an event time moved by it does not overflow."""


def _moved(text: Text) -> timedelta:
    length = duration.parse(text)
    assert isinstance(length, timedelta)
    if length > LONGEST:
        raise Unfit(wanted=f"a duration of at most {LONGEST.days}d")
    return length


def _length(text: Text) -> timedelta:
    length = _moved(text)
    if not length:
        raise Unfit(wanted="a duration longer than 0s")
    return length


moved = Reads(duration.wanted, _moved, duration.json)
length = Reads(duration.wanted, _length, duration.json)

Length = Annotated[timedelta, length]
Moved = Annotated[timedelta, moved]
Time = Annotated[Literal["event", "processing"], choice("event", "processing")]
