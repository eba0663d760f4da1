"""The size of states, as far as it is known without reading them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StateSize:
    """The approximate size of a state: its rows, its bytes in memory and on disk."""

    rows: int = 0
    bytes: int = 0
    disk_bytes: int = 0

    def __add__(self, other: StateSize) -> StateSize:
        return StateSize(
            self.rows + other.rows, self.bytes + other.bytes, self.disk_bytes + other.disk_bytes
        )


class MeasuredState(Protocol):
    """A state that knows its size."""

    @property
    def size(self) -> StateSize:
        """The size, available in almost no time and in any thread."""
        ...


def measure_states(
    states: Mapping[str, MeasuredState], pending: Mapping[str, Callable[[], StateSize]]
) -> dict[str, StateSize]:
    """Return the sizes of states, including rows that wait to be added to them."""
    return {
        name: state.size + pending[name]() if name in pending else state.size
        for name, state in states.items()
    }
