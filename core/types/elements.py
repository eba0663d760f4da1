"""The elements of a stream: batches of rows, and control elements in order between them.

    WatermarkElement  no row with an earlier event time will follow
    Barrier           separates the rows before a checkpoint from those after it
    IdleMarker        this input has no rows for now and does not hold event time back, until its
                      next batch or watermark
    LatencyMarker     the time at which it left its source, for the latency to each sink
    EndOfStream       the last element of a channel
    LoopMarker        separates the rows that a loop had before a wave from those after it

A control element never overtakes a batch. Whether a stream carries facts or a changelog is a
property of the plan; a batch of upserts has the hidden column `_delete`, one of retractions
`__weight`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


MIN_WATERMARK_US = -(1 << 63)


EVENT_TIME = "__time"
"""The hidden column with a row's event time."""


DELETE = "_delete"
"""The hidden column of changelog rows: true if the row's key is deleted."""


SEQUENCE = "__sequence"
"""The hidden column that orders the changes of a key, between the source of a table and a step that
passes over older changes, or places all of them in time."""


WEIGHT = "__weight"
"""The hidden column of rows of a retract stream: the copies that are added; negative: removed."""


ORDER = "__order"
"""The hidden column with a row's position in the order of all rows (`types/row_order`)."""


HIDDEN_COLUMNS = (EVENT_TIME, DELETE, WEIGHT, ORDER, SEQUENCE)
"""The columns that stay with a row, whichever columns a step selects."""


MAX_WATERMARK_US = (1 << 63) - 1
"""The watermark after the last row of a stream that ends: no row can be later."""


@dataclass(frozen=True, slots=True)
class Batch:
    """At least one row, as columns."""

    frame: pl.DataFrame

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.frame.height

    @property
    def bytes(self) -> int:
        """About how much memory the rows take, in bytes."""
        return int(self.frame.estimated_size())


@dataclass(frozen=True, slots=True)
class WatermarkElement:
    """No row with an earlier event time will follow (microseconds since the epoch).

    A strict watermark stays between the rows before and after it. Any other one may arrive after
    rows that were sent later, so that batches can grow.
    """

    at_us: int
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class IdleMarker:
    """No rows for now: event time does not wait for this input."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """All rows before it belong to the checkpoint, all rows after it do not."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """A measurement of the time from a source to a sink. It changes no rows and no event time.

    Unlike all other control elements it takes one channel of an edge, not all.
    """

    source: int
    """The index of the source among the parts of the plan."""
    at_us: int
    """The wall-clock time at which the source took the rows before it."""


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """The end of an input: no element follows.

    If the job is drained, more may follow when it resumes: what was stopped says so to its readers,
    which would else drop their states.
    """

    is_drained: bool = False


@dataclass(frozen=True, slots=True)
class LoopMarker:
    """The marker of a wave that goes round in a loop once.

    Every row that was in the loop when its head sent the marker comes back before the marker does.
    On its way the marker collects what else may bring rows into the loop.
    """

    loop: str
    """The step that is the head of the loop."""
    wave: int
    is_waiting: bool = False
    """Whether a step inside waits for the wall clock, and may emit rows then."""
    is_open: bool = False
    """Whether an input from outside of the loop has not ended."""
    outside_us: int = MAX_WATERMARK_US
    """The lowest watermark of inputs from outside of the loop."""
    ends_round: bool = False
    """Whether all rows of a round over whole tables are before it."""


ControlElement: TypeAlias = (
    WatermarkElement | IdleMarker | LatencyMarker | Barrier | EndOfStream | LoopMarker
)


SEPARATORS = (Barrier, EndOfStream, LoopMarker)
"""The elements that no batch and no watermark of a channel passes, in either direction."""


Element: TypeAlias = Batch | ControlElement
