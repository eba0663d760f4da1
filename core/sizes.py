"""The size of states, as far as it is known without reading them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Size:
    """The approximate size of a state: its rows, its bytes in memory and on disk."""

    rows: int = 0
    bytes: int = 0
    on_disk: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.rows + other.rows, self.bytes + other.bytes, self.on_disk + other.on_disk)


class Sized(Protocol):
    """A state that knows its size."""

    @property
    def size(self) -> Size:
        """The size, available in almost no time and in any thread."""
        ...


def sizes_of(
    states: Mapping[str, Sized], pending: Mapping[str, Callable[[], Size]]
) -> dict[str, Size]:
    """Return the sizes of states, including rows that wait to be added to them."""
    return {
        name: state.size + pending[name]() if name in pending else state.size
        for name, state in states.items()
    }
