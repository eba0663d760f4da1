"""The size of the state that an aggregate keeps of a group: of a fixed number of bytes, or growing.

Tests: tests/core/plan/test_states.py.
"""

from __future__ import annotations

from typing import Literal

from headrace.core.aggregates.calls import AggregateCall
from headrace.core.types.data_types import Array
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.row_order import ORDER_TYPE
from headrace.core.types.value_sizes import count_bytes, has_lists, has_texts


@dataclass(frozen=True, slots=True)
class AggregateSize:
    """The size of the state of a call for a group, as far as types tell it."""

    call: str
    bytes: int
    """The bytes of its state, or of each entry of the list in it, without those of values."""
    has_values: bool
    """Whether values of any length, such as texts, are added to the bytes."""
    entries: Literal["values", "distinct values"] | int | None
    """The entries of the list in its state, as in `Accumulator`."""

    def __str__(self) -> str:
        if isinstance(self.entries, int):
            size = f"at most {self.entries * self.bytes:,} bytes"
            return f"{self.call} {size}" + (f" and {self.entries:,} values" * self.has_values)
        size = f"{self.bytes:,} bytes" if self.bytes else ""
        size = " and ".join(filter(None, (size, "a value" if self.has_values else "")))
        return f"{self.call} {size}" + (f" for each of its {self.entries}" if self.entries else "")


def measure_aggregate(call: AggregateCall) -> AggregateSize:
    """Return the size of the state of a call."""
    types = [*call.state_types(ORDER_TYPE).values()]
    if call.accumulator.entries is not None:
        types = [each.element if isinstance(each, Array) else each for each in types]
    return AggregateSize(
        call.name.removeprefix("__"),
        sum(map(count_bytes, types)),
        any(has_lists(type) or has_texts(type) for type in types),
        call.accumulator.entries,
    )
