"""Emitted sessions that may change: rows may continue them, come late, or join two of them.

They are complete and do not touch each other, so they are never merged. They are stored under the
time up to which rows may arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.operators.numbered import ROW_COUNT
from headrace.core.operators.sessions.opened import OpenSessions
from headrace.core.operators.sessions.pieces import FRAGMENT_END, find_continued
from headrace.core.plan.windows import Session, Window
from headrace.core.state import NO_CLOCK_US, SLOT, RunsLayout, StepState

if TYPE_CHECKING:
    import polars as pl

EMITTED_STATE = "shown"
"""The name of the runs in the state."""


class EmittedSessions:
    """Emitted sessions, which become open again when rows touch them."""

    def __init__(self, state: StepState, window: Window, opened: OpenSessions) -> None:
        assert isinstance(window.shape, Session)
        layout = RunsLayout(opened.layout.columns, opened.key, lambda sessions: sessions)
        self._runs = state.open_runs(EMITTED_STATE, layout)
        self._state = state
        self._key, self._by = opened.key, opened.group_columns
        self._gap_us = window.shape.gap_us
        self._kept_us = window.shape.gap_us + 1 + window.lateness_us

    @property
    def session_count(self) -> int:
        """The number of sessions."""
        return self._runs.rows

    @property
    def deferred_rows(self) -> int:
        """The number of rows that a lookup of keys works on."""
        return self._runs.estimate_deferred_rows(asking=True) if self._runs.rows else 0

    def add(self, sessions: pl.DataFrame) -> None:
        """Store sessions that were emitted."""
        import polars as pl

        until = (pl.col(FRAGMENT_END) + self._kept_us).alias(SLOT)
        shown = sessions.with_columns(until, pl.lit(0, dtype=pl.Int64).alias(ROW_COUNT))
        self._runs.add(shown.filter(pl.col(SLOT) > self._state.clock_us))

    def read_keys(self, sessions: pl.DataFrame) -> pl.DataFrame | None:
        """Return the emitted sessions of the keys of these sessions."""
        return self._runs.read_keys(sessions.select(self._key).unique(), NO_CLOCK_US)

    def take_touched(self, pieces: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the sessions that these fragments touch."""
        shown = self._runs.take_keys(pieces.select(self._key).unique())
        if shown is None:
            return None
        touched = find_continued(shown.select(self._by), pieces, self._key, self._gap_us)
        self._runs.add(shown.join(touched, on=self._by, how="anti", nulls_equal=True))
        return shown.join(touched, on=self._by, how="semi", nulls_equal=True)

    def drop(self, until_us: int) -> None:
        """Forget the sessions stored up to this time: no row can touch them."""
        self._runs.drop(until_us)
