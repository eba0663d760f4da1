"""The factory of window operators and their folds.

An operator that is created with the first rows, because it stores all their columns.

If rows were restored it is created at once: their columns are known, and time may reach the end of
their windows before new rows arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.state import StepState
from headrace.core.operators.folds import (
    KEPT_ROWS,
    AggregateFold,
    CountingFold,
    EvictingFold,
    Fold,
    TopNFold,
    WeightedFold,
    get_row_types,
)
from headrace.core.operators.group_error_context import GroupErrorContext
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Operator, Output
from headrace.core.operators.result_rows import ResultRows
from headrace.core.operators.user_functions import ApplyFold, UserEvictingFold
from headrace.core.operators.windows.count_trigger_windows import CountTriggerWindows
from headrace.core.operators.windows.ended_windows import SharedPaneWindows, SinglePaneWindows
from headrace.core.operators.windows.grid import Grid, SeparateGrid, build_grid
from headrace.core.operators.windows.pane_expander import PaneExpander
from headrace.core.operators.windows.pane_state import PaneState
from headrace.core.operators.windows.periodic_trigger import DirtyPanes
from headrace.core.operators.windows.window_operator import WindowComponents, WindowOperator
from headrace.core.operators.windows.window_rows import WindowClock, WindowResults, WindowRows
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Trigger

if TYPE_CHECKING:
    import polars as pl


def build_window_operator(
    operation: nodes.WindowedOperation, context: KeyedContext, types: Mapping[str, pl.DataType]
) -> Operator:
    """Build the operator of an operation over time windows.

    `types` are the types of the input columns.
    """
    window = operation.window
    assert window is not None
    grouping = GroupingKey(operation.key)
    panes = build_grid(window.shape)
    fold = build_fold(operation, grouping, types, newest=not window.has_bounds)
    clock = WindowClock(window, context)
    out = ResultRows(operation, context.stream, ordered=context.is_ordered)
    results = WindowResults(operation, panes, grouping, fold, out)
    trigger = window.trigger
    # Rows arrive by pane; windows with a row-based trigger each get their own copy.
    by_rows = trigger is not None and trigger.depends_on_rows
    grid: Grid = SeparateGrid(panes) if by_rows else panes
    marked = _add_trigger_columns(fold, trigger)
    rows = WindowRows(panes, clock, grouping, marked)
    pane_state = PaneState(context.state, grouping, marked)
    expander = PaneExpander(grid, pane_state)
    keep = window.lateness_us > 0 and window.keeps_rows
    windows = (
        SinglePaneWindows(pane_state, keep=keep)
        if grid.is_one_to_one
        else SharedPaneWindows(grid, pane_state, expander)
    )
    is_periodic = trigger is not None and trigger.every_us is not None and window.keeps_rows
    dirty_panes = DirtyPanes(context.state, grouping, pane_state) if is_periodic else None
    components = WindowComponents(
        window, grid, clock, rows, pane_state, expander, windows, results, context, dirty_panes
    )
    if trigger is None or not by_rows:
        return WindowOperator(components)
    if trigger.count is None:
        from headrace.core.operators.windows.trigger_calls import TriggerCaller
        from headrace.core.operators.windows.user_trigger_windows import UserTriggerWindows

        caller = TriggerCaller(window, GroupErrorContext(grouping, window), context)
        return UserTriggerWindows(components, panes, grouping, caller)
    return CountTriggerWindows(components, panes, trigger.count)


def _add_trigger_columns(fold: Fold, trigger: Trigger | None) -> Fold:
    """Add the columns that a row-based trigger needs to the fold."""
    if trigger is None or not trigger.depends_on_rows:
        return fold
    if trigger.code is None:
        return CountingFold(fold)
    from headrace.core.operators.windows.trigger_calls import TriggerStateFold

    return TriggerStateFold(fold, trigger)


def build_fold(
    operation: nodes.WindowedOperation,
    grouping: GroupingKey,
    types: Mapping[str, pl.DataType],
    *,
    newest: bool = False,
) -> Fold:
    """Build the fold of a windowed operation; `types` are the types of the input columns."""
    window = operation.window
    error_context = GroupErrorContext(grouping, window)
    fold: AggregateFold | ApplyFold | TopNFold
    if isinstance(operation, nodes.Top):
        fold = TopNFold(operation, types, newest=newest)
    else:
        fold = (
            ApplyFold(operation, grouping, error_context, newest=newest)
            if isinstance(operation, nodes.Apply)
            else AggregateFold(operation, grouping, newest=newest)
        )
        types = fold.input_types
    whole: Fold = fold
    evict = window.evict if window else None
    if evict is not None:
        evicted = EvictingFold if evict.code is None else UserEvictingFold
        whole = evicted(evict, fold, types, error_context)
        types = {**types, **get_row_types(whole.state_columns)}
    if isinstance(operation, nodes.Apply) or not operation.reads_retractions:
        return whole
    return WeightedFold(whole, types, fires_again=window is not None and window.can_fire_again)


OperatorFactory: TypeAlias = "Callable[[Mapping[str, pl.DataType]], Operator]"


class LazyWindowOperator:
    """A wrapper of a window operator that is created with its first rows."""

    def __init__(
        self,
        make: OperatorFactory,
        state: StepState,
        state_name: str,
        rows_column: str = KEPT_ROWS,
        *,
        by_event: bool,
        watermark_delay_us: int,
    ) -> None:
        """`make` takes the types of the columns; `state_name` names the state with the rows.

        `rows_column`: its column with the lists of rows.

        `by_event`: whether the clock is the watermark.
        """
        self._make = make
        self._state = state
        self._by_event = by_event
        columns = state.get_restored_columns(state_name)
        self._operator = None if columns is None else make(get_row_types(columns, rows_column))
        self.watermark_delay_us = watermark_delay_us

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows; the first ones create the operator."""
        if self._operator is None:
            if not frame.height:
                return
            self._operator = self._make(frame.schema)
        yield from self._operator.process(frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark; without rows, only the clock changes."""
        if self._operator is not None:
            yield from self._operator.advance(watermark_us)
        elif self._by_event:
            self._state.clock_us = max(self._state.clock_us, watermark_us)

    def next_tick_us(self) -> int | None:
        """Return the operator's next tick; None before there are rows."""
        return None if self._operator is None else self._operator.next_tick_us()

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        return iter(()) if self._operator is None else self._operator.tick(now_us)

    def flush_to_state(self) -> None:
        """Flush buffered rows to the state."""
        if self._operator is not None:
            self._operator.flush_to_state()

    @property
    def pending_rows(self) -> int:
        """The number of pending rows."""
        return 0 if self._operator is None else self._operator.pending_rows
