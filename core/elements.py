"""What travels on a channel: batches of rows, and four kinds of mark between them.

Marks keep their place among the batches. A watermark W says that no row with a time before W is to
come; a barrier parts the rows before a checkpoint from those after it; idle says that an input has
nothing for now and must not hold time back, until its next batch or watermark; the end is the last
element of its channel. Whether a stream's batches are facts or changes is in the plan, not in the
batch: a batch of changes has the hidden column `_delete`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import polars as pl

EVENT_TIME = "__time"
"""The hidden column that carries a row's event time."""

DELETE = "_delete"
"""The hidden column of a batch of changes: true where the row's key is deleted."""

ORDER = "__order"
"""The hidden column that places a row among all rows: event time, source, split, place in it."""

HIDDEN = (EVENT_TIME, DELETE, ORDER)
"""The columns that travel with a row whatever a step selects."""

FOREVER_US = (1 << 63) - 1
"""The watermark behind the last row of a stream that ends."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One row or more, as columns."""

    frame: pl.DataFrame

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.frame.height

    @property
    def bytes(self) -> int:
        """About how much memory the rows take."""
        return int(self.frame.estimated_size())


@dataclass(frozen=True, slots=True)
class Watermark:
    """No row with an earlier time than this is to come (microseconds since the epoch)."""

    at_us: int


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing comes for now, and time need not wait."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Everything before this belongs to the checkpoint, everything behind it does not."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class End:
    """Nothing comes any more."""


Mark: TypeAlias = Watermark | Idle | Barrier | End
Element: TypeAlias = Batch | Mark
