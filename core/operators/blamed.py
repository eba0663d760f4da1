"""A wrapper for operators with user code: errors are attributed to the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.core.blame import attribute_errors_to
from headrace.core.operators.operator import Operator, Output
from headrace.core.user_code import UserCode, UserCodeError, format_error, locate_error

if TYPE_CHECKING:
    import polars as pl


class ErrorAttributingOperator:
    """A wrapper of another operator that attributes the errors of its user code to the step."""

    def __init__(self, step: str, codes: Sequence[UserCode], operator: Operator) -> None:
        self._step = step
        self._codes = codes
        self._operator = operator
        self.watermark_delay_us = operator.watermark_delay_us

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows."""
        with self._attribute_errors():
            yield from self._operator.process(frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark."""
        with self._attribute_errors():
            yield from self._operator.advance(watermark_us)

    def next_tick_us(self) -> int | None:
        """Return the wall-clock time of the next tick, if any."""
        return self._operator.next_tick_us()

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        with self._attribute_errors():
            yield from self._operator.tick(now_us)

    def flush_to_state(self) -> None:
        """Flush buffered rows to state; this may call user code as well."""
        with self._attribute_errors():
            self._operator.flush_to_state()

    @property
    def pending_rows(self) -> int:
        """The estimated number of rows that the next advance may work on."""
        return self._operator.pending_rows

    @contextmanager
    def _attribute_errors(self) -> Iterator[None]:
        with attribute_errors_to(self._step):
            try:
                yield
            except (Exception, GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # sys.exit(), or a panic of Polars
                places = [locate_error(error, code.path) for code in self._codes]
                place = next((each for each in places if ":" in each), places[0])
                raise UserCodeError(f"{place}: {format_error(error)}") from error
