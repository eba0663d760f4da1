"""Timers stored in the state, under the times at which they fire.

They are an index, like the heap: a timer's own value is stored with the other states of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.operators.process.timers import NEVER_US, TimerHeap
from headrace.core.state import SLOT, RunsLayout, SortedRuns, StepState

if TYPE_CHECKING:
    import polars as pl

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
        filed = self._runs.get_first_slot()
        return self.heap.next_us if filed is None else min(self.heap.next_us, filed)

    def load_due(self, before_us: int) -> None:
        """Load the timers that fire before that time into the heap."""
        filed = self._runs.get_first_slot()
        taken = None if filed is None or filed >= before_us else self._runs.take(before_us - 1)
        if taken is not None:
            self._push_entries(taken)

    def _push_entries(self, taken: pl.DataFrame) -> None:
        taken = taken.unique([*self._key, TIMER_NAME, SLOT], maintain_order=True)
        names, slots = taken[TIMER_NAME].to_list(), taken[SLOT].to_list()
        for cell, name, at_us in zip(self._cells(taken), names, slots, strict=True):
            self.heap.push_stored(at_us, cell, name)

    def find_first_timers(self, before_us: int) -> pl.DataFrame | None:
        """Return the first timer of each key that has one before that time; None if none has.

        All timers are in the state. Some may belong to timers deleted since.
        """
        import polars as pl

        filed = self._runs.get_first_slot()
        if filed is None or filed >= before_us:
            return None
        found = self._runs.read(filed - 1, before_us - 1)
        assert found is not None, "the first slot is in the range"
        return found.group_by(list(self._key)).agg(pl.col(SLOT).min())

    def load_first_timers(self, before_us: int) -> None:
        """Load the first timers of each key that fire before that time into the heap."""
        import polars as pl

        taken = self._runs.take(before_us - 1)
        assert taken is not None, "there are timers before that time"
        first = pl.col(SLOT) == pl.col(SLOT).min().over(list(self._key))
        self._runs.add(taken.filter(~first))
        self._push_entries(taken.filter(first))

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
        filed = list(self.heap.drain())
        if not filed:
            return
        keys = ids_as_columns([cell._id for _, cell, _ in filed])
        names = pl.Series(TIMER_NAME, [name for *_, name in filed], dtype=pl.String)
        slots = pl.Series(SLOT, [at_us for at_us, *_ in filed], dtype=pl.Int64)
        self._runs.add(keys.with_columns(names, slots))


def _skip_merge(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
