"""The course of time in which rows arrive: the wall clock, and the watermarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from headrace.core.testing.reference.rows import TimedRow
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True)
class TimelinePoint:
    """A time of the wall clock at which something happens, in this order: timers, rows, watermark.

    Between two moments only timers fire, each at its time.
    """

    clock_us: int
    watermark_us: int | None = None
    """The watermark that arrives after the rows of this moment."""
    is_resumed: bool = False
    """Whether the job was down since the moment before: timers that were due fire together."""


@dataclass(frozen=True)
class Timeline:
    """The moments of a job, to its end, and the arrival time of each row."""

    moments: Sequence[TimelinePoint]
    arrivals: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    """By source, for each split, the time of the wall clock at which each of its rows arrives."""

    def is_late(self, row: TimedRow) -> bool:
        """Whether a row arrives behind the watermark."""
        before = (m.watermark_us for m in self.moments if m.clock_us < row.clock_us)
        known = [at_us for at_us in before if at_us is not None]
        return row.time is not None and bool(known) and row.time < max(known)


AT_ONCE = Timeline((TimelinePoint(0, MAX_WATERMARK_US),))
"""All rows arrive before the first watermark, which is the last one."""


@dataclass(frozen=True)
class Course:
    """The order in which rows arrive, and which of the results of windows are wanted."""

    in_time: bool = False
    """Whether rows arrive in the order of event time, as in a batch run."""
    every_firing: bool = False
    """Whether the windows of a changelog have a row for each of their firings."""
    timeline: Timeline = AT_ONCE
