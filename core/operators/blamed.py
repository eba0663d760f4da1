"""A wrapper for operators with user code: errors are attributed to the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.core.blame import blamed
from headrace.core.operators.operator import Operator, Output
from headrace.core.user_code import UserCode, UserCodeError, said, where

if TYPE_CHECKING:
    import polars as pl


class Blamed:
    """A wrapper of another operator that attributes the errors of its user code to the step."""

    def __init__(self, step: str, codes: Sequence[UserCode], operator: Operator) -> None:
        self._step = step
        self._codes = codes
        self._operator = operator
        self.behind_us = operator.behind_us

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows."""
        with self._blamed():
            yield from self._operator.process(frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark."""
        with self._blamed():
            yield from self._operator.advance(watermark_us)

    def due_us(self) -> int | None:
        """Return the wall-clock time of the next tick, if any."""
        return self._operator.due_us()

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        with self._blamed():
            yield from self._operator.tick(now_us)

    def settle(self) -> None:
        """Flush buffered rows to state; this may call user code as well."""
        with self._blamed():
            self._operator.settle()

    @property
    def held(self) -> int:
        """The estimated number of rows that the next advance may work on."""
        return self._operator.held

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        with blamed(self._step):
            try:
                yield
            except (Exception, GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # sys.exit(), or a panic of Polars
                places = [where(error, code.path) for code in self._codes]
                place = next((each for each in places if ":" in each), places[0])
                raise UserCodeError(f"{place}: {said(error)}") from error
