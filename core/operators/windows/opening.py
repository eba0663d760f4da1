"""An operator that is created with the first rows, because it stores all their columns.

If rows were restored it is created at once: their columns are known, and time may reach the end of
their windows before new rows arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.operators.kept import get_row_types
from headrace.core.operators.operator import Operator, Output
from headrace.core.state import StepState

if TYPE_CHECKING:
    import polars as pl

OperatorFactory: TypeAlias = "Callable[[Mapping[str, pl.DataType]], Operator]"


class LazyWindowOperator:
    """A wrapper of a window operator that is created with its first rows."""

    def __init__(
        self,
        make: OperatorFactory,
        state: StepState,
        kept: str,
        *,
        by_event: bool,
        watermark_delay_us: int,
    ) -> None:
        """`make` takes the types of the columns; `kept` is the name of the state with the rows.

        `by_event`: whether the clock is the watermark.
        """
        self._make = make
        self._state = state
        self._by_event = by_event
        columns = state.get_restored_columns(kept)
        self._operator = None if columns is None else make(get_row_types(columns))
        self.watermark_delay_us = watermark_delay_us

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows; the first ones create the operator."""
        if self._operator is None:
            if not frame.height:
                return
            self._operator = self._make(frame.schema)
        yield from self._operator.process(frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark; without rows, only the clock changes."""
        if self._operator is not None:
            yield from self._operator.advance(watermark_us)
        elif self._by_event:
            self._state.clock_us = max(self._state.clock_us, watermark_us)

    def next_tick_us(self) -> int | None:
        """Return the operator's next tick; None before there are rows."""
        return None if self._operator is None else self._operator.next_tick_us()

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        return iter(()) if self._operator is None else self._operator.tick(now_us)

    def flush_to_state(self) -> None:
        """Flush buffered rows to the state."""
        if self._operator is not None:
            self._operator.flush_to_state()

    @property
    def pending_rows(self) -> int:
        """The number of pending rows."""
        return 0 if self._operator is None else self._operator.pending_rows
