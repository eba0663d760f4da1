"""The time arithmetic of `within`: until when a row may find matches, and how long it is stored.

The times of a pair are `least` to `most` apart, seen from the left row. So a left row can match
future rows until the clock is later than its time plus `most`, a right one until it is later than
its time less `least`; only then is it known whether the row had a match. To find out, the stored
rows of the other side are probed, which are therefore stored as long as some row that they may have
matched is undecided.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.elements import MAX_WATERMARK_US
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.plan.nodes import JoinType
from headrace.core.state import NO_CLOCK_US


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """The time bounds of both sides of a join, by its type."""

    least_us: int
    most_us: int
    type: JoinType

    def get_range(self, which: int) -> tuple[int, int]:
        """Return the bounds of a matching row's time less that of a row of this side."""
        if which == LEFT:
            return self.least_us, self.most_us
        return -self.most_us, -self.least_us

    def get_open_us(self, which: int) -> int:
        """Return how long a row of this side may match future rows."""
        return self.get_range(which)[1]

    def get_retention_us(self, which: int) -> int:
        """Return how long a row of this side is stored."""
        open_us = self.get_open_us(which)
        return (
            max(open_us, self.most_us - self.least_us) if self.needs_matches(1 - which) else open_us
        )

    def needs_matches(self, which: int) -> bool:
        """Whether it matters if rows of this side had a match before."""
        return emits_unmatched(self.type, which) or (self.type == "semi" and which == LEFT)

    @property
    def watermark_delay_us(self) -> int:
        """The greatest age of a row that is emitted unmatched."""
        return max(
            [0, *(self.get_open_us(which) for which in (LEFT, RIGHT) if self.needs_matches(which))]
        )


def emits_unmatched(type: JoinType, which: int) -> bool:
    """Whether rows of this side without a match are emitted."""
    return type in (("left", "full", "anti") if which == LEFT else ("right", "full"))


def compute_expired_us(clock_us: int, for_us: int) -> int:
    """Return the latest start time of a period of this length that is over at the clock."""
    if clock_us in (NO_CLOCK_US, MAX_WATERMARK_US):
        return clock_us
    return max(clock_us - for_us - 1, NO_CLOCK_US)
