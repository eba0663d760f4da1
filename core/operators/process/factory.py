"""The factories of the operators of user classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from headrace.core.api.user_code import UserCode, reraise_interrupt
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.process.call_context import CallContext
from headrace.core.operators.process.cell_class import NO_PROPERTIES
from headrace.core.operators.process.collector import MAIN_OUTPUT, Collectors
from headrace.core.operators.process.keyed_user_state import KeyedUserState
from headrace.core.operators.process.process_operator import (
    ProcessComponents,
    ProcessOperator,
    UserCodeContext,
)
from headrace.core.operators.process.process_vectorised import VectorisedProcessOperator
from headrace.core.operators.process.row_buffer import BroadcastRowBuffer, RowBuffer
from headrace.core.operators.process.row_calls import OutputFrames, RowCaller
from headrace.core.operators.process.shared_state import SharedState
from headrace.core.operators.process.user_class import RowFactory, UserClassErrors, validate_class
from headrace.core.operators.process.user_inputs import UserInput
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import ConnectedMatch
from headrace.core.plan.states import HELD_RIGHT_ROWS, HELD_ROWS
from headrace.core.process.declarations import Declared
from headrace.core.process.process import Process
from headrace.core.types.data_types import TIMESTAMP, Field, Schema, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl


def build_process(
    operation: nodes.Process, context: KeyedContext, user_context: UserCodeContext
) -> ProcessOperator:
    """Build the operator of `process`, which handles rows one by one or in batches."""
    kind: type[ProcessOperator] = ProcessOperator
    if hasattr(user_context.code.load(), VectorisedProcessOperator.method):
        kind = VectorisedProcessOperator
    key, method = operation.key, kind.method
    parts = _build_components(
        operation.body, key, (method,), context, user_context, operation.has_event_time
    )
    columns, late_to = operation.columns, operation.late_to
    return kind(parts, [_build_input(parts, key, columns, method, HELD_ROWS, late_to)])


def build_two_input_process(
    join: nodes.Join, matching: ConnectedMatch, context: KeyedContext, user_context: UserCodeContext
) -> ProcessOperator:
    """Build the operator of a class with two inputs, the right of which may be a broadcast."""
    methods = ("on_row", "on_rule") if matching.is_broadcast else ("on_left", "on_right")
    parts = _build_components(
        matching.body, join.left.key, methods, context, user_context, join.has_event_time
    )
    sides, names = (join.left, join.right), (HELD_ROWS, HELD_RIGHT_ROWS)
    inputs = [
        _build_input(parts, side.key, _build_schema(side), method, name, late_to)
        for side, method, name, late_to in zip(sides, methods, names, join.late_to, strict=True)
    ]
    return ProcessOperator(parts, inputs)


def _build_components(
    body: nodes.ProcessBody,
    key: Sequence[nodes.ComputedColumn],
    methods: Sequence[str],
    context: KeyedContext,
    user_context: UserCodeContext,
    has_event_time: bool,
) -> ProcessComponents:
    """Assemble the collaborators of an operator; the class must have all the methods."""
    code, states = user_context.code, dict(body.states)
    kind = _load_class(code, methods, states)
    call_context = CallContext(context.now_us)
    call_context.clock_us = context.state.clock_us
    shared_state = _build_shared_state(code, methods, states, context, call_context)
    own = {name: each for name, each in states.items() if not each.shared}
    properties = NO_PROPERTIES if shared_state is None else shared_state.properties
    grouping = GroupingKey(key)
    state = KeyedUserState(own, properties, call_context, grouping, context, code.display_name)
    collectors = Collectors({MAIN_OUTPUT: body.returns, **dict(body.outputs)}, call_context)
    errors = UserClassErrors(code, collectors, states)
    process = _create_instance(kind, call_context, errors)
    counters = context.state.counters
    counters.metrics = process._get_metrics()._restore(counters.metrics)
    careful, first = user_context.on_failure is not None, context.is_first
    caller = RowCaller(
        process,
        call_context,
        collectors,
        errors,
        counters.metrics,
        careful=careful,
        tells_rules=first,
    )
    streams = user_context.name_streams(body, context.stream)
    frames = OutputFrames(collectors, state.keys, streams, user_context.ordered_streams)
    return ProcessComponents(
        body,
        context,
        user_context,
        process,
        call_context,
        errors,
        caller,
        state,
        shared_state,
        frames,
        has_event_time,
    )


def _load_class(code: UserCode, methods: Sequence[str], states: Mapping[str, Declared]) -> Any:
    """Load the class, and check that it has the methods and declares the states of the plan."""
    kind = code.load()
    for method in methods:
        validate_class(kind, code.display_name, (method,), states)
    return kind


def _build_shared_state(
    code: UserCode,
    methods: Sequence[str],
    states: Mapping[str, Declared],
    context: KeyedContext,
    call_context: CallContext,
) -> SharedState | None:
    """Build the state that all keys share; None without a broadcast."""
    if "on_rule" not in methods:
        return None
    shared = {name: each for name, each in states.items() if each.shared}
    return SharedState(shared, call_context, context.state, code.display_name)


def _create_instance(kind: Any, call_context: CallContext, errors: UserClassErrors) -> Process:
    try:
        process: Process = kind()
    except BaseException as error:
        reraise_interrupt(error)
        raise errors.build_init_error(error) from error
    process._set_context(call_context)
    return process


def _build_input(
    parts: ProcessComponents,
    key: Sequence[nodes.ComputedColumn],
    columns: Schema,
    method: str,
    buffer_name: str,
    late_to: str | None,
) -> UserInput:
    """Build an input whose rows the method handles."""
    call, grouping = getattr(parts.process, method), GroupingKey(key)
    if method == VectorisedProcessOperator.method:
        rows = RowFactory.build_empty()
    else:
        name = parts.user_context.code.display_name
        rows = RowFactory.from_method(call, columns, name)
    if method == "on_rule":
        return _build_rule_input(parts, grouping, columns, rows, call)
    buffer = _build_buffer(buffer_name, grouping, columns, parts)
    return UserInput(grouping, columns, rows, call, parts.state.find_cells, buffer, late_to)


def _build_rule_input(
    parts: ProcessComponents, grouping: GroupingKey, columns: Schema, rows: RowFactory, call: Any
) -> UserInput:
    """Build the input of rules, which write the shared state."""
    shared_state = parts.shared_state
    assert shared_state is not None, "a broadcast has shared state"
    buffer = None
    if parts.body.uses_event_time:
        names = (*columns.names, EVENT_TIME, ORDER)
        buffer = BroadcastRowBuffer(HELD_RIGHT_ROWS, names, parts.context.state)

    def on_rule(rule: Any, cell: Any, out: Any) -> object:
        found: object = call(rule, cell)
        return found

    def find_cells(rules: pl.DataFrame) -> Iterable[Any]:
        return repeat(shared_state.begin_write(), rules.height)

    return UserInput(grouping, columns, rows, on_rule, find_cells, buffer, drops_late=False)


def _build_buffer(
    name: str, key: GroupingKey, rows: Schema, parts: ProcessComponents
) -> RowBuffer | None:
    """Build the buffer of keyed rows; none if they are handled on arrival."""
    if not parts.body.uses_event_time:
        return None
    columns = {field.name: to_polars(field.type) for field in rows}
    time, order = to_polars(TIMESTAMP), to_polars(ORDER_TYPE)
    layout = {**key.types, **columns, EVENT_TIME: time, ORDER: order}
    return RowBuffer(name, layout, key.internal_names, parts.context.state)


def _build_schema(side: nodes.JoinSide) -> Schema:
    return Schema(tuple(Field(c.name, c.value.type, c.value.nullable) for c in side.columns))
