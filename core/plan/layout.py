"""The layout of a plan: the exchange of every edge, and the parts that are chained into one task.

A step with keyed state reads rows hashed by key group, unless there is a single writing subtask and
a single reading one. Other parts of equal parallelism are connected by a forward edge. Edges
between different parallelisms are hashed by the key of the rows if they are changes (those of a key
must stay in order), otherwise distributed round-robin (rebalance). A sink in which rows of an
append-only stream replace each other by a key reads them hashed by that key. Parts connected by a
forward edge become one task if the reader has no other input and the writer no other reader: rows
then pass from one to the next by a function call. A step that waits for the wall clock or for
answers of a lookup, or that emits a row before its first input, begins a task, because only the
first part of a task can do so. The head of a loop is a task of its own. A part begins one as well
if it is in another slot than its input, or if its pipeline says `chain: false`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

from headrace.core.api.splits import SubtaskId
from headrace.core.expressions.typed import reference_field, substitute_columns
from headrace.core.plan import nodes
from headrace.core.plan.nodes import (
    Append,
    ComputedColumn,
    Dedup,
    Edge,
    KeyedOperation,
    Lookup,
    Loop,
    PlanPart,
    Process,
    Project,
    Retract,
    Sink,
    Source,
    Step,
    StoredRows,
    Stream,
    Task,
    TwoSided,
    Upsert,
    WeightConversion,
)
from headrace.core.plan.nodes.matching import (
    BroadcastMatch,
    ConnectedMatch,
    JoinMatching,
    RuleMatch,
)
from headrace.core.plan.plan_cache import cache_by_plan
from headrace.core.types.data_types import Field


@cache_by_plan
def enumerate_subtasks(
    plan: nodes.Plan,
) -> tuple[tuple[nodes.Task, tuple[SubtaskId, ...]], ...]:
    """Return each task with its subtasks."""
    return tuple(
        (task, tuple(SubtaskId(number, index) for index in range(task.parallelism)))
        for number, task in enumerate(plan.tasks)
    )


@cache_by_plan
def list_subtask_ids(plan: nodes.Plan) -> tuple[SubtaskId, ...]:
    """Return all subtasks."""
    return tuple(id for _, ids in enumerate_subtasks(plan) for id in ids)


def get_input_streams(part: PlanPart) -> tuple[str, ...]:
    """Return the names of the streams that a part reads."""
    match part:
        case Source():
            return ()
        case Step():
            return part.inputs
        case Sink():
            return (part.input,)


def build_edges(parts: Iterable[PlanPart]) -> tuple[Edge, ...]:
    """Return the edges between the parts, in the order of their readers."""
    parts = tuple(parts)
    writers = {s.name: part for part in parts if not isinstance(part, Sink) for s in part.outputs}
    streams = {s.name: s for part in parts if not isinstance(part, Sink) for s in part.outputs}
    forward = (
        _build_side_edge(streams[name], writers[name], part, at)
        if get_two_input_operation(part)
        else _build_edge(streams[name], writers[name], part)
        for part in parts
        for at, name in enumerate(get_input_streams(part))
        if name in writers
    )
    back = (
        replace(_build_edge(streams[loop.feedback], writers[loop.feedback], part), side=1)
        for part in parts
        if (loop := get_loop(part)) is not None and loop.feedback in writers
    )
    return (*forward, *(replace(edge, is_feedback=True) for edge in back))


def get_two_input_operation(part: PlanPart) -> TwoSided | None:
    """Return the operation of a step that has two inputs; None for other parts."""
    first = part.operations[0] if isinstance(part, Step) and part.operations else None
    return first if isinstance(first, TwoSided) else None


def is_broadcast(matching: JoinMatching) -> bool:
    """Whether the right input is broadcast to every subtask."""
    match matching:
        case BroadcastMatch() | ConnectedMatch(is_broadcast=True) | RuleMatch():
            return True
    return False


def _build_side_edge(stream: Stream, writer: PlanPart, reader: PlanPart, side: int) -> Edge:
    """Return an edge into a step with two inputs: rows that may match reach the same subtask."""
    operation = get_two_input_operation(reader)
    assert operation is not None, "it has two inputs"
    ends = (stream.name, writer.name, reader.name)
    if side and is_broadcast(operation.matching):
        return Edge(*ends, "broadcast", side=side)
    if writer.parallelism == reader.parallelism == 1:
        return Edge(*ends, "forward", side=side)
    if isinstance(operation.matching, BroadcastMatch):
        alike = writer.parallelism == reader.parallelism
        return Edge(*ends, "forward" if alike else "rebalance")
    return Edge(*ends, "hash", operation.keys[side], side)


def _build_edge(stream: Stream, writer: PlanPart, reader: PlanPart) -> Edge:
    ends = (stream.name, writer.name, reader.name)
    alone = writer.parallelism == reader.parallelism == 1
    stored = get_stored_rows(reader)
    if stored is not None and stream.name in stored.inputs:
        return Edge(*ends, "forward", side=1) if alone else Edge(*ends, "hash", stored.key, side=1)
    if replaces_by_own_key(reader, stream) and not alone:
        return Edge(*ends, "hash", _select_key(stream, reader.key))
    keyed = get_keyed_operation(reader)
    if writer.parallelism == reader.parallelism and (keyed is None or reader.parallelism == 1):
        return Edge(*ends, "forward")
    if keyed is not None:
        assert isinstance(reader, Step)
        return Edge(*ends, "hash", get_input_key(reader, keyed))
    if isinstance(stream.kind, Upsert | Retract) and stream.kind.key is not None:
        return Edge(*ends, "hash", _select_key(stream, stream.kind.key))
    return Edge(*ends, "rebalance")


def replaces_by_own_key(part: PlanPart, stream: Stream) -> TypeGuard[Sink]:
    """Whether a part is a sink in which the rows of an append-only stream replace each other."""
    return isinstance(part, Sink) and bool(part.key) and isinstance(stream.kind, Append)


def _select_key(stream: Stream, names: Collection[str]) -> tuple[ComputedColumn, ...]:
    """Return the columns of a stream of these names, as a key."""
    return reference_columns(field for field in stream.schema if field.name in names)


def reference_columns(fields: Iterable[Field]) -> tuple[ComputedColumn, ...]:
    """Return columns of a stream as a key."""
    return tuple(ComputedColumn(field.name, reference_field(field)) for field in fields)


def get_keyed_operation(part: PlanPart) -> KeyedOperation | None:
    """Return the operation of a step that has keyed state, if there is one."""
    if not isinstance(part, Step):
        return None
    return next((each for each in part.operations if isinstance(each, KeyedOperation)), None)


def get_lookup(part: PlanPart) -> Lookup | None:
    """Return the lookup of a step, if there is one."""
    if not isinstance(part, Step):
        return None
    return next((each for each in part.operations if isinstance(each, Lookup)), None)


def get_loop(part: PlanPart) -> Loop | None:
    """Return the operation of a step that is the head of a loop; None for other parts."""
    first = part.operations[0] if isinstance(part, Step) and part.operations else None
    return first if isinstance(first, Loop) else None


def get_stored_rows(part: PlanPart) -> StoredRows | None:
    """Return the rows that a union inside of a loop stores; None for other parts."""
    first = part.operations[0] if isinstance(part, Step) and part.operations else None
    return first.stored if isinstance(first, WeightConversion) else None


def get_input_key(step: Step, keyed: KeyedOperation) -> tuple[ComputedColumn, ...]:
    """Return the key over the step's input columns, with earlier projections substituted."""
    key = keyed.key
    before = step.operations[: step.operations.index(keyed)]
    for operation in reversed(before):
        if isinstance(operation, Project):
            columns = {column.name: column.value for column in operation.columns}
            key = tuple(
                ComputedColumn(each.name, substitute_columns(each.value, columns)) for each in key
            )
    return key


def uses_wall_clock(part: PlanPart) -> bool:
    """Whether a step has timers or windows by the wall clock."""
    join = get_two_input_operation(part)
    if join is not None and isinstance(join.matching, ConnectedMatch):
        return join.matching.body.uses_wall_clock
    keyed = get_keyed_operation(part)
    if keyed is None:
        return False
    if isinstance(keyed, Process):
        return keyed.body.uses_wall_clock
    window = None if isinstance(keyed, Dedup) else keyed.window
    trigger = window.trigger if window else None
    ttl = keyed.ttl
    return bool(
        (window and window.uses_processing_time)
        or (trigger and trigger.uses_wall_clock)
        or (ttl and ttl.uses_processing_time)
    )


def has_clock_timers(part: PlanPart) -> bool:
    """Whether a part is a class with timers by the wall clock."""
    operations = part.operations if isinstance(part, Step) else ()
    bodies = filter(None, map(nodes.find_process_body, operations))
    return any(timer.processing for body in bodies for _, timer in body.timers)


def build_tasks(parts: Iterable[PlanPart], edges: Iterable[Edge]) -> tuple[Task, ...]:
    """Return the tasks, each with its parts in the order in which rows pass them."""
    edges = tuple(edges)
    parts = tuple(parts)
    heads = {part.name for part in parts if get_loop(part) is not None}
    slots = {part.name: part.slot for part in parts}
    own = {part.name for part in parts if begins_task(part)}
    readers = Counter(edge.producer for edge in edges)
    read = Counter(edge.consumer for edge in edges)
    follows: Mapping[str, str] = {
        edge.consumer: edge.producer
        for edge in edges
        if edge.exchange == "forward"
        and readers[edge.producer] == 1
        and read[edge.consumer] == 1
        and edge.consumer not in own
        and edge.producer not in heads
        and slots[edge.producer] == slots[edge.consumer]
    }
    chains: dict[str, list[PlanPart]] = {}
    for part in parts:
        chain = chains[follows[part.name]] if part.name in follows else []
        chain.append(part)
        chains[part.name] = chain
    distinct = {id(chain): chain for chain in chains.values()}.values()
    return tuple(
        Task(tuple(part.name for part in chain), chain[0].parallelism, chain[0].slot)
        for chain in distinct
    )


@cache_by_plan
def find_origins(plan: nodes.Plan) -> Mapping[str, tuple[frozenset[tuple[str, int]], ...]]:
    """Return the subtasks of sources, as name and index, that each subtask depends on, by part.

    A subtask is idle while all of them are. In joins, inputs without event time count only if no
    other one has it.
    """
    origins = dict[str, tuple[frozenset[tuple[str, int]], ...]]()
    for task in plan.tasks:
        first, subtasks = task.parts[0], range(task.parallelism)
        into = list_timed_edges(plan, first)
        shared = [origin for e in into if e.exchange != "forward" for origin in origins[e.producer]]
        common = frozenset[tuple[str, int]]().union(*shared)
        forward = [origins[e.producer] for e in into if e.exchange == "forward"]
        if not into:
            found = tuple(frozenset({(first, at)}) for at in subtasks)
        elif not forward:
            found = (common,) * task.parallelism
        else:
            found = tuple(common.union(*(each[at] for each in forward)) for at in subtasks)
        origins |= dict.fromkeys(task.parts, found)
    return origins


def list_timed_edges(plan: nodes.Plan, name: str) -> list[Edge]:
    """Return the edges to a part; those without event time only if none of a join's has it."""
    edges = [edge for edge in plan.edges if edge.consumer == name and not edge.is_feedback]
    timed = [edge for edge in edges if plan.streams[edge.stream].has_event_time]
    return timed if timed and get_two_input_operation(plan.part(name)) else edges


def begins_task(part: PlanPart) -> bool:
    """Whether a part never runs in the task of its input, whatever its input is."""
    if isinstance(part, Source) or not part.may_chain:
        return True
    keyed = get_keyed_operation(part)
    emits_first = isinstance(keyed, nodes.Aggregate) and keyed.emits_empty
    waits = uses_wall_clock(part) or get_lookup(part) is not None
    return emits_first or waits or get_loop(part) is not None
