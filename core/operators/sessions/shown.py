"""The sessions that were put out and may change: rows may still go on, or come late, or join two.

They are whole, and apart from each other, so nothing of them is to be merged. They are filed under
the time up to which rows may come.
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
"""What the runs are called in the state."""


class Shown:
    """Sessions like the open ones, which they become again when rows touch them."""

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
        """How many there are."""
        return self._runs.rows

    @property
    def owed(self) -> int:
        """On how many rows works who asks for keys."""
        return self._runs.owed(asking=True) if self._runs.rows else 0

    def add(self, sessions: pl.DataFrame) -> None:
        """Sessions were put out."""
        import polars as pl

        until = (pl.col(END) + self._kept_us).alias(SLOT)
        shown = sessions.with_columns(until, pl.lit(0, dtype=pl.Int64).alias(ROWS))
        self._runs.add(shown.filter(pl.col(SLOT) > self._state.clock_us))

    def of_keys(self, sessions: pl.DataFrame) -> pl.DataFrame | None:
        """Those of the keys of these sessions."""
        return self._runs.of_keys(sessions.select(self._key).unique(), NO_CLOCK_US)

    def touched(self, pieces: pl.DataFrame) -> pl.DataFrame | None:
        """Those that these pieces touch; they are here no more."""
        shown = self._runs.take_keys(pieces.select(self._key).unique())
        if shown is None:
            return None
        touched = continued(shown.select(self._by), pieces, self._key, self._gap_us)
        self._runs.add(shown.join(touched, on=self._by, how="anti", nulls_equal=True))
        return shown.join(touched, on=self._by, how="semi", nulls_equal=True)

    def drop(self, until_us: int) -> None:
        """Nothing comes any more to those that were kept up to then."""
        self._runs.drop(until_us)
