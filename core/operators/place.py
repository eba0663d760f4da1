"""The context in which a keyed operator runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME
from headrace.core.frames import to_integers
from headrace.core.operators.operator import Output
from headrace.core.state import StepState

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class KeyedContext:
    """A keyed operator's stream, state and clock."""

    stream: str
    """The name of the operator's output stream."""
    state: StepState
    now_us: Callable[[], int]
    is_ordered: bool
    """Whether output rows must carry their position in the row order."""
    read_streams: frozenset[str]
    """The streams that have a reader."""
    is_first: bool = True
    """Whether this subtask has the first key group: it alone reports shared events."""

    def drop_late_rows(
        self, frame: pl.DataFrame, late_to: str | None
    ) -> Generator[Output, None, pl.DataFrame]:
        """Return the rows that are not older than the clock; count and emit the others as late."""
        times = to_integers(frame[EVENT_TIME])
        least_us = times.min()
        if least_us is None or int(least_us) >= self.state.clock_us:  # type: ignore[arg-type]
            return frame
        late = times < self.state.clock_us
        yield from self.emit_late_rows(late_to, frame.filter(late))
        return frame.filter(~late)

    def emit_late_rows(self, late_to: str | None, rows: pl.DataFrame) -> Iterator[Output]:
        """Count late rows, and emit them if their stream has a reader."""
        self.state.counters.late += rows.height
        if late_to in self.read_streams:
            yield late_to, rows
