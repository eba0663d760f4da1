"""The states of a step, for `explain` and for compatibility, and the subtasks that own them.

The operators open these states; a test compares their names and shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from headrace.core.expressions.typed import ColumnReference, walk
from headrace.core.plan.layout import (
    get_input_streams,
    get_keyed_operation,
    get_loop,
    get_stored_rows,
    get_two_input_operation,
)
from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    ChangelogConversion,
    ChangeOrder,
    ComputedColumn,
    Dedup,
    Explode,
    Join,
    KeyedOperation,
    Map,
    Match,
    Over,
    Plan,
    PlanPart,
    Process,
    ProcessBody,
    Project,
    Step,
    Top,
)
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    JoinMatching,
    RuleMatch,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Count, Session, Window
from headrace.core.plan.over_reach import measure_reach
from headrace.core.types.data_types import Field, Schema, Type
from headrace.core.types.elements import ORDER
from headrace.core.types.key_groups import compute_owned_groups, get_keyless_group
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    from headrace.core.aggregates.aggregate_sizes import AggregateSize
    from headrace.core.aggregates.calls import AggregateCall
    from headrace.core.aggregates.value_sets import ValueSet

StateShape = Literal["runs", "table", "entries"]

EMITTED_STATE = "emitted"
"""The name of the table that says whether an aggregate over no rows has emitted its row."""

NEWEST_STATE = "newest"
"""The name of the runs with the time of the newest row of each group that expires."""

LOOP_STATE = "loop"
"""The name of the entries with the rows of a loop that were on their way back at a checkpoint."""

TABLE_STATE, NEXT_TABLE_STATE, ROUND_STATE = "table", "next_table", "round"
"""The names of the entries of a loop over a table: the tables of a round and of the next, and the
number of the round."""

WORKSET_STATE = "workset"
"""The name of the entries with the work set of a delta iteration, whose table is the solution."""

HELD_ROWS, HELD_RIGHT_ROWS, EVENT_TIMERS, WALL_CLOCK_TIMERS = "held", "held_right", "due", "waits"
"""The names of the states in which rows and timers of a user-defined class wait."""


RULES_STATE = "rules"
"""The name of the entries with the rows of a broadcast, or with the rules of `match`."""


@dataclass(frozen=True, slots=True)
class StateDescription:
    """A state of a step: rows by time (runs), one row per key (a table), or rows without a key."""

    name: str
    shape: StateShape
    columns: tuple[tuple[str, str], ...]
    """The stored columns besides the key and the time, each with its type."""
    is_by_time: bool = True
    """Whether the times of runs are event times or timestamps, and not only an order."""
    sizes: tuple[AggregateSize, ...] = ()
    """The sizes of the aggregates in each row."""


@dataclass(frozen=True, slots=True)
class StepStateSummary:
    """The state of a step: its key, its states, and the key groups that each subtask owns."""

    key: tuple[str, ...]
    states: tuple[StateDescription, ...]
    key_group_ranges: tuple[range, ...]

    @property
    def unkeyed_owner(self) -> int:
        """The subtask that owns all of the state if there is no key."""
        group = get_keyless_group(self.key_group_ranges[-1].stop)
        return next(at for at, groups in enumerate(self.key_group_ranges) if group in groups)


def get_step_state(part: PlanPart, key_groups: int) -> StepStateSummary | None:
    """Return the state of a part, if it is a step with state."""
    keyed, join = get_keyed_operation(part), get_two_input_operation(part)
    by: tuple[ComputedColumn, ...]
    states: tuple[StateDescription, ...]
    if (loop := get_loop(part)) is not None:
        assert isinstance(part, Step)
        columns = tuple((field.name, str(field.type)) for field in part.outputs[0].schema)
        names = [LOOP_STATE] if loop.table is None else [TABLE_STATE, NEXT_TABLE_STATE]
        described = [StateDescription(name, "entries", columns) for name in names]
        if loop.table is not None:
            if loop.table.delta is not None:
                described.append(StateDescription(WORKSET_STATE, "entries", columns))
            progress = (("round", "bigint"), ("is_done", "boolean"))
            described.append(StateDescription(ROUND_STATE, "entries", progress))
        states, by = tuple(described), ()
    elif isinstance(part, Step) and part.round_inputs:
        states, stored = tuple(_list_round_states(part, join)), get_stored_rows(part)
        by = join.left.key if join is not None else stored.key if stored is not None else ()
    elif join is not None:
        states = tuple(_list_join_states(join))
        by = () if isinstance(join.matching, BroadcastMatch) else join.left.key
    else:
        states, by = () if keyed is None else tuple(_list_states(keyed)), keyed.key if keyed else ()
        if isinstance(keyed, Aggregate | Over):
            states = tuple(_add_sizes(keyed, states))
    if not states:
        return None
    key = tuple(column.name for column in by)
    owners = (
        compute_owned_groups(subtask, part.parallelism, key_groups)
        for subtask in range(part.parallelism)
    )
    return StepStateSummary(key, states, tuple(owners))


def _list_round_states(step: Step, join: Join | None) -> Iterator[StateDescription]:
    """Yield the states of a step over the tables of rounds: the other inputs of a join or union."""
    if (stored := get_stored_rows(step)) is not None:
        columns = tuple((field.name, str(field.type)) for field in stored.columns)
        yield StateDescription("rows", "runs", columns, is_by_time=False)
    if join is not None and not step.round_inputs.issuperset(step.inputs):
        for name, state in zip(step.inputs, _list_join_states(join), strict=True):
            if name not in step.round_inputs:
                yield state


def _list_join_states(join: Join) -> Iterator[StateDescription]:
    """Yield the states of the rows of both sides that may still match others."""
    if isinstance(join.matching, BroadcastMatch):
        of_left = ((c.name, str(c.value.type)) for c in join.left.columns)
        if join.matching.uses_event_time:
            yield StateDescription("waiting", "entries", tuple(of_left))
        yield StateDescription(
            RULES_STATE, "entries", tuple((c.name, str(c.value.type)) for c in join.right.columns)
        )
        return
    if isinstance(join.matching, ConnectedMatch):
        yield from list_process_states(join.matching.body)
        for name in (HELD_ROWS, HELD_RIGHT_ROWS) if join.matching.body.uses_event_time else ():
            whole = name == HELD_RIGHT_ROWS and join.matching.is_broadcast
            shape: StateShape = "entries" if whole else "runs"
            yield StateDescription(name, shape, (("buffered input rows", "struct"),))
        return
    if isinstance(join.matching, RuleMatch):
        yield from _list_match_states()
        yield StateDescription(HELD_RIGHT_ROWS, "entries", (("buffered input rows", "struct"),))
        rule = ((c.name, str(c.value.type)) for c in join.right.columns)
        yield StateDescription(RULES_STATE, "entries", tuple(rule))
        return
    if isinstance(join.matching, ChangelogMatch):
        yield StateDescription("keys", "table", (("left rows", "array"), ("right rows", "array")))
        return
    emitted_prefix = ("shown_",) if _stores_emitted_rows(join.matching) else ()
    for before in ("", *emitted_prefix):
        for name, side in (("left", join.left), ("right", join.right)):
            columns = tuple((c.name, str(c.value.type)) for c in side.columns)
            if name == "right" and isinstance(join.matching, AsOfMatch) and join.matching.sequence:
                columns += (("sequence", str(join.matching.sequence.value.type)),)
            by_time = not isinstance(join.matching, TableMatch) or join.matching.ttl_us is not None
            yield StateDescription(f"{before}{name}", "runs", columns, is_by_time=by_time)
    if isinstance(join.matching, AsOfMatch):
        version_columns = tuple((c.name, str(c.value.type)) for c in join.right.columns)
        yield StateDescription("versions", "table", version_columns)


def _stores_emitted_rows(matching: JoinMatching) -> bool:
    """Whether emitted rows are stored, because late rows may extend their sessions."""
    window = matching.window if isinstance(matching, WindowMatch) else None
    return window is not None and isinstance(window.shape, Session) and window.lateness_us > 0


def list_process_states(body: ProcessBody) -> Iterator[StateDescription]:
    """Yield the states of a user-defined class, and those of its timers."""
    for name, declared in body.states:
        shape: StateShape = "entries" if declared.shared else "table"
        yield StateDescription(name, shape, ((str(declared), str(declared.types[-1])),))
    clocks = {declared.processing for _, declared in body.timers}
    for name, by_clock in ((EVENT_TIMERS, False), (WALL_CLOCK_TIMERS, True)):
        if by_clock in clocks:
            yield StateDescription(name, "runs", (("timer", "string"),))


def _list_states(keyed: KeyedOperation) -> Iterator[StateDescription]:
    if isinstance(keyed, Process):
        yield from list_process_states(keyed.body)
        if keyed.body.uses_event_time:
            yield StateDescription(HELD_ROWS, "runs", (("buffered input rows", "struct"),))
        return
    columns = _list_columns(keyed)
    match keyed:
        case ChangelogConversion():
            yield from _list_conversion_states(keyed, columns)
        case Dedup():
            if keyed.uses_event_time:
                yield StateDescription("waiting", "runs", (("buffered input rows", "struct"),))
            if keyed.keep == "first" or keyed.remembers_changes:
                yield StateDescription("keys", "table", columns)
        case Over():
            reach = measure_reach(keyed)
            rows = (("last rows", "array"),) if reach.looks_back or reach.follows else ()
            time = ("time of the last row", "timestamp")
            yield StateDescription("waiting", "runs", (("buffered input rows", "struct"),))
            yield StateDescription("keys", "table", (*columns, *rows, time))
            if reach.follows:
                yield StateDescription("due", "runs", ())
        case Match():
            yield from _list_match_states()
        case Aggregate(window=None) | Top(window=None):
            yield StateDescription("keys", "table", columns)
            if isinstance(keyed, Aggregate) and keyed.emits_empty:
                yield StateDescription(EMITTED_STATE, "table", (("emitted", "boolean"),))
            if isinstance(keyed, Top) and keyed.stores_pages:
                counted = (("rows as they are now", "struct"), ("count", "bigint"))
                yield StateDescription("ranking", "table", counted)
            elif keyed.stores_rows:
                yield StateDescription(
                    "rows", "runs", (("rows as they are now", "struct"),), is_by_time=False
                )
            for name, values in keyed.value_sets.items() if isinstance(keyed, Aggregate) else ():
                shown = ((column, str(type)) for column, type in list_value_columns(values))
                yield StateDescription(name, "table", (*shown, ("count", "bigint")))
            if keyed.expires_pages:
                yield StateDescription(NEWEST_STATE, "runs", ())
        case Aggregate(window=window) | Apply(window=window) | Top(window=window) if (
            window is not None
        ):
            match window.shape:
                case Session():
                    of_changes = not isinstance(keyed, Apply) and keyed.reads_retractions
                    yield from _list_session_states(window, columns, stores_rows=of_changes)
                case Count():
                    yield StateDescription("counts", "table", (("rows", "bigint"),))
                    yield StateDescription("panes", "table", columns)
                case _:
                    yield StateDescription(
                        "windows", "runs", (*columns, *_list_trigger_columns(window))
                    )
                    if window.keeps_rows and window.trigger and window.trigger.every_us:
                        yield StateDescription("changed", "runs", ())
                    yield from _list_timer_states(window)


def _list_match_states() -> Iterator[StateDescription]:
    """Yield the states of the runs of patterns."""
    yield StateDescription("waiting", "runs", (("buffered input rows", "struct"),))
    parts = ("matched rows", "matches", "runs")
    yield StateDescription("keys", "table", tuple((name, "array") for name in parts))
    yield StateDescription("due", "runs", ())


def _list_conversion_states(
    conversion: ChangelogConversion, columns: tuple[tuple[str, str], ...]
) -> Iterator[StateDescription]:
    """Yield the states of a conversion: current rows or counted ones, and numbers of changes."""
    if conversion.output == "counted":
        yield StateDescription("rows", "runs", (("counted rows", "struct"),), is_by_time=False)
    else:
        yield StateDescription("keys", "table", columns)
    if conversion.form is not None:
        yield StateDescription("sequence", "entries", (("last_number", "bigint"),))


def _list_session_states(
    window: Window, columns: tuple[tuple[str, str], ...], *, stores_rows: bool
) -> Iterator[StateDescription]:
    """Yield the states of open sessions, and of those that have fired.

    `stores_rows`: sessions are derived from stored rows.
    """
    columns = (*columns, *_list_trigger_columns(window))
    yield StateDescription("open", "runs", columns)
    if stores_rows:
        return
    if window.can_fire_again:
        yield StateDescription("shown", "runs", columns)
    elif window.trigger and window.trigger.depends_on_rows:
        yield StateDescription("fired", "runs", ())
    yield from _list_timer_states(window)


def _list_timer_states(window: Window) -> Iterator[StateDescription]:
    """Yield the states with the times at which timers of keys are due."""
    clocks = {by_clock for _, by_clock in window.trigger.timers} if window.trigger else ()
    for name, by_clock in ((EVENT_TIMERS, False), (WALL_CLOCK_TIMERS, True)):
        if by_clock in clocks:
            yield StateDescription(name, "runs", ())


def _list_trigger_columns(window: Window) -> Iterator[tuple[str, str]]:
    """Yield the columns of a user-defined trigger's state."""
    trigger = window.trigger
    for field in (trigger.state if trigger else None) or ():
        yield f"{trigger.code if trigger else ''}.{field.name}", str(field.type)


def _list_columns(keyed: KeyedOperation) -> tuple[tuple[str, str], ...]:
    match keyed:
        case Aggregate() if keyed.stores_rows:
            return (("emitted row", "struct"),)
        case Aggregate() if keyed.counts_values:
            partial = tuple(_list_partial_columns(keyed))
            return (("emitted row", "struct"), *partial, ("pages of values", "array"))
        case Aggregate() if keyed.has_rows_in_windows:
            return tuple(_list_row_columns(keyed))
        case Apply():
            return tuple(_list_row_columns(keyed))
        case Aggregate() | Over():
            return tuple(_list_partial_columns(keyed))
        case Top() if keyed.window is not None and keyed.reads_retractions:
            return (("rows", "array"),)
        case Top() if keyed.stores_pages:
            return (("first rows", "array"), ("pages of rows", "array"))
        case Top():
            return (("first rows", "array"),)
        case ChangelogConversion(output="retract"):
            return (("current row", "struct"),)
        case ChangelogConversion():
            return (("rows", "array"),)
        case Dedup(changes=ChangeOrder(sequence=sequence)) if keyed.remembers_changes:
            sequences = (("sequence", str(sequence.value.type)),) if sequence else ()
            return (*sequences, ("place", "bigint"), ("deleted", "boolean"))
    return (("time of the last row", "timestamp"),)


def _list_calls(keyed: Aggregate | Over) -> tuple[AggregateCall, ...]:
    """Return the calls of aggregates whose partial results are stored with a key."""
    from headrace.core.aggregates import deduplicate_calls
    from headrace.core.aggregates.over_calls import list_carried_calls

    if isinstance(keyed, Over):
        return list_carried_calls(column.expression for column in keyed.columns)
    calls = deduplicate_calls(column.expression for column in keyed.columns)
    if not keyed.counts_values:
        return calls
    return tuple(call for call in calls if call.accumulator.is_subtractable)


def _list_partial_columns(keyed: Aggregate | Over) -> Iterator[tuple[str, str]]:
    """Yield the columns of partial results: an aggregate's text and a component of its state."""
    for call in _list_calls(keyed):
        state: dict[str, Type] = call.state_types(ORDER_TYPE)
        yield from ((name.removeprefix("__"), str(type)) for name, type in state.items())


def _add_sizes(
    keyed: Aggregate | Over, states: Iterable[StateDescription]
) -> Iterator[StateDescription]:
    """Yield the states, those of partial results with the sizes of these."""
    from headrace.core.aggregates.aggregate_sizes import measure_aggregate

    calls = _list_calls(keyed)
    partial = {*_list_partial_columns(keyed)}
    for state in states:
        is_partial = partial and partial.issubset(state.columns)
        yield replace(state, sizes=tuple(map(measure_aggregate, calls))) if is_partial else state


def list_value_columns(values: ValueSet) -> Iterator[tuple[str, Type]]:
    """Yield the columns of counted values, as they are shown, with their types."""
    for name, type in values.columns.items():
        yield ("position" if name == ORDER else name.removeprefix("__")), type


def _list_row_columns(keyed: Aggregate | Apply) -> Iterator[tuple[str, str]]:
    """Yield the columns of unchanged rows: it is not known yet which rows will be used."""
    yield from ((name, str(type)) for name, type in get_read_columns(keyed).items())


def get_read_columns(keyed: Aggregate | Apply) -> dict[str, Type]:
    """Return the columns that aggregates or user code read, with their types."""
    from headrace.core.aggregates import deduplicate_calls

    seen = keyed.window.evictor_columns if keyed.window else {}
    if isinstance(keyed, Apply):
        return {**{field.name: field.type for field in keyed.input_columns}, **seen}
    calls = deduplicate_calls(column.expression for column in keyed.columns)
    read = (each.typed for call in calls for each in (*call.inputs, call.condition) if each)
    columns = {
        node.name: node.type
        for typed in read
        for node in walk(typed)
        if isinstance(node, ColumnReference)
    }
    return {**columns, **seen}


def get_stored_columns(step: Step, keyed: Top | Dedup | Over | Match, plan: Plan) -> Schema:
    """Return the columns of the rows that an operation stores unchanged."""
    schema = plan.streams[get_input_streams(step)[0]].schema
    for operation in step.operations[: step.operations.index(keyed)]:
        match operation:
            case Project(columns=columns):
                made = (Field(c.name, c.value.type, c.value.nullable) for c in columns)
                schema = Schema(tuple(made))
            case Explode():
                added = operation.added_columns
                names = {column.name for column in added}
                schema = Schema((*(f for f in schema if f.name not in names), *added))
            case Map(returns=returns):
                schema = returns
    return Schema(tuple(field for field in schema if keyed.stores_column(field.name)))


def format_owners(owners: tuple[range, ...]) -> str:
    """Return the key groups of each subtask, in words.

    >>> format_owners((range(0, 64), range(64, 128)))
    '0-63 in subtask 0, 64-127 in subtask 1'
    """
    shown = [f"{_format_range(groups)} in subtask {at}" for at, groups in enumerate(owners)]
    return ", ".join(shown if len(shown) <= 8 else (*shown[:3], "...", shown[-1]))


def _format_range(groups: range) -> str:
    return f"{groups[0]}-{groups[-1]}" if len(groups) > 1 else str(groups[0])
