"""Whose state it is: which key groups of a step a subtask owns, and what their state begins with.

After a restart that is what several subtasks had before, with clocks that may differ; what is owned
is divided then, so that every state has one clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headrace.core.elements import FOREVER_US
from headrace.core.state import NO_CLOCK_US, Counts, Frozen


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose state it is: a subtask of a step, the key groups it owns of how many."""

    step: str
    subtask: int
    groups: range
    key_groups: int
    restored: tuple[Frozen, ...] = field(default=())
    """What the state begins with: of these, the owned key groups. Their clocks are the same."""

    def holds(self, frozen: Frozen) -> bool:
        """Whether some of its key groups are owned."""
        return bool(shared(self.groups, frozen.groups))

    @property
    def clock_us(self) -> int:
        """The clock that the state begins with; where time was said to be over, it begins anew."""
        clock_us = max((f.clock_us for f in self.restored if self.holds(f)), default=NO_CLOCK_US)
        return NO_CLOCK_US if clock_us == FOREVER_US else clock_us

    @property
    def least_clock_us(self) -> int:
        """The clock of a step without key, of which all have waited for the slowest."""
        clock_us = min((frozen.clock_us for frozen in self.restored), default=NO_CLOCK_US)
        return NO_CLOCK_US if clock_us == FOREVER_US else clock_us

    @property
    def counts(self) -> Counts:
        """The counts that it begins with: those of a state go to who owns its first key group."""
        counted = [f.counts for f in self.restored if f.groups and f.groups[0] in self.groups]
        return Counts(sum(c.late for c in counted), sum(c.unfilled for c in counted))

    def divided(self) -> tuple[Owner, ...]:
        """An owner for each range of key groups that have one clock, nearly always this one.

        Key groups whose clocks differ cannot share a state: what was too late for one of them is
        still in time for another, and of a window that fired for one nothing may be put out again.
        So each has an operator and a state of its own (`operators/divided`) until the next restart
        finds the clocks even.
        """
        pieces: list[tuple[range, int]] = []
        for frozen in sorted(self.restored, key=lambda f: f.groups.start):
            groups = shared(self.groups, frozen.groups)
            if groups and pieces and pieces[-1][1] == frozen.clock_us:
                groups = range(pieces.pop()[0].start, groups.stop)
            if groups:
                pieces.append((groups, frozen.clock_us))
        if len(pieces) < 2:
            return (self,)
        # Of a subtask that had ended nothing is kept: its groups go to their neighbour.
        starts = [self.groups.start, *(groups.start for groups, _ in pieces[1:])]
        ranges = map(range, starts, [*starts[1:], self.groups.stop])
        return tuple(replace(self, groups=groups) for groups in ranges)


def shared(one: range, other: range) -> range:
    """The key groups that two ranges have both.

    >>> shared(range(0, 5), range(3, 9))
    range(3, 5)
    """
    return range(max(one.start, other.start), min(one.stop, other.stop))
