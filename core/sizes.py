"""How much a state is, as far as it is known without counting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Size:
    """About how many rows are kept, what they take in memory, and what on disk."""

    rows: int = 0
    bytes: int = 0
    on_disk: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.rows + other.rows, self.bytes + other.bytes, self.on_disk + other.on_disk)


class Sized(Protocol):
    """What knows its size."""

    @property
    def size(self) -> Size:
        """How much it is; in hardly any time, and in any thread."""
        ...


def sizes_of(
    states: Mapping[str, Sized], beside: Mapping[str, Callable[[], Size]]
) -> dict[str, Size]:
    """The sizes of states, with what waits to be filed in them."""
    return {
        name: state.size + beside[name]() if name in beside else state.size
        for name, state in states.items()
    }
