"""The factory of keyed operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.operators.changelog.aggregate import ChangelogAggregateOperator
from headrace.core.operators.changelog.change_rows import (
    CountedChangesOperator,
    RetractionChangesOperator,
    UpsertChangesOperator,
)
from headrace.core.operators.changelog.conversion import RetractionsOperator, UpsertsOperator
from headrace.core.operators.changelog.counting_aggregate import CountingAggregateOperator
from headrace.core.operators.changelog.empty_result import EmptyResultOperator
from headrace.core.operators.changelog.newest_changes import NewestChangesOperator
from headrace.core.operators.changelog.retraction_top import RetractionTopOperator
from headrace.core.operators.changelog.subtracting_aggregate import (
    ExpiringAggregateOperator,
    SubtractingAggregateOperator,
)
from headrace.core.operators.changelog.tied_top import TiedTopOperator
from headrace.core.operators.changelog.top import ChangelogTopOperator
from headrace.core.operators.count_windows import PANES_STATE, CountWindowOperator
from headrace.core.operators.dedup import (
    FirstByTimeOperator,
    FirstRowOperator,
    LastByTimeOperator,
    LastRowOperator,
)
from headrace.core.operators.folds import KEPT_ROWS, WEIGHTED_ROWS
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Operator
from headrace.core.operators.over import OverOperator
from headrace.core.operators.running_results import RunningAggregateOperator, RunningTopOperator
from headrace.core.operators.sessions.open_sessions import OPEN_STATE
from headrace.core.operators.sessions.session_operator import (
    SessionWindowOperator,
    compute_session_delay,
)
from headrace.core.operators.sessions.table_sessions import TableSessionOperator
from headrace.core.operators.sessions.trigger_sessions import CountTriggerSessions
from headrace.core.operators.sessions.user_trigger_sessions import UserTriggerSessions
from headrace.core.operators.windows.factory import LazyWindowOperator, build_window_operator
from headrace.core.operators.windows.pane_state import WINDOWS_STATE
from headrace.core.operators.windows.window_operator import compute_watermark_delay
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Count, Session, Window

if TYPE_CHECKING:
    import polars as pl


_STATE_NAMES = {Session: OPEN_STATE, Count: PANES_STATE}
"""The name of the state that keeps the rows of a window shape, if not that of time windows."""


def build_keyed_operator(operation: nodes.KeyedOperation, context: KeyedContext) -> Operator:
    """Build the operator of a keyed operation, over the state of its subtask."""
    match operation:
        case nodes.Aggregate(window=None):
            if operation.emits_empty:
                return EmptyResultOperator(operation, _build_aggregate, context)
            return _build_aggregate(operation, context)
        case nodes.Top(window=None):
            if operation.has_ties:
                return TiedTopOperator(operation, context)
            if operation.reads_retractions:
                return RetractionTopOperator(operation, context)
            if operation.changelog_key is not None:
                return ChangelogTopOperator(operation, context)
            return RunningTopOperator(operation, context)
        case nodes.Over():
            return OverOperator(operation, context)
        case nodes.ChangelogConversion():
            return _build_conversion(operation, context)
        case nodes.Aggregate() | nodes.Apply():
            return _build_windowed(operation, context, {})
        case nodes.Top(window=Window() as window):
            return LazyWindowOperator(
                lambda types: _build_windowed(operation, context, types),
                context.state,
                _STATE_NAMES.get(type(window.shape), WINDOWS_STATE),
                WEIGHTED_ROWS if operation.reads_retractions else KEPT_ROWS,
                by_event=not window.uses_processing_time,
                watermark_delay_us=compute_session_delay(window)
                if isinstance(window.shape, Session)
                else compute_watermark_delay(window),
            )
        case nodes.Dedup() if operation.remembers_changes:
            return NewestChangesOperator(operation, context)
        case nodes.Dedup(keep="first"):
            return (FirstByTimeOperator if operation.uses_event_time else FirstRowOperator)(
                operation, context
            )
        case nodes.Dedup():
            return (LastByTimeOperator if operation.uses_event_time else LastRowOperator)(
                operation, context
            )
    raise AssertionError(operation)


def _build_aggregate(operation: nodes.Aggregate, context: KeyedContext) -> Operator:
    """Build the operator of an aggregate without a window."""
    if operation.stores_rows:
        return ChangelogAggregateOperator(operation, context)
    if operation.counts_values:
        return CountingAggregateOperator(operation, context)
    if operation.reads_retractions and operation.ttl is not None:
        return ExpiringAggregateOperator(operation, operation.ttl.after_us, context)
    if operation.reads_retractions:
        return SubtractingAggregateOperator(operation, context)
    return RunningAggregateOperator(operation, context)


def _build_conversion(operation: nodes.ChangelogConversion, context: KeyedContext) -> Operator:
    """Build the operator that converts changes."""
    match operation.output:
        case "counted":
            return CountedChangesOperator(operation, context)
        case "retract":
            if operation.form is not None:
                return UpsertChangesOperator(operation, context)
            return RetractionsOperator(operation, context)
        case "upsert":
            if operation.form is not None:
                return RetractionChangesOperator(operation, context)
            return UpsertsOperator(operation, context)


def _build_windowed(
    operation: nodes.WindowedOperation, context: KeyedContext, types: Mapping[str, pl.DataType]
) -> Operator:
    """Build the operator of a window; `types` are the types of the input columns."""
    assert operation.window is not None
    match operation.window.shape:
        case Session():
            if not isinstance(operation, nodes.Apply) and operation.reads_retractions:
                return TableSessionOperator(operation, context, types)
            return _get_session_operator(operation.window)(operation, context, types)
        case Count():
            return CountWindowOperator(operation, context, types)
    return build_window_operator(operation, context, types)


def _get_session_operator(window: Window) -> type[SessionWindowOperator]:
    if window.trigger is None or not window.trigger.depends_on_rows:
        return SessionWindowOperator
    return UserTriggerSessions if window.trigger.count is None else CountTriggerSessions
