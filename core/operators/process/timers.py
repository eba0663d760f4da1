"""A heap of the timers of cells, by their times.

The heap is an index: the time that a timer is set to is in its cell. A timer that is set to a later
time keeps its entry, which moves when it comes up, so a timer renewed by each row costs nothing.
Entries of deleted timers, and of timers that have fired, are dropped when they come up.

Timers stored in the state, under the times at which they fire.

They are an index, like the heap: a timer's own value is stored with the other states of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.api.state import SLOT, RunsLayout, SortedRuns, StepState

if TYPE_CHECKING:
    import polars as pl


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
        entries, self._heap, self.next_us = self._heap, [], NEVER_US
        seen: set[tuple[int, str]] = set()
        for *_, cell, name in entries:
            set_us = getattr(cell, f"_at_{name}")
            setattr(cell, f"_in_{name}", set_us)
            if set_us is not None and (id(cell), name) not in seen:
                seen.add((id(cell), name))
                yield set_us, cell, name


TIMER_NAME = "__timer"
"""The column with the name of a timer among those of its key."""


class TimerService:
    """The timers of one clock: those in the heap, and those in the state."""

    def __init__(
        self,
        name: str,
        timers: TimerHeap,
        key: Mapping[str, pl.DataType],
        state: StepState,
        cells: Callable[[pl.DataFrame], list[Any]],
    ) -> None:
        """`cells` returns the cells of keys, given as a frame of the key's columns."""
        import polars as pl

        self.heap = timers
        self._key = dict(key)
        self._cells = cells
        columns = {**key, TIMER_NAME: pl.String()}
        self._runs: SortedRuns = state.open_runs(name, RunsLayout(columns, tuple(key), _skip_merge))

    def __len__(self) -> int:
        return self._runs.rows + len(self.heap)

    @property
    def next_us(self) -> int:
        """A time before which no timer fires."""
        first_slot = self._runs.get_first_slot()
        return self.heap.next_us if first_slot is None else min(self.heap.next_us, first_slot)

    def load_due(self, before_us: int) -> None:
        """Load the timers that fire before that time into the heap."""
        first_slot = self._runs.get_first_slot()
        rows = (
            None
            if first_slot is None or first_slot >= before_us
            else self._runs.take(before_us - 1)
        )
        if rows is not None:
            self._push_entries(rows)

    def _push_entries(self, rows: pl.DataFrame) -> None:
        rows = rows.unique([*self._key, TIMER_NAME, SLOT], maintain_order=True)
        names, slots = rows[TIMER_NAME].to_list(), rows[SLOT].to_list()
        for cell, name, at_us in zip(self._cells(rows), names, slots, strict=True):
            self.heap.push_stored(at_us, cell, name)

    def find_first_timers(self, before_us: int) -> pl.DataFrame | None:
        """Return the first timer of each key that has one before that time; None if none has.

        All timers are in the state. Some may belong to timers deleted since.
        """
        import polars as pl

        first_slot = self._runs.get_first_slot()
        if first_slot is None or first_slot >= before_us:
            return None
        timers = self._runs.read(first_slot - 1, before_us - 1)
        assert timers is not None, "the first slot is in the range"
        return timers.group_by(list(self._key)).agg(pl.col(SLOT).min())

    def load_first_timers(self, before_us: int) -> None:
        """Load the first timers of each key that fire before that time into the heap."""
        import polars as pl

        rows = self._runs.take(before_us - 1)
        assert rows is not None, "there are timers before that time"
        first = pl.col(SLOT) == pl.col(SLOT).min().over(list(self._key))
        self._runs.add(rows.filter(~first))
        self._push_entries(rows.filter(first))

    def set_timers(self, keys: pl.DataFrame, name: str, at_us: pl.Series) -> None:
        """Store timers of that name for many keys."""
        import polars as pl

        named = pl.Series(TIMER_NAME, [name], dtype=pl.String).new_from_index(0, keys.height)
        self._runs.add(keys.with_columns(named, at_us.alias(SLOT)))

    def flush_to_state(self, ids_as_columns: Callable[[Sequence[Any]], pl.DataFrame]) -> None:
        """Write all timers of the heap to the state."""
        import polars as pl

        if self.heap.next_us == NEVER_US:
            return
        timers = list(self.heap.drain())
        if not timers:
            return
        keys = ids_as_columns([cell._id for _, cell, _ in timers])
        names = pl.Series(TIMER_NAME, [name for *_, name in timers], dtype=pl.String)
        slots = pl.Series(SLOT, [at_us for at_us, *_ in timers], dtype=pl.Int64)
        self._runs.add(keys.with_columns(names, slots))


def _skip_merge(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
