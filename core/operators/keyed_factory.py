"""The factory of keyed operators.

A pipeline uses few of them, and all together take longer to import than a small job runs: each is
imported where it is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Operator
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Count, Session, Window

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.operators.changelog.expiring_groups import PagedGroupsOperator


def build_keyed_operator(operation: nodes.KeyedOperation, context: KeyedContext) -> Operator:
    """Build the operator of a keyed operation, over the state of its subtask."""
    match operation:
        case nodes.Aggregate(window=None):
            if operation.emits_empty:
                from headrace.core.operators.changelog.empty_result import EmptyResultOperator

                return EmptyResultOperator(operation, _build_aggregate, context)
            return _build_aggregate(operation, context)
        case nodes.Top(window=None):
            return _build_top(operation, context)
        case nodes.Over():
            from headrace.core.operators.over import OverOperator

            return OverOperator(operation, context)
        case nodes.ChangelogConversion():
            return _build_conversion(operation, context)
        case nodes.Aggregate() | nodes.Apply():
            return _build_windowed(operation, context, {})
        case nodes.Top(window=Window() as window):
            return _build_windowed_top(operation, window, context)
        case nodes.Dedup():
            return _build_dedup(operation, context)
    raise AssertionError(operation)


def build_round_operator(
    operation: nodes.KeyedOperation, stream: str, *, ordered: bool
) -> Operator:
    """Build the operator of a keyed operation over the tables of rounds.

    With `ordered`, its rows must carry their position in the row order.
    """
    from headrace.core.operators import round_operators

    match operation:
        case nodes.Aggregate():
            return round_operators.RoundAggregateOperator(operation, stream, ordered=ordered)
        case nodes.Top():
            from headrace.core.operators.round_top import RoundTopOperator

            return RoundTopOperator(operation, stream)
        case nodes.ChangelogConversion():
            return round_operators.RoundRowsOperator(stream)
    raise AssertionError(operation)


def _build_top(operation: nodes.Top, context: KeyedContext) -> Operator:
    """Build the operator of a top without a window."""
    if operation.has_ties:
        from headrace.core.operators.changelog.tied_top import TiedTopOperator

        return _expire_groups(TiedTopOperator(operation, context), operation, context)
    if operation.reads_retractions:
        from headrace.core.operators.changelog.retraction_top import RetractionTopOperator

        return _expire_groups(RetractionTopOperator(operation, context), operation, context)
    if operation.changelog_key is not None:
        from headrace.core.operators.changelog.top import ChangelogTopOperator

        return ChangelogTopOperator(operation, context)
    from headrace.core.operators.running_results import RunningTopOperator

    return RunningTopOperator(operation, context)


def _expire_groups(
    operator: PagedGroupsOperator, operation: nodes.Aggregate | nodes.Top, context: KeyedContext
) -> Operator:
    """Return an operator that stores pages, with the expiry of its groups if they have a `ttl`."""
    if operation.ttl is None:
        return operator
    from headrace.core.operators.changelog.expiring_groups import ExpiringGroupsOperator

    return ExpiringGroupsOperator(operator, operation.key, operation.ttl.after_us, context)


def _build_windowed_top(operation: nodes.Top, window: Window, context: KeyedContext) -> Operator:
    """Build the operator of a top in windows, which learns its columns from the first rows."""
    from headrace.core.operators.folds import KEPT_ROWS, WEIGHTED_ROWS
    from headrace.core.operators.windows.factory import LazyWindowOperator

    state_name, delay_us = _describe_window_state(window)
    return LazyWindowOperator(
        lambda types: _build_windowed(operation, context, types),
        context.state,
        state_name,
        WEIGHTED_ROWS if operation.reads_retractions else KEPT_ROWS,
        by_event=not window.uses_processing_time,
        watermark_delay_us=delay_us,
    )


def _describe_window_state(window: Window) -> tuple[str, int]:
    """Return the name of the state with the rows of a window, and the delay of its watermark."""
    match window.shape:
        case Session():
            from headrace.core.operators.sessions.open_sessions import OPEN_STATE
            from headrace.core.operators.sessions.session_operator import compute_session_delay

            return OPEN_STATE, compute_session_delay(window)
        case Count():
            from headrace.core.operators.count_windows import PANES_STATE as state_name
        case _:
            from headrace.core.operators.windows.pane_state import WINDOWS_STATE as state_name
    from headrace.core.operators.windows.window_operator import compute_watermark_delay

    return state_name, compute_watermark_delay(window)


def _build_dedup(operation: nodes.Dedup, context: KeyedContext) -> Operator:
    """Build the operator of a dedup."""
    if operation.remembers_changes:
        from headrace.core.operators.changelog.newest_changes import NewestChangesOperator

        return NewestChangesOperator(operation, context)
    from headrace.core.operators import dedup

    if operation.keep == "first":
        first = dedup.FirstByTimeOperator if operation.uses_event_time else dedup.FirstRowOperator
        return first(operation, context)
    last = dedup.LastByTimeOperator if operation.uses_event_time else dedup.LastRowOperator
    return last(operation, context)


def _build_aggregate(operation: nodes.Aggregate, context: KeyedContext) -> Operator:
    """Build the operator of an aggregate without a window."""
    if operation.stores_rows:
        from headrace.core.operators.changelog.aggregate import ChangelogAggregateOperator

        return ChangelogAggregateOperator(operation, context)
    if operation.counts_values:
        from headrace.core.operators.changelog.counting_aggregate import CountingAggregateOperator

        return _expire_groups(CountingAggregateOperator(operation, context), operation, context)
    if operation.reads_retractions:
        from headrace.core.operators.changelog import subtracting_aggregate

        if operation.ttl is not None:
            return subtracting_aggregate.ExpiringAggregateOperator(
                operation, operation.ttl.after_us, context
            )
        return subtracting_aggregate.SubtractingAggregateOperator(operation, context)
    from headrace.core.operators.running_results import RunningAggregateOperator

    return RunningAggregateOperator(operation, context)


def _build_conversion(operation: nodes.ChangelogConversion, context: KeyedContext) -> Operator:
    """Build the operator that converts changes."""
    from headrace.core.operators.changelog import change_rows, conversion

    match operation.output:
        case "counted":
            return change_rows.CountedChangesOperator(operation, context)
        case "retract":
            if operation.form is not None:
                return change_rows.UpsertChangesOperator(operation, context)
            return conversion.RetractionsOperator(operation, context)
        case "upsert":
            if operation.form is not None:
                return change_rows.RetractionChangesOperator(operation, context)
            return conversion.UpsertsOperator(operation, context)


def _build_windowed(
    operation: nodes.WindowedOperation, context: KeyedContext, types: Mapping[str, pl.DataType]
) -> Operator:
    """Build the operator of a window; `types` are the types of the input columns."""
    assert operation.window is not None
    match operation.window.shape:
        case Session():
            return _build_sessions(operation, operation.window, context, types)
        case Count():
            from headrace.core.operators.count_windows import CountWindowOperator

            return CountWindowOperator(operation, context, types)
    from headrace.core.operators.windows.factory import build_window_operator

    return build_window_operator(operation, context, types)


def _build_sessions(
    operation: nodes.WindowedOperation,
    window: Window,
    context: KeyedContext,
    types: Mapping[str, pl.DataType],
) -> Operator:
    """Build the operator of session windows."""
    from headrace.core.operators.sessions.session_operator import SessionWindowOperator
    from headrace.core.operators.sessions.table_sessions import TableSessionOperator
    from headrace.core.operators.sessions.trigger_sessions import CountTriggerSessions
    from headrace.core.operators.sessions.user_trigger_sessions import UserTriggerSessions

    if not isinstance(operation, nodes.Apply) and operation.reads_retractions:
        return TableSessionOperator(operation, context, types)
    if window.trigger is None or not window.trigger.depends_on_rows:
        return SessionWindowOperator(operation, context, types)
    triggered = UserTriggerSessions if window.trigger.count is None else CountTriggerSessions
    return triggered(operation, context, types)
