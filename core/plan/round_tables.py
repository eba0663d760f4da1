"""The loops whose rounds are computed from whole tables, and the streams of such tables.

The head of a loop over a table sends either the differences between rounds, or the whole table (of
a delta iteration: the work set) in each round. With whole tables nothing is removed: a step inside
takes all rows of a round and computes its result once, without a state. Other inputs of a join,
such as the solution or rows from outside of the loop, stay stored from round to round. So do rows
from outside that a union adds to each table.

A loop has whole tables if each step that reads them, directly or not, is known to compute them.

Tests: tests/core/plan/test_loops.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from headrace.core.expressions.typed import ColumnReference, is_fallible
from headrace.core.pipeline.loader import PlanVersion
from headrace.core.plan import nodes
from headrace.core.plan.layout import (
    get_input_key,
    get_keyed_operation,
    get_stored_rows,
    get_two_input_operation,
    reference_columns,
)
from headrace.core.plan.loop_bodies import list_loops
from headrace.core.plan.nodes.matching import ChangelogMatch, TableMatch
from headrace.core.plan.row_expressions import is_fallible_operation
from headrace.core.plan.row_order_demand import needs_row_order
from headrace.core.plan.window_clauses import list_user_code
from headrace.core.types.data_types import FLOAT_TYPES, Type, is_nested

_LONE_ROWS: dict[int, frozenset[nodes.JoinType]] = {
    0: frozenset({"left", "full", "semi", "anti"}),
    1: frozenset({"right", "full"}),
}
"""The types of joins that emit rows of a side by themselves."""


def mark_round_tables(
    parts: Iterable[nodes.PlanPart], version: PlanVersion
) -> tuple[nodes.PlanPart, ...]:
    """Return the parts, in which loops with whole tables and the steps inside of them say so."""
    parts = tuple(parts)
    streams = {
        s.name: s for part in parts if not isinstance(part, nodes.Sink) for s in part.outputs
    }
    for head, loop in list_loops(parts):
        marked = {} if loop.table is None else _mark_readers(head, loop, parts, streams)
        if loop.table is None or not marked:
            continue
        needs_newer = any(map(_needs_newer_version, (head, *marked.values())))
        if not needs_newer or version > PlanVersion.ROUND_STEPS:
            marked = {n: replace(s, max_round_bytes=loop.max_bytes) for n, s in marked.items()}
            table = replace(loop.table, sends_tables=True)
            marked[head.name] = replace(head, operations=(replace(loop, table=table),))
            parts = tuple(marked.get(part.name, part) for part in parts)
    return parts


def _needs_newer_version(step: nodes.Step) -> bool:
    """Whether a plan of `PlanVersion.ROUND_STEPS` has no whole tables in such a step."""
    return get_stored_rows(step) is not None or any(s.has_row_order for s in step.outputs)


def _mark_readers(
    head: nodes.Step,
    loop: nodes.Loop,
    parts: Sequence[nodes.PlanPart],
    streams: Mapping[str, nodes.Stream],
) -> dict[str, nodes.Step]:
    """Return the steps that compute the tables of rounds; none if some step cannot."""
    inside = set(loop.list_inner_streams(head.name))
    tables = {loop.list_inner_streams(head.name)[0]}
    marked = dict[str, nodes.Step]()
    for part in parts:
        if not isinstance(part, nodes.Step) or inside.isdisjoint(part.inputs):
            continue
        if read := tables.intersection(part.inputs):
            outside = [streams[name] for name in part.inputs if name not in inside]
            if (step := _mark_reader(part, read, outside)) is None:
                return {}
            marked[part.name] = step
            tables.update(stream.name for stream in part.outputs)
        inside.update(stream.name for stream in part.outputs)
    return marked if loop.feedback in tables else {}


def _mark_reader(
    step: nodes.Step, read: Collection[str], outside: Sequence[nodes.Stream]
) -> nodes.Step | None:
    """Return the step that computes the tables of rounds; None if it cannot.

    `read` are the inputs that are such tables, and `outside` those that a union may store.
    """
    if not _computes_tables(step, [name in read for name in step.inputs]):
        return None
    marked = replace(step, round_inputs=frozenset(read))
    others = len(step.inputs) - len(read)
    if not others or get_two_input_operation(step) is not None:
        return marked
    return _store_rows(marked, outside) if len(outside) == others else None


def _store_rows(step: nodes.Step, outside: Sequence[nodes.Stream]) -> nodes.Step | None:
    """Return the union that stores the rows of some inputs; None if it cannot."""
    first, *others = step.operations
    assert isinstance(first, nodes.WeightConversion), "the tables of rounds are changes"
    needed, keyed = first.columns, get_keyed_operation(step)
    columns = tuple(f for f in outside[0].schema if needed is None or f.name in needed)
    if keyed is None:  # a row that is removed comes to the subtask that it was added in
        key = reference_columns(f for f in columns if _is_same_as_key(f.type))
    else:
        key = _name_key_columns(get_input_key(step, keyed))
    if not columns or any(is_fallible(column.value) for column in key):
        return None
    inputs = frozenset(stream.name for stream in outside)
    is_ordered = all(stream.has_row_order for stream in outside)
    stored = nodes.StoredRows(inputs, columns, key, is_ordered)
    return replace(step, operations=(replace(first, stored=stored), *others))


def _name_key_columns(key: Iterable[nodes.ComputedColumn]) -> tuple[nodes.ComputedColumn, ...]:
    """Return a key in which values that stand for a column of the rows have its name."""
    named = dict[str, nodes.ComputedColumn]()
    for at, each in enumerate(key):
        value, name = each.value, f"__key{at}"
        if isinstance(value, ColumnReference) and _is_same_as_key(value.type):
            name = name if value.name in named else value.name
        named[name] = replace(each, name=name)
    return tuple(named.values())


def _is_same_as_key(type: Type) -> bool:
    """Whether a value of the key stands for a value of the column: as a key, zero has no sign."""
    return not (is_nested(type) or type in FLOAT_TYPES)


def _computes_tables(step: nodes.Step, in_rounds: Sequence[bool]) -> bool:
    """Whether a step can compute whole tables; `in_rounds` says which inputs are such tables."""
    return step.on_error == "fail" and all(
        _computes_table(operation, in_rounds) for operation in step.operations
    )


def _computes_table(operation: nodes.Operation, in_rounds: Sequence[bool]) -> bool:
    match operation:
        case nodes.Top(window=None, ttl=None, time_column=""):
            return not is_fallible_operation(operation)
        case _ if needs_row_order(operation):  # the rows of a table have no order of their own
            return False
        case nodes.Filter() | nodes.Project() | nodes.Explode() | nodes.WeightConversion():
            return True
        case nodes.ChangelogConversion(output="retract", form=None):
            return True
        case nodes.Aggregate(window=None, ttl=None, emits_empty=False):
            return not is_fallible_operation(operation) and not list_user_code(operation)
        case nodes.Join(matching=TableMatch(ttl_us=None)):
            stored = [which for which, in_round in enumerate(in_rounds) if not in_round]
            is_stored_alone = any(operation.type in _LONE_ROWS[which] for which in stored)
            return not is_stored_alone and not is_fallible_operation(operation)
        case nodes.Join(matching=ChangelogMatch(ttl=None)):
            return all(in_rounds) and not is_fallible_operation(operation)
    return False
