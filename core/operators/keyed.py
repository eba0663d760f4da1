"""The factory of keyed operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.operators.changes.running import RunningOfChanges
from headrace.core.operators.changes.top import TopOfChanges
from headrace.core.operators.counting import PANES, Counting
from headrace.core.operators.dedup import First, Last
from headrace.core.operators.dedup_in_time import FirstInTime, LastInTime
from headrace.core.operators.operator import Operator
from headrace.core.operators.place import Place
from headrace.core.operators.running import Running
from headrace.core.operators.sessions.opened import OPEN
from headrace.core.operators.sessions.sessions import Sessions
from headrace.core.operators.top import Top
from headrace.core.operators.windows.filing import WINDOWS
from headrace.core.operators.windows.make import windowed
from headrace.core.operators.windows.opening import Opening
from headrace.core.operators.windows.windows import behind_us
from headrace.core.plan import nodes
from headrace.core.plan.windows import Count, Session, Window

if TYPE_CHECKING:
    import polars as pl


_STATES = {Session: OPEN, Count: PANES}
"""The name of the state that keeps the rows of a window shape, if not that of time windows."""


def keyed_operator(operation: nodes.Keyed, place: Place) -> Operator:
    """Build the operator of a keyed operation, over the state of its subtask."""
    match operation:
        case nodes.Aggregate(window=None):
            return (Running if operation.changes is None else RunningOfChanges)(operation, place)
        case nodes.Top(window=None):
            return (Top if operation.changes is None else TopOfChanges)(operation, place)
        case nodes.Aggregate() | nodes.Apply():
            return _windowed(operation, place, {})
        case nodes.Top(window=Window() as window):
            return Opening(
                lambda types: _windowed(operation, place, types),
                place.state,
                _STATES.get(type(window.shape), WINDOWS),
                by_event=not window.processing,
                watermark_delay_us=1 if isinstance(window.shape, Session) else behind_us(window),
            )
        case nodes.Dedup(keep="first"):
            return (FirstInTime if operation.in_time else First)(operation, place)
        case nodes.Dedup():
            return (LastInTime if operation.in_time else Last)(operation, place)
    raise AssertionError(operation)


def _windowed(
    operation: nodes.Windowed, place: Place, types: Mapping[str, pl.DataType]
) -> Operator:
    """Build the operator of a window; `types` are the types of the input columns."""
    assert operation.window is not None
    match operation.window.shape:
        case Session():
            return Sessions(operation, place, types)
        case Count():
            return Counting(operation, place, types)
    return windowed(operation, place, types)
