"""The loops whose rounds are computed from whole tables, and the streams of such tables.

The head of a loop over a table sends either the differences between rounds, or the whole table (of
a delta iteration: the work set) in each round. With whole tables nothing is removed: a step inside
takes all rows of a round and computes its result once, without a state. Other inputs of a join,
such as the solution or rows from outside of the loop, stay stored from round to round.

A loop has whole tables if each step that reads them, directly or not, is known to compute them.

Tests: tests/core/plan/test_loops.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.core.plan import nodes
from headrace.core.plan.loop_bodies import list_loops
from headrace.core.plan.nodes.matching import ChangelogMatch, TableMatch
from headrace.core.plan.row_expressions import is_fallible_operation
from headrace.core.plan.window_clauses import list_user_code

_LONE_ROWS: dict[int, frozenset[nodes.JoinType]] = {
    0: frozenset({"left", "full", "semi", "anti"}),
    1: frozenset({"right", "full"}),
}
"""The types of joins that emit rows of a side by themselves."""


def mark_round_tables(parts: Iterable[nodes.PlanPart]) -> tuple[nodes.PlanPart, ...]:
    """Return the parts, in which loops with whole tables and the steps inside of them say so."""
    parts = tuple(parts)
    for head, loop in list_loops(parts):
        if loop.table is not None and (marked := _mark_readers(head, loop, parts)):
            table = replace(loop.table, sends_tables=True)
            marked[head.name] = replace(head, operations=(replace(loop, table=table),))
            parts = tuple(marked.get(part.name, part) for part in parts)
    return parts


def _mark_readers(
    head: nodes.Step, loop: nodes.Loop, parts: Sequence[nodes.PlanPart]
) -> dict[str, nodes.PlanPart]:
    """Return the steps that compute the tables of rounds; none if some step cannot."""
    if any(stream.has_row_order for stream in head.outputs):
        return {}
    tables = {loop.list_inner_streams(head.name)[0]}
    marked = dict[str, nodes.PlanPart]()
    for part in parts:
        if isinstance(part, nodes.Step) and (read := tables.intersection(part.inputs)):
            if not _computes_tables(part, [name in read for name in part.inputs]):
                return {}
            marked[part.name] = replace(part, round_inputs=frozenset(read))
            tables.update(stream.name for stream in part.outputs)
    return marked if loop.feedback in tables else {}


def _computes_tables(step: nodes.Step, in_rounds: Sequence[bool]) -> bool:
    """Whether a step can compute whole tables; `in_rounds` says which inputs are such tables."""
    if step.on_error != "fail" or any(stream.has_row_order for stream in step.outputs):
        return False
    first = step.operations[0] if step.operations else None
    is_join = isinstance(first, nodes.Join)
    if not is_join and not all(in_rounds):
        return False
    return all(_computes_table(operation, in_rounds) for operation in step.operations)


def _computes_table(operation: nodes.Operation, in_rounds: Sequence[bool]) -> bool:
    match operation:
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
