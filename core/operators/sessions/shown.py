"""Emitted sessions that may change: rows may continue them, come late, or join two of them.

They are complete and do not touch each other, so they are never merged. They are stored under the
time up to which rows may arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.operators.numbered import ROWS
from headrace.core.operators.sessions.opened import Opened
from headrace.core.operators.sessions.pieces import END, continued
from headrace.core.plan.windows import Session, Window
from headrace.core.state import NO_CLOCK_US, SLOT, RunsLayout, StepState

if TYPE_CHECKING:
    import polars as pl

SHOWN = "shown"
"""The name of the runs in the state."""


class Shown:
    """Emitted sessions, which become open again when rows touch them."""

    def __init__(self, state: StepState, window: Window, opened: Opened) -> None:
        assert isinstance(window.shape, Session)
        layout = RunsLayout(opened.layout.columns, opened.key, lambda sessions: sessions)
        self._runs = state.runs(SHOWN, layout)
        self._state = state
        self._key, self._by = opened.key, opened.by
        self._gap_us = window.shape.gap_us
        self._kept_us = window.shape.gap_us + 1 + window.lateness_us

    @property
    def rows(self) -> int:
        """The number of sessions."""
        return self._runs.rows

    @property
    def owed(self) -> int:
        """The number of rows that a lookup of keys works on."""
        return self._runs.owed(asking=True) if self._runs.rows else 0

    def add(self, sessions: pl.DataFrame) -> None:
        """Store sessions that were emitted."""
        import polars as pl

        until = (pl.col(END) + self._kept_us).alias(SLOT)
        shown = sessions.with_columns(until, pl.lit(0, dtype=pl.Int64).alias(ROWS))
        self._runs.add(shown.filter(pl.col(SLOT) > self._state.clock_us))

    def of_keys(self, sessions: pl.DataFrame) -> pl.DataFrame | None:
        """Return the emitted sessions of the keys of these sessions."""
        return self._runs.of_keys(sessions.select(self._key).unique(), NO_CLOCK_US)

    def touched(self, pieces: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the sessions that these fragments touch."""
        shown = self._runs.take_keys(pieces.select(self._key).unique())
        if shown is None:
            return None
        touched = continued(shown.select(self._by), pieces, self._key, self._gap_us)
        self._runs.add(shown.join(touched, on=self._by, how="anti", nulls_equal=True))
        return shown.join(touched, on=self._by, how="semi", nulls_equal=True)

    def drop(self, until_us: int) -> None:
        """Forget the sessions stored up to this time: no row can touch them."""
        self._runs.drop(until_us)
