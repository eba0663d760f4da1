"""Timers that are filed in the state, under the times at which they come up.

They are an index, as the heap is: what a timer is set to stands with the other states of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.operators.process.timers import NEVER_US, Timers
from headrace.core.state import SLOT, Runs, RunsLayout, StepState

if TYPE_CHECKING:
    import polars as pl

NAME = "__timer"
"""The column that says which of the timers of its key one is."""


class Due:
    """The timers that go by one clock: those in the heap, and those in the state."""

    def __init__(
        self,
        name: str,
        timers: Timers,
        key: Mapping[str, pl.DataType],
        state: StepState,
        cells: Callable[[pl.DataFrame], list[Any]],
    ) -> None:
        """`cells` are those of some keys, given as a frame of the columns of the key."""
        import polars as pl

        self.timers = timers
        self._key = dict(key)
        self._cells = cells
        columns = {**key, NAME: pl.String()}
        self._runs: Runs = state.runs(name, RunsLayout(columns, tuple(key), _as_they_are))

    def __len__(self) -> int:
        return self._runs.rows + len(self.timers)

    @property
    def next_us(self) -> int:
        """No timer comes up before that."""
        filed = self._runs.first()
        return self.timers.next_us if filed is None else min(self.timers.next_us, filed)

    def call_up(self, before_us: int) -> None:
        """Have those in the heap that come up before that time."""
        filed = self._runs.first()
        taken = None if filed is None or filed >= before_us else self._runs.take(before_us - 1)
        if taken is not None:
            self._push(taken)

    def _push(self, taken: pl.DataFrame) -> None:
        taken = taken.unique([*self._key, NAME, SLOT], maintain_order=True)
        names, slots = taken[NAME].to_list(), taken[SLOT].to_list()
        for cell, name, at_us in zip(self._cells(taken), names, slots, strict=True):
            self.timers.again(at_us, cell, name)

    def first_of_keys(self, before_us: int) -> pl.DataFrame | None:
        """Of each key that has timers before that time the first; None if none has. All are filed.

        Some of them may be of timers that were deleted since.
        """
        import polars as pl

        filed = self._runs.first()
        if filed is None or filed >= before_us:
            return None
        found = self._runs.read(filed - 1, before_us - 1)
        assert found is not None, "there is one"
        return found.group_by(list(self._key)).agg(pl.col(SLOT).min())

    def call_up_first(self, before_us: int) -> None:
        """Have in the heap the first timers of each key that come up before that time."""
        import polars as pl

        taken = self._runs.take(before_us - 1)
        assert taken is not None, "there are some"
        first = pl.col(SLOT) == pl.col(SLOT).min().over(list(self._key))
        self._runs.add(taken.filter(~first))
        self._push(taken.filter(first))

    def set_many(self, keys: pl.DataFrame, name: str, at_us: pl.Series) -> None:
        """Timers of that name, filed at once."""
        import polars as pl

        named = pl.Series(NAME, [name], dtype=pl.String).new_from_index(0, keys.height)
        self._runs.add(keys.with_columns(named, at_us.alias(SLOT)))

    def file(self, ids_as_columns: Callable[[Sequence[Any]], pl.DataFrame]) -> None:
        """Have all of them in the state."""
        import polars as pl

        if self.timers.next_us == NEVER_US:
            return
        filed = list(self.timers.taken())
        if not filed:
            return
        keys = ids_as_columns([cell._id for _, cell, _ in filed])
        names = pl.Series(NAME, [name for *_, name in filed], dtype=pl.String)
        slots = pl.Series(SLOT, [at_us for at_us, *_ in filed], dtype=pl.Int64)
        self._runs.add(keys.with_columns(names, slots))


def _as_they_are(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
