"""Triggers that fire every so often: when, and which windows have changed since the last time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.elements import FOREVER_US
from headrace.core.frames import together
from headrace.core.operators.windows.filing import Filed
from headrace.core.plan.windows import Window

if TYPE_CHECKING:
    import polars as pl

MOST_FRAMES = 16
"""So many frames of changes are kept apart."""


class Changed:
    """The keys and panes to which rows have come since they were asked for."""

    def __init__(self, filed: Filed) -> None:
        self._by = filed.by
        self._frames: list[pl.DataFrame] = []
        filed.watchers.append(self._came)

    def _came(self, folded: pl.DataFrame) -> None:
        self._frames.append(folded.select(self._by))
        if len(self._frames) > MOST_FRAMES:
            self._frames = [self._together()]

    def taken(self) -> pl.DataFrame | None:
        """What has changed, each once; from now on nothing has."""
        changed = self._together() if self._frames else None
        self._frames = []
        return changed

    def _together(self) -> pl.DataFrame:
        return together(self._frames).unique()


class Rings:
    """When it is time, by the clock that the trigger names: that of its window's, or the wall's."""

    def __init__(self, window: Window, now_us: Callable[[], int]) -> None:
        trigger = window.trigger
        self._every_us = trigger.every_us if trigger else None
        self._by_wall = bool(trigger and trigger.processing and not window.processing)
        self._now_us = now_us
        self._rang_us: int | None = None

    def passes(self, before_us: int, now_us: int) -> bool:
        """Whether the window's clock passes a multiple of `every` between these times."""
        if self._every_us is None or self._by_wall or now_us == FOREVER_US:
            return False
        return now_us // self._every_us > before_us // self._every_us

    def after(self, now_us: int) -> int | None:
        """When the window's clock passes the next multiple."""
        if self._every_us is None or self._by_wall:
            return None
        return (now_us // self._every_us + 1) * self._every_us

    def due_us(self) -> int | None:
        """When the wall clock says that it is time."""
        if self._every_us is None or not self._by_wall:
            return None
        if self._rang_us is None:
            self._rang_us = self._now_us()
        return self._rang_us + self._every_us

    def rings(self, now_us: int) -> bool:
        """Whether the wall clock says so; asked once each time it is."""
        due_us = self.due_us()
        if due_us is None or self._every_us is None or now_us < due_us:
            return False
        self._rang_us = now_us - (now_us - due_us) % self._every_us
        return True
