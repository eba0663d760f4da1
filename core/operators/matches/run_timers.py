"""The times at which runs end without a row.

Runs start in the order of their times, and all have the same time from their start to their end. So
those that have started since the job began, or since keys were evicted from memory, are a queue.
The runs that the table of keys has are also filed in a state, by the time at which they end.

Tests: tests/core/operators/matches/test_match_operator.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, SLOT, SortedRuns
from headrace.core.operators.matches.match_rows import MatchedRowColumns
from headrace.core.patterns.runs import TIME, Row, RunsOfKey, get_first_start
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US
from headrace.core.types.frames import copy_compact, count_up_to, to_integers

if TYPE_CHECKING:
    import polars as pl

END_SLOT = MAX_WATERMARK_US - 1
"""The slot of a key whose runs have no time: they end with the input."""


class RunTimers:
    """The timers of runs in memory, and of keys in the state."""

    def __init__(self, within_us: int | None, columns: MatchedRowColumns, due: SortedRuns) -> None:
        """`due` has the keys that are filed, by the time at which a run of them ends."""
        self._within_us = within_us
        self._columns = columns
        self._due = due
        self._slots = dict[str, int]()
        """The earliest slots under which keys are filed, as far as that is known."""
        self._starts: deque[tuple[pl.Series, pl.Series]] = deque()
        """The times at which runs in memory have started, in order, and their keys."""

    def add_starts(self, rows: pl.DataFrame) -> None:
        """Add the rows with which runs in memory have started."""
        if self._within_us is None or not rows.height:
            return
        started = copy_compact(rows.select(EVENT_TIME, KEY).sort(EVENT_TIME))
        self._starts.append((to_integers(started[EVENT_TIME]), started[KEY]))

    def take_started(self, watermark_us: int) -> list[str]:
        """Remove the runs in memory whose time has passed, and return their keys."""
        if self._within_us is None:
            return []
        starts, passed_us, passed = self._starts, watermark_us - self._within_us, list[str]()
        while starts and starts[0][0][0] <= passed_us:
            times, keys = starts.popleft()
            count = count_up_to(times, passed_us)
            passed += keys.head(count).to_list()
            if count < len(times):
                starts.appendleft((times.slice(count), keys.slice(count)))
        return passed

    def take_filed(self, keys: pl.Series) -> list[str]:
        """Return keys that were filed, and are no longer."""
        found = keys.to_list()
        for key in found:
            self._slots.pop(key, None)
        return found

    def file(self, runs_of_keys: Iterable[tuple[str, RunsOfKey]]) -> None:
        """File keys with runs, unless they are filed under a time that is early enough."""
        import polars as pl

        slots, starts = list[int](), list[Row]()
        for key, runs in runs_of_keys:
            start = get_first_start(runs)
            slot = END_SLOT if self._within_us is None else start[TIME] + self._within_us
            if self._slots.get(key, MAX_WATERMARK_US) > slot:
                self._slots[key] = slot
                slots.append(slot)
                starts.append(start)
        if not slots:
            return
        # Without a key, the frame of the keys has no height.
        keys = self._columns.build_key_frame(starts)
        self._due.add(pl.DataFrame([*keys, pl.Series(SLOT, slots, dtype=pl.Int64)]))

    def forget(self) -> None:
        """Forget the runs in memory, which are all filed."""
        self._starts.clear()
        self._slots.clear()
