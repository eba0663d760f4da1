"""What joins have in common that do the same with the rows of either side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.operator import Output

if TYPE_CHECKING:
    import polars as pl


class BothSides(ABC):
    """Takes rows of both sides in one way."""

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Left rows have come."""
        return self._take(LEFT, frame)

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Right rows have come."""
        return self._take(RIGHT, frame)

    @abstractmethod
    def _take(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Rows of that side have come."""
