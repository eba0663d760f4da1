"""Where a keyed operator stands: what it is given beside its operation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME
from headrace.core.frames import microseconds
from headrace.core.operators.operator import Output
from headrace.core.state import StepState

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Place:
    """A keyed operator's surroundings."""

    stream: str
    """The name under which its rows go out."""
    state: StepState
    now_us: Callable[[], int]
    ordered: bool
    """Whether its rows must carry their place in the order of all rows."""
    read: frozenset[str]
    """The streams that somebody reads."""
    is_first: bool = True
    """Whether it has the first key group: of what all have seen, one has to tell."""

    def in_time(
        self, frame: pl.DataFrame, late_to: str | None
    ) -> Generator[Output, None, pl.DataFrame]:
        """The rows that the clock has not passed; the others came too late, and are left out."""
        times = microseconds(frame[EVENT_TIME])
        least_us = times.min()
        if least_us is None or int(least_us) >= self.state.clock_us:  # type: ignore[arg-type]
            return frame
        late = times < self.state.clock_us
        yield from self.left_out(late_to, frame.filter(late))
        return frame.filter(~late)

    def left_out(self, late_to: str | None, rows: pl.DataFrame) -> Iterator[Output]:
        """Count rows that came too late, and hand them to whoever reads them."""
        self.state.counts.late += rows.height
        if late_to in self.read:
            yield late_to, rows
