"""A heap of the timers of cells, by their times.

The heap is an index: the time that a timer is set to is in its cell. A timer that is set to a later
time keeps its entry, which moves when it comes up, so a timer renewed by each row costs nothing.
Entries of deleted timers, and of timers that have fired, are dropped when they come up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, TypeAlias

Cell: TypeAlias = Any

NEVER_US = 1 << 63
"""Later than all times, including MAX_WATERMARK_US."""


class TimerHeap:
    """The timers of one clock; at equal times, those of a key fire in declaration order."""

    __slots__ = ("_heap", "_pushed", "_ranks", "next_us")

    def __init__(self, names: Sequence[str]) -> None:
        self._ranks = {name: rank for rank, name in enumerate(names)}
        self._heap: list[tuple[int, int, int, Cell, str]] = []
        self._pushed = 0
        self.next_us = NEVER_US
        """A time before which no timer is due."""

    def push(self, at_us: int, cell: Cell, name: str) -> None:
        """Add an entry for that time."""
        self._pushed += 1
        heappush(self._heap, (at_us, self._ranks[name], self._pushed, cell, name))
        self.next_us = self._heap[0][0]

    def push_stored(self, at_us: int, cell: Cell, name: str) -> None:
        """Add an entry for a timer from the state."""
        entry = getattr(cell, f"_in_{name}")
        setattr(cell, f"_in_{name}", at_us if entry is None else min(entry, at_us))
        self.push(at_us, cell, name)

    def pop_due(self, before_us: int) -> Iterator[tuple[int, Cell, str]]:
        """Remove and return the timers due before a time; more may be set meanwhile."""
        while self.next_us < before_us:
            at_us, _, _, cell, name = heappop(self._heap)
            self.next_us = self._heap[0][0] if self._heap else NEVER_US
            if getattr(cell, f"_in_{name}") == at_us:
                setattr(cell, f"_in_{name}", None)
            set_us = getattr(cell, f"_at_{name}")
            if set_us is None:
                continue
            if set_us <= at_us:
                setattr(cell, f"_at_{name}", None)
                yield at_us, cell, name
            elif getattr(cell, f"_in_{name}") is None:
                setattr(cell, f"_in_{name}", set_us)
                self.push(set_us, cell, name)

    def __len__(self) -> int:
        return len(self._heap)

    def drain(self) -> Iterator[tuple[int, Cell, str]]:
        """Empty the heap, and return all timers that are set, each once, with their times."""
        taken, self._heap, self.next_us = self._heap, [], NEVER_US
        seen: set[tuple[int, str]] = set()
        for *_, cell, name in taken:
            set_us = getattr(cell, f"_at_{name}")
            setattr(cell, f"_in_{name}", set_us)
            if set_us is not None and (id(cell), name) not in seen:
                seen.add((id(cell), name))
                yield set_us, cell, name
