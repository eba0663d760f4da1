"""The kinds of the streams in a step, from its inputs to its output.

A step that does not accept upserts may accept retractions: then its inputs are converted.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from headrace.core.pipeline.model import Step
from headrace.core.plan import nodes
from headrace.core.plan.changelog import (
    ChangelogNotSupported,
    ValuesNotRepeatable,
    infer_kind,
    infer_union_kind,
    to_retractions,
    to_upserts,
    with_input_kind,
)
from headrace.core.plan.fallible_results import split_results
from headrace.core.plan.join_kinds import infer_join_kind, may_repeat_key
from headrace.core.plan.nodes.matching import ChangelogMatch, TableMatch
from headrace.core.plan.row_expressions import is_fallible_operation
from headrace.core.plan.table_dedup import build_table_dedup
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StepKinds:
    """The kind of a step's output, and its operations with the kinds of their inputs."""

    kind: nodes.StreamKind
    operations: tuple[nodes.Operation, ...]
    reads_retractions: bool = False
    """Whether inputs that are upserts must be converted."""
    reads_upserts: bool = False
    """Whether inputs that are retractions must be converted."""
    regrouped_joins: frozenset[str] = frozenset()
    """The full joins whose rows this step stores by their key, although two may have the same."""


def infer_step_kinds(
    step: Step,
    operations: tuple[nodes.Operation, ...],
    kinds: Sequence[nodes.StreamKind],
    keyless_joins: Container[str] = (),
) -> StepKinds:
    """Return the kinds in a step with these inputs. Raises ChangelogNotSupported.

    `keyless_joins` are the steps whose joins emit rows without a key.
    """
    match operations:
        case (nodes.Join() as join, *others) if len(kinds) == 2:
            if step.name in keyless_joins:
                join = replace(join, matching=TableMatch(has_key=False))
            found = _infer_join_kinds(step, join, others, (kinds[0], kinds[1]))
        case _:
            found = _infer_rows_kinds(step, operations, kinds)
    if found.reads_retractions or any(map(_stores_upserts, found.operations)):
        return replace(found, regrouped_joins=_find_indistinct_joins(step, found.operations, kinds))
    return found


def _stores_upserts(operation: nodes.Operation) -> bool:
    """Whether an operation stores the rows of its groups by the key of the upserts."""
    return (
        isinstance(operation, nodes.Aggregate | nodes.Top) and operation.changelog_key is not None
    )


def _find_indistinct_joins(
    step: Step, operations: Sequence[nodes.Operation], kinds: Sequence[nodes.StreamKind]
) -> frozenset[str]:
    """Return the full joins, up to that of this step, two of whose rows may have the same key."""
    joins = {
        join for kind in kinds if isinstance(kind, nodes.Upsert) for join in kind.indistinct_joins
    }
    match operations:
        case (nodes.Join(matching=ChangelogMatch(ttl=None)) as join, *_):
            if may_repeat_key(join, (kinds[0], kinds[1])):
                joins.add(str(step.name))
    return frozenset(joins)


def _infer_rows_kinds(
    step: Step, operations: tuple[nodes.Operation, ...], kinds: Sequence[nodes.StreamKind]
) -> StepKinds:
    """Return the kinds in a step whose inputs have the same columns."""
    if step.join or step.broadcast or step.connect:
        return StepKinds(nodes.Append(), operations)
    try:
        return _infer_union_kinds(step, operations, kinds)
    except ChangelogNotSupported as error:
        match kinds:
            case (nodes.Retract(key=tuple()) as kind,):
                return _infer_by_key(step, operations, kind, error)
        if not any(isinstance(each, nodes.Upsert) for each in kinds):
            raise
        retractions = [to_retractions(kind) for kind in kinds]
        try:
            found = _infer_union_kinds(step, operations, retractions)
        except ValuesNotRepeatable:
            raise error from None
        return replace(found, reads_retractions=True)


def _infer_by_key(
    step: Step,
    operations: tuple[nodes.Operation, ...],
    kind: nodes.Retract,
    error: ChangelogNotSupported,
) -> StepKinds:
    """Return the kinds in a step that reads its rows by their key; else raise the error."""
    try:
        found = _infer_union_kinds(step, operations, (to_upserts(kind),))
    except ChangelogNotSupported:
        raise error from None
    return replace(found, reads_upserts=True)


def _infer_union_kinds(
    step: Step, operations: tuple[nodes.Operation, ...], kinds: Sequence[nodes.StreamKind]
) -> StepKinds:
    """Return the kinds in a step with any number of inputs, which all have the same columns."""
    kind = infer_union_kind(tuple(kinds))
    if len(kinds) > 1 and isinstance(kind, nodes.Retract):
        operations = (nodes.WeightConversion(), *operations)
    return _infer_kinds(step, operations, kind)


def _infer_join_kinds(
    step: Step,
    join: nodes.Join,
    others: Sequence[nodes.Operation],
    kinds: tuple[nodes.StreamKind, nodes.StreamKind],
) -> StepKinds:
    """Return the kinds in a step that begins with a join.

    What follows a join of upserts may need retractions; then the join emits them.
    """
    try:
        kind = infer_join_kind(join, *kinds)
        if isinstance(kind, nodes.Upsert):
            indistinct_joins = _find_indistinct_joins(step, (join,), kinds)
            kind = replace(kind, indistinct_joins=indistinct_joins)
        found = _infer_kinds(step, others, kind)
    except ChangelogNotSupported:
        if not isinstance(join.matching, ChangelogMatch) or join.matching.ttl is not None:
            raise
        join = replace(join, matching=TableMatch())
        found = _infer_kinds(step, others, infer_join_kind(join, *kinds))
    return replace(
        found,
        operations=(join, *found.operations),
        reads_retractions=isinstance(join.matching, TableMatch),
    )


def _infer_kinds(
    step: Step, operations: Sequence[nodes.Operation], kind: nodes.StreamKind
) -> StepKinds:
    """Return the kinds after operations over a stream of this kind."""
    typed: list[nodes.Operation] = []
    skips = step.on_error.action != "fail"
    pending = [part for each in reversed(operations) for part in reversed(split_results(each))]
    while pending:
        operation = pending.pop()
        if isinstance(operation, nodes.Dedup) and isinstance(kind, nodes.Retract):
            pending += reversed(build_table_dedup(operation, kind))
            continue
        typed.append(with_input_kind(operation, kind))
        if is_fallible_operation(operation) and skips:
            if isinstance(kind, nodes.Retract):
                message = "on_error does not go with rows that are added and removed"
                raise ChangelogNotSupported(message, "leave it out", "on_error")
            if isinstance(kind, nodes.Upsert):
                # A change that fails deletes the row before it.
                kind = replace(kind, has_deletes=True)
        kind = infer_kind(operation, kind)
    return StepKinds(kind, tuple(typed))
