"""The window of a step: which rows it puts together, when it fires, and what it keeps.

All times are microseconds. Windows of time are half-open and stand in a grid from the epoch, moved
by `offset`; two events exactly a session's gap apart share the session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.types import Schema, Type
from headrace.core.user_code import UserCode


@dataclass(frozen=True, slots=True)
class Tumble:
    """Windows of a size, one beside the other."""

    size_us: int
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class Slide:
    """Windows of a size, one beginning every so often; longer than the size leaves gaps."""

    size_us: int
    every_us: int
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class Cumulate:
    """Windows that begin together and end one step after the other, up to the size."""

    size_us: int
    every_us: int
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """A window a key that goes on while events come at most the gap apart."""

    gap_us: int


@dataclass(frozen=True, slots=True)
class Count:
    """So many rows of a key, in the order in which they come; a new one every so many rows."""

    rows: int
    every: int


@dataclass(frozen=True, slots=True)
class Global:
    """One window for all rows of a key; it fires at the end, and when a trigger says so."""


Shape: TypeAlias = Tumble | Slide | Cumulate | Session | Count | Global


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a window fires before its end: every so often, or after so many rows of a key."""

    every_us: int | None = None
    count: int | None = None
    processing: bool = False
    """Whether `every` is of the wall clock."""
    code: UserCode | None = None
    """A user's class that says when."""
    of: Schema | None = None
    """The columns of rows that it is handed."""
    state: Schema | None = None
    """What it keeps of a key and window."""

    @property
    def looks_at_rows(self) -> bool:
        """Whether it goes by the rows of each window, and not by time."""
        return self.count is not None or self.code is not None


@dataclass(frozen=True, slots=True)
class Evict:
    """Which rows of a key in a window are seen when it fires: the last, or those near the last."""

    last: int | None = None
    within_us: int | None = None
    code: UserCode | None = None
    """A user's function that says which."""
    of: Schema | None = None
    """The columns that it is handed."""


@dataclass(frozen=True, slots=True)
class Window:
    """All that stands under `window:`."""

    shape: Shape
    lateness_us: int = 0
    late_to: str | None = None
    processing: bool = False
    """Whether rows belong to the time at which they come."""
    trigger: Trigger | None = None
    accumulate: bool = True
    """Whether a window that fired keeps its rows for the next time it fires."""
    evict: Evict | None = None

    @property
    def bounded(self) -> bool:
        """Whether its windows have a start and an end, which its rows then show."""
        return not isinstance(self.shape, Count | Global)

    @property
    def handed(self) -> dict[str, Type]:
        """The columns that a user's evictor sees, of rows that are kept."""
        columns = self.evict.of if self.evict and self.evict.of else ()
        return {field.name: field.type for field in columns}

    @property
    def watched(self) -> frozenset[str]:
        """The columns that a user's trigger sees, of rows that come."""
        of = self.trigger.of if self.trigger else None
        return frozenset(of.names if of else ())

    @property
    def fires_again(self) -> bool:
        """Whether a window's row may be replaced by a later one."""
        return self.accumulate and (self.lateness_us > 0 or self.trigger is not None)


@dataclass(frozen=True, slots=True)
class Ttl:
    """How long a key is remembered after its last row, in event time or by the wall clock."""

    after_us: int
    processing: bool = False
