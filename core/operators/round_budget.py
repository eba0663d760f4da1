"""The size of the rows of a round that a step inside of a loop, or the head, may hold in memory.

Tests: tests/core/job/test_table_rounds.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.errors.rendering import format_size
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class RoundBudget:
    """The size of the rows of a round that one subtask of a step holds."""

    step: str
    max_bytes: int
    bytes: int = 0

    def add(self, rows: pl.DataFrame) -> None:
        """Count rows. Raises ConnectorError if there are too many."""
        self.bytes += int(rows.estimated_size())
        if self.bytes > self.max_bytes:
            with attribute_errors_to(self.step):
                raise make_size_error("rows of a round", self.bytes, self.max_bytes)


def make_size_error(what: str, size: int, max_bytes: int) -> ConnectorError:
    """Return the error for tables that are too large for the memory."""
    message = (
        f"the {what} have {format_size(size)} in memory, more than the max_in_loop of "
        f"{format_size(max_bytes)}"
    )
    hint = "raise max_in_loop if there is memory for it; --batch keeps tables on disk"
    return ConnectorError(message, hint, final=True)
