"""The rows before and after a row that the columns of `over` look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.core.plan.nodes import Over
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.over_calls import OverCall

UNBOUNDED_DELAY_US = 1 << 62


@dataclass(frozen=True, slots=True)
class RowReach:
    """The numbers of rows, and the times, that are looked at before and after a row."""

    rows_before: int
    us_before: int
    rows_after: int
    us_after: int
    ttl_us: int | None

    @property
    def looks_back(self) -> bool:
        """Whether single rows before a row are looked at."""
        return self.rows_before > 0 or self.us_before > 0

    @property
    def follows(self) -> bool:
        """Whether a row waits for rows after it."""
        return self.rows_after > 0 or self.us_after > 0

    @property
    def is_endless(self) -> bool:
        """Whether a row may wait for the next one for as long as it takes."""
        return self.rows_after > 0 and self.ttl_us is None

    @property
    def watermark_delay_us(self) -> int:
        """The largest distance by which a row may be older than the watermark when it leaves."""
        if self.is_endless:
            return UNBOUNDED_DELAY_US
        return max(self.rows_after * (self.ttl_us or 0), self.us_after)


def measure_reach(operation: Over) -> RowReach:
    """Return the reach of the columns of an operation."""
    ttl = operation.ttl
    calls = [call for column in operation.columns for call in column.expression.calls]
    bounds = {"rows": [0], "range": [0]}
    for unit, bound in _list_bounds(calls):
        bounds[unit].append(bound)
    return RowReach(
        -min(bounds["rows"]),
        -min(bounds["range"]),
        max(bounds["rows"]),
        max(bounds["range"]),
        None if ttl is None else ttl.after_us,
    )


def _list_bounds(calls: Iterable[OverCall]) -> Iterable[tuple[str, int]]:
    # Loading all aggregates takes time, which a pipeline without aggregates need not spend.
    from headrace.core.aggregates.over_calls import FrameCall, OffsetCall

    for call in calls:
        match call:
            case OffsetCall(offset=offset):
                yield "rows", offset
            case FrameCall(frame=frame):
                yield frame.unit, frame.end
                if frame.start is not None:
                    yield frame.unit, frame.start
