"""Until when a row may meet others, and how long it is kept: the arithmetic of `within`.

A pair is from `least` to `most` apart, seen from the left row. So a left row can meet rows to come
until the clock is later than its time and `most`, a right one until it is later than its time less
`least`; whether a row met any is known then, and not before. That is found out by asking the other
side's rows, which are therefore kept for as long as some row that they may have met is undecided.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.elements import FOREVER_US
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.plan.nodes import JoinType
from headrace.core.state import NO_CLOCK_US


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the two sides of a join come to, given its bounds and its type."""

    least_us: int
    most_us: int
    type: JoinType

    def near(self, which: int) -> tuple[int, int]:
        """The time of a row that is met less that of one of this side."""
        if which == LEFT:
            return self.least_us, self.most_us
        return -self.most_us, -self.least_us

    def open_us(self, which: int) -> int:
        """For how long a row of this side may meet rows to come."""
        return self.near(which)[1]

    def kept_us(self, which: int) -> int:
        """For how long a row of this side is kept."""
        open_us = self.open_us(which)
        return max(open_us, self.most_us - self.least_us) if self.asks(1 - which) else open_us

    def asks(self, which: int) -> bool:
        """Whether it matters of the rows of this side if they met any before."""
        return goes_alone(self.type, which) or (self.type == "semi" and which == LEFT)

    @property
    def behind_us(self) -> int:
        """How old a row may be when it goes out alone."""
        return max([0, *(self.open_us(which) for which in (LEFT, RIGHT) if self.asks(which))])


def goes_alone(type: JoinType, which: int) -> bool:
    """Whether rows of this side go out that met none."""
    return type in (("left", "full", "anti") if which == LEFT else ("right", "full"))


def before(clock_us: int, for_us: int) -> int:
    """The last time that is over when the clock is there, of what lasts for so long."""
    if clock_us in (NO_CLOCK_US, FOREVER_US):
        return clock_us
    return max(clock_us - for_us - 1, NO_CLOCK_US)
