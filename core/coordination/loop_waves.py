"""The waves of a loop: how the coordinator finds out that the loop is empty. No clock, no I/O.

| state       | a time is held        | all markers are back                      | due         |
|-------------|-----------------------|-------------------------------------------|-------------|
| resting     | > waiting             | -                                         | -           |
| waiting     | -                     | -                                         | 1 > circling|
| circling    | -                     | 2 > resting, or > waiting for a next wave | -           |

1: BeginLoopWave: every head sends a marker into the loop. 2: after two waves in a row without a row
at any head, ReleaseLoopTime with what all heads held when the second began.

A wave takes as long as one round. Rows that were in the loop before it come back before its marker,
so a wave without such rows proves that there were none; the second one is for certainty. While the
loop has rows, waves follow each other; while it only waits, for a class inside or for an input from
outside, they follow more and more seldom.

A loop whose input never ends and which is never empty passes no event time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Literal, TypeAlias

from headrace.core.api.splits import SubtaskId
from headrace.core.coordination.messages import (
    BeginLoopWave,
    CoordinatorAction,
    HeldTime,
    LoopTimeHeld,
    LoopWaveReturned,
    ReleaseLoopTime,
)
from headrace.core.types.elements import MAX_WATERMARK_US, MIN_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

WaveState: TypeAlias = Literal["resting", "waiting", "circling"]

CLEAN_WAVES = 2
"""The waves in a row without a row at any head that prove the loop empty."""

FIRST_PAUSE_S = 0.001
LAST_PAUSE_S = 0.2
"""The pause between waves, which doubles while the loop only waits."""


@dataclass(slots=True)
class LoopWaves:
    """The waves of one loop; `heads` are the subtasks of its head."""

    loop: str
    heads: tuple[SubtaskId, ...]
    state: WaveState = "resting"
    wave: int = 0
    _held: dict[SubtaskId, HeldTime] = field(default_factory=dict)
    """The time that each head holds now."""
    _returned: dict[SubtaskId, LoopWaveReturned] = field(default_factory=dict)
    _rows_inside: int = 0
    """The rows that came back in the last wave."""
    _clean_waves: int = 0
    _pause_s: float = FIRST_PAUSE_S
    _next_start: float = 0.0
    _released_us: int = MIN_WATERMARK_US
    _is_idle_released: bool = False
    _is_over: bool = False

    def on_time_held(self, event: LoopTimeHeld, now: float) -> list[CoordinatorAction]:
        """Record what a head holds; begin a wave if there is something to release."""
        self._held[event.subtask] = event.held
        if not event.held.is_idle:
            self._is_idle_released = False
        if self.state == "resting" and self._has_more_to_release():
            self._pause_s, self._clean_waves = FIRST_PAUSE_S, 0
            return self._begin_wave(now)
        return []

    def on_wave_returned(self, event: LoopWaveReturned, now: float) -> list[CoordinatorAction]:
        """Record the return of a marker; when all are back, release or begin the next wave."""
        self._held[event.subtask] = event.held
        if event.wave != self.wave:
            return []
        self._returned[event.subtask] = event
        if len(self._returned) < len(self.heads):
            return []
        returned = list(self._returned.values())
        self._rows_inside = sum(each.rows for each in returned)
        had_rows = self._rows_inside > 0
        is_clean = not had_rows and not any(
            each.marker.is_waiting or (each.held.is_round and each.marker.is_open)
            for each in returned
        )
        self._clean_waves = self._clean_waves + 1 if is_clean else 0
        actions: list[CoordinatorAction] = []
        if self._clean_waves >= CLEAN_WAVES:
            actions = list(self._release(returned))
            self._clean_waves = 0
        is_fruitless = not had_rows and not actions and not self._clean_waves
        self._pause_s = min(2 * self._pause_s, LAST_PAUSE_S) if is_fruitless else FIRST_PAUSE_S
        self.state = "resting"
        if self._is_over or not self._has_more_to_release():
            return actions
        self.state, self._next_start = "waiting", now + self._pause_s
        return actions

    def next_deadline(self) -> float | None:
        """Return the time at which `tick` is due, if it is."""
        return self._next_start if self.state == "waiting" else None

    def tick(self, now: float) -> list[CoordinatorAction]:
        """Begin a wave that is due."""
        if self.state != "waiting" or now < self._next_start:
            return []
        return self._begin_wave(now)

    def describe_rows(self) -> str:
        """Describe the round of a table, or how many rows were inside, if any were.

        Rounds over whole tables follow each other without a release, so their number is unknown.
        Rows that were inside when the last wave began came back before its marker.
        """
        number = max((e.watermark_us for e in self._held.values() if e.is_round), default=None)
        if number is not None and number <= self._released_us:
            return f"rounds go on in the loop of {self.loop}"
        if number is not None:  # 0: the first round has not begun
            return f"round {number} goes on in the loop of {self.loop}" if number else ""
        rows = self._rows_inside
        return f"{rows} rows go round in the loop of {self.loop}" if rows else ""

    def _begin_wave(self, now: float) -> list[CoordinatorAction]:
        self.state, self.wave = "circling", self.wave + 1
        self._returned = {}
        return [BeginLoopWave(self.loop, self.heads, self.wave)]

    def _has_more_to_release(self) -> bool:
        """Whether the heads hold a time that none of them has passed on."""
        if len(self._held) < len(self.heads):
            return False
        low = _get_lowest(self._held.values())
        if low is None:
            return not self._is_idle_released
        return low > self._released_us or self._have_ended(self._held.values())

    def _have_ended(self, held: Iterable[HeldTime]) -> bool:
        return not self._is_over and all(each.has_ended for each in held)

    def _release(self, returned: list[LoopWaveReturned]) -> list[CoordinatorAction]:
        """Release what all heads held when the wave began."""
        held = [each.held_before for each in returned]
        is_open = any(each.marker.is_open for each in returned)
        low, is_end = _get_lowest(held), self._have_ended(held) and not is_open
        if low is not None:
            low = min([low, *(each.marker.outside_us for each in returned)])
        if low is None and not self._is_idle_released:
            self._is_idle_released = True
        elif not is_end and (low is None or low <= self._released_us):
            return []
        self._released_us = max(self._released_us, self._released_us if low is None else low)
        self._is_over |= is_end
        return [ReleaseLoopTime(self.loop, self.heads, low, is_end)]


@dataclass(slots=True)
class AllLoopWaves:
    """The waves of all loops of a job."""

    loops: tuple[LoopWaves, ...] = ()

    def receive(
        self, event: LoopTimeHeld | LoopWaveReturned, now: float
    ) -> list[CoordinatorAction]:
        """Pass an event of a loop's head to the waves of the loop."""
        loop = next(each for each in self.loops if event.subtask in each.heads)
        if isinstance(event, LoopTimeHeld):
            return loop.on_time_held(event, now)
        return loop.on_wave_returned(event, now)

    def next_deadline(self) -> float | None:
        """Return the time at which `tick` is due, if it is."""
        due = (loop.next_deadline() for loop in self.loops)
        return min((at for at in due if at is not None), default=None)

    def tick(self, now: float) -> list[CoordinatorAction]:
        """Begin the waves that are due."""
        return [action for loop in self.loops for action in loop.tick(now)]

    def describe_rows(self) -> list[str]:
        """Describe how many rows go round in each loop that has some."""
        return [text for loop in self.loops if (text := loop.describe_rows())]


def _get_lowest(held: Iterable[HeldTime]) -> int | None:
    """Return the lowest watermark of heads that are not idle; None if all are."""
    times = [MAX_WATERMARK_US if e.has_ended else e.watermark_us for e in held if not e.is_idle]
    return min(times, default=None)
