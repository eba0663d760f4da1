"""The window of a step: its shape, its trigger and its evictor.

All times are in microseconds. Windows of time are half-open and aligned to the epoch, shifted by
`offset`; two events exactly a session's gap apart are in the same session.
"""

from __future__ import annotations

from typing import TypeAlias

from headrace.core.api.user_code import UserCode
from headrace.core.types.data_types import Schema, Type
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Tumble:
    """Adjacent windows of a fixed size."""

    size_us: int
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class Slide:
    """Windows of a fixed size, beginning at an interval; one longer than the size leaves gaps."""

    size_us: int
    every_us: int
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class Cumulate:
    """Windows with the same start and growing ends, one interval apart, up to the size."""

    size_us: int
    every_us: int
    offset_us: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """One window per key for events that are at most the gap apart."""

    gap_us: int


@dataclass(frozen=True, slots=True)
class Count:
    """Windows of a number of rows of a key, by arrival; one begins every number of rows."""

    rows: int
    every: int


@dataclass(frozen=True, slots=True)
class Global:
    """One window for all rows of a key; it fires at the end of the input, and by its trigger."""


WindowShape: TypeAlias = Tumble | Slide | Cumulate | Session | Count | Global


@dataclass(frozen=True, slots=True)
class Trigger:
    """The condition on which a window fires before its end: an interval, a count, or user code."""

    every_us: int | None = None
    count: int | None = None
    uses_processing_time: bool = False
    """Whether `every` is by the wall clock."""
    code: UserCode | None = None
    """A user-defined class that decides."""
    input_columns: Schema | None = None
    """The columns that are passed to it."""
    state: Schema | None = None
    """The columns of its state per key and window, with those of its timers."""
    timers: tuple[tuple[str, bool], ...] = ()
    """The names of its timers, and whether each is by the wall clock."""
    fires_at_end: bool = True
    """Whether a window also fires at its end."""

    @property
    def uses_wall_clock(self) -> bool:
        """Whether it fires by the wall clock, at intervals or by a timer."""
        return self.uses_processing_time or any(by_clock for _, by_clock in self.timers)

    @property
    def depends_on_rows(self) -> bool:
        """Whether it depends on the rows of each window, and not on time."""
        return self.count is not None or self.code is not None


@dataclass(frozen=True, slots=True)
class Evict:
    """The selection of the rows of a window that are used when it fires."""

    last: int | None = None
    within_us: int | None = None
    code: UserCode | None = None
    """A user-defined function that selects them."""
    input_columns: Schema | None = None
    """The columns that are passed to it."""


@dataclass(frozen=True, slots=True)
class Window:
    """The clause `window`."""

    shape: WindowShape
    lateness_us: int = 0
    late_to: str | None = None
    uses_processing_time: bool = False
    """Whether a row's time is its arrival by the wall clock."""
    trigger: Trigger | None = None
    keeps_rows: bool = True
    """Whether a window that fired keeps its rows for its next firing."""
    evict: Evict | None = None

    @property
    def has_bounds(self) -> bool:
        """Whether its windows have a start and an end, which are then columns of its rows."""
        return not isinstance(self.shape, Count | Global)

    @property
    def evictor_columns(self) -> dict[str, Type]:
        """The columns of stored rows that are passed to a user-defined evictor."""
        columns = self.evict.input_columns if self.evict and self.evict.input_columns else ()
        return {field.name: field.type for field in columns}

    @property
    def trigger_columns(self) -> frozenset[str]:
        """The columns of arriving rows that are passed to a user-defined trigger."""
        of = self.trigger.input_columns if self.trigger else None
        return frozenset(of.names if of else ())

    @property
    def fires_at_end(self) -> bool:
        """Whether a window fires at its end."""
        return self.trigger is None or self.trigger.fires_at_end

    @property
    def can_fire_again(self) -> bool:
        """Whether a window's row may be replaced by a later one."""
        return self.keeps_rows and (self.lateness_us > 0 or self.trigger is not None)


@dataclass(frozen=True, slots=True)
class Ttl:
    """The time for which the state of a key is stored after its last row."""

    after_us: int
    uses_processing_time: bool = False
