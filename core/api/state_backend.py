"""State backends, and the ownership of state by subtasks.

A subtask owns a range of key groups of each step. After a restart their state comes from several
former subtasks, whose clocks may differ; ownership is then split into ranges of key groups, so that
every state has one clock."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Protocol

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import (
    NO_CLOCK_US,
    Document,
    FrozenState,
    StepCounters,
    StepState,
    add_counters,
)
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass


class StateBackend(Protocol):
    """Opens the states of subtasks, in memory or on disk, and reads stored ones."""

    def open_state(self, owner: StateOwnership) -> StepState:
        """Open the state of a subtask of a step; the caller closes it."""
        ...

    def thaw(self, document: Document, store: SnapshotStore) -> FrozenState:
        """Return the stored state, to be restored by its new owners.

        The state may be read lazily, and in any thread. Raises SnapshotError, and DamagedSnapshot
        in particular.
        """
        ...


@dataclass(frozen=True, slots=True)
class StateOwnership:
    """The key groups that a subtask of a step owns, out of `key_groups`."""

    step: str
    subtask: int
    groups: range
    key_groups: int
    restored_states: tuple[FrozenState, ...] = field(default=())
    """The restored states; the owned key groups of them are the initial state. When a state is
    opened with them, all that overlap have the same clock."""

    def overlaps(self, frozen: FrozenState) -> bool:
        """Whether some key groups of the frozen state are owned."""
        return bool(intersect_ranges(self.groups, frozen.groups))

    @property
    def clock_us(self) -> int:
        """The initial clock; a clock at the end of time, as after a drain, starts from scratch."""
        clock_us = max(
            (f.clock_us for f in self.restored_states if self.overlaps(f)), default=NO_CLOCK_US
        )
        return NO_CLOCK_US if clock_us == MAX_WATERMARK_US else clock_us

    @property
    def least_clock_us(self) -> int:
        """The initial clock of a broadcast join: the least clock of all former subtasks."""
        clock_us = min((frozen.clock_us for frozen in self.restored_states), default=NO_CLOCK_US)
        return NO_CLOCK_US if clock_us == MAX_WATERMARK_US else clock_us

    @property
    def counters(self) -> StepCounters:
        """The initial counters: a state's counters go to the owner of its first key group."""
        return add_counters(
            f.counters for f in self.restored_states if f.groups and f.groups[0] in self.groups
        )

    def split_by_clock(self) -> tuple[StateOwnership, ...]:
        """Split into ranges of key groups with the same clock; nearly always this one alone.

        Key groups whose clocks differ cannot share a state: a row that is late for one of them is
        in time for another, and a window that fired for one must not be emitted again. So each
        range has an operator and a state of its own (`PerClockOperator`), until a restart finds
        their clocks equal.
        """
        pieces: list[tuple[range, int]] = []
        for frozen in sorted(self.restored_states, key=lambda f: f.groups.start):
            groups = intersect_ranges(self.groups, frozen.groups)
            if groups and pieces and pieces[-1][1] == frozen.clock_us:
                groups = range(pieces.pop()[0].start, groups.stop)
            if groups:
                pieces.append((groups, frozen.clock_us))
        if len(pieces) < 2:
            return (self,)
        # A finished subtask left no state: its key groups join the neighbouring range.
        starts = [self.groups.start, *(groups.start for groups, _ in pieces[1:])]
        ranges = map(range, starts, [*starts[1:], self.groups.stop])
        return tuple(replace(self, groups=groups) for groups in ranges)


def intersect_ranges(one: range, other: range) -> range:
    """Return the key groups in both ranges.

    >>> intersect_ranges(range(0, 5), range(3, 9))
    range(3, 5)
    """
    return range(max(one.start, other.start), min(one.stop, other.stop))
