"""The base of joins that process the rows of both sides in the same way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.operator import Output

if TYPE_CHECKING:
    import polars as pl


class SymmetricJoin(ABC):
    """An operator that processes the rows of both sides in the same way."""

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process left rows."""
        return self._process_side(LEFT, frame)

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process right rows."""
        return self._process_side(RIGHT, frame)

    @abstractmethod
    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows of a side."""
