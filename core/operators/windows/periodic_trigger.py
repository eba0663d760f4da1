"""Periodic triggers: when they fire, and which windows have changed since."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.api.state import NO_CLOCK_US, RunsLayout, StepState
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.windows.pane_state import PaneState
from headrace.core.plan.nodes.windows import Window
from headrace.core.types.elements import MAX_WATERMARK_US

if TYPE_CHECKING:
    import polars as pl


class DirtyPanes:
    """The keys and panes with new rows since the last firing; stored in the state."""

    def __init__(self, state: StepState, grouping: GroupingKey, pane_state: PaneState) -> None:
        self._group_columns = pane_state.group_columns
        layout = RunsLayout(grouping.types, grouping.internal_names, lambda panes: panes.unique())
        self._runs = state.open_runs("changed", layout)
        pane_state.listeners.append(self._record)

    def _record(self, folded: pl.DataFrame) -> None:
        self._runs.add(folded.select(self._group_columns))

    def take(self) -> pl.DataFrame | None:
        """Remove and return the changed keys and panes, each once."""
        return self._runs.take(MAX_WATERMARK_US)

    def read(self) -> pl.DataFrame | None:
        """Return the changed keys and panes, each once; they stay stored."""
        return self._runs.read(NO_CLOCK_US, MAX_WATERMARK_US)

    def drop(self, until: int) -> None:
        """Forget the panes up to this one, which no open window needs."""
        self._runs.drop(until)


class PeriodicTrigger:
    """The schedule of a periodic trigger: it fires when a clock passes a multiple of `every`.

    The clock is the watermark, or the wall clock. With the wall clock, nothing is due before a row
    arrives, and then the next multiple. Restored rows count as arriving when the operator is
    created: their waiting time is not stored, since a clock that ran while the job was down would
    only make everything due at once.
    """

    def __init__(self, window: Window, now_us: Callable[[], int]) -> None:
        trigger = window.trigger
        by_wall = window.uses_processing_time or (
            trigger is not None and trigger.uses_processing_time
        )
        every_us = trigger.every_us if trigger else None
        self._every_us = None if by_wall else every_us
        self._wall_every_us = every_us if by_wall else None
        self._now_us = now_us
        self._since_us: int | None = None

    def fires_between(self, before_us: int, now_us: int) -> bool:
        """Whether the watermark passes a multiple of `every` between these times."""
        if self._every_us is None or now_us == MAX_WATERMARK_US:
            return False
        return now_us // self._every_us > before_us // self._every_us

    def record_arrival(self) -> None:
        """Note that rows have arrived."""
        if self._wall_every_us is not None and self._since_us is None:
            self._since_us = self._now_us()

    def next_firing_us(self) -> int | None:
        """Return the wall-clock time at which the trigger fires."""
        if self._wall_every_us is None or self._since_us is None:
            return None
        return (self._since_us // self._wall_every_us + 1) * self._wall_every_us

    def fire_if_due(self, now_us: int) -> bool:
        """Whether the trigger fires at this wall-clock time; if so, it rests until rows arrive."""
        due_us = self.next_firing_us()
        if due_us is None or now_us < due_us:
            return False
        self._since_us = None
        return True
