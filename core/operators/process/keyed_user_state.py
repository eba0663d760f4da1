"""The states and timers of a user class, by key, with the expiry and eviction of its cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.process.call_context import CallContext
from headrace.core.operators.process.cell_cache import CellCache, KeyCodec
from headrace.core.operators.process.cell_class import CellFactory, States
from headrace.core.operators.process.timers import NEVER_US, TimerHeap, TimerService
from headrace.core.plan.states import EVENT_TIMERS, WALL_CLOCK_TIMERS
from headrace.core.process.declarations import Kind

if TYPE_CHECKING:
    import polars as pl

TIMER_STATES = (EVENT_TIMERS, WALL_CLOCK_TIMERS)
"""The names of the states of timers: those of event time, and those of the wall clock."""


class KeyedUserState:
    """The cells of keys, and the timers of each clock that the class declares."""

    def __init__(
        self,
        states: States,
        properties: Mapping[str, property],
        call_context: CallContext,
        grouping: GroupingKey,
        context: KeyedContext,
        name: str,
    ) -> None:
        """`properties` are further ones of cells; `name` is that of the class in messages."""
        heaps = _build_heap(states, by_wall=False), _build_heap(states, by_wall=True)
        cells = CellFactory(states, call_context, *heaps, properties)
        self.keys = KeyCodec(grouping.types)
        self.cache = CellCache(states, cells, context.state, self.keys, name)
        clocks = {each.processing for each in states.values() if each.kind is Kind.TIMER}
        services = [
            TimerService(name, heap, grouping.types, context.state, self.find_cells)
            if by_wall in clocks
            else None
            for by_wall, (name, heap) in enumerate(zip(TIMER_STATES, heaps, strict=True))
        ]
        self.event_timers, self.clock_timers = services
        self._timers = [service for service in services if service is not None]
        self._now_us = context.now_us
        self._next_expiry_us: int | None = None
        """The next time to look for states that expire by the wall clock."""
        self._schedule_expiry()

    def find_cells(self, rows: pl.DataFrame) -> list[Any]:
        """Return the cell of the key of each row."""
        return self.cache.get_cells(self.keys.decode(rows))

    def flush_to_state(self) -> None:
        """Write timers and cells to the state."""
        for timers in self._timers:
            timers.flush_to_state(self.keys.build_columns)
        self.cache.write_back()

    def evict(self) -> None:
        """Write timers and cells to the state, and keep none in memory."""
        self.flush_to_state()
        self.cache.evict()

    def evict_if_full(self) -> None:
        """Evict cells if there are too many in memory."""
        self._schedule_expiry()
        if self.cache.is_full():
            self.evict()

    @property
    def next_tick_us(self) -> int:
        """The time of the first wall-clock timer or expiry, or NEVER_US."""
        timers_us = NEVER_US if self.clock_timers is None else self.clock_timers.next_us
        return timers_us if self._next_expiry_us is None else min(timers_us, self._next_expiry_us)

    def record_tick(self, now_us: int) -> None:
        """Forget the scheduled expiry if it is due; `expire` follows."""
        if self._next_expiry_us is not None and self._next_expiry_us <= now_us:
            self._next_expiry_us = None

    def expire(self, now_us: int, clock_us: int) -> None:
        """Remove expired states, by the wall clock and by event time."""
        self.cache.expire(now_us, clock_us)
        self.evict_if_full()

    def _schedule_expiry(self) -> None:
        """Schedule the next look at states that expire by the wall clock."""
        ttl_us = self.cache.find_clock_ttl_us() if self._next_expiry_us is None else None
        if ttl_us is not None:
            self._next_expiry_us = self._now_us() + ttl_us + 1


def _build_heap(states: States, *, by_wall: bool) -> TimerHeap:
    return TimerHeap([name for name, declared in states.items() if declared.processing is by_wall])
