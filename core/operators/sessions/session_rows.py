"""The result rows of sessions: the values that a fold computes, with the bounds of each session.

Tests: tests/core/operators/sessions/test_session_operator.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.operators.folds import Fold
from headrace.core.operators.result_rows import WINDOW_END, WINDOW_START
from headrace.core.operators.sessions.fragments import FRAGMENT_END, FRAGMENT_START
from headrace.core.plan.nodes import Top, WindowedOperation
from headrace.core.plan.nodes.windows import Session
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME

if TYPE_CHECKING:
    import polars as pl


class SessionRowBuilder:
    """The builder of the result rows of sessions."""

    def __init__(self, operation: WindowedOperation, fold: Fold) -> None:
        window = operation.window
        assert window is not None and isinstance(window.shape, Session)
        self._fold = fold
        self._gap_us = window.shape.gap_us
        self._shows_bounds = not isinstance(operation, Top)
        self._has_event_time = not window.uses_processing_time

    def build(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the results of states; `by` are the key, the bounds, and columns to keep."""
        import polars as pl

        done, time = self._fold.finish(states, by), to_polars(TIMESTAMP)
        end = pl.col(FRAGMENT_END) + self._gap_us
        if self._shows_bounds:
            start = pl.col(FRAGMENT_START).cast(time)
            done = done.with_columns(start.alias(WINDOW_START), end.cast(time).alias(WINDOW_END))
        if self._has_event_time:
            done = done.with_columns((end - 1).cast(time).alias(EVENT_TIME))
        return done
