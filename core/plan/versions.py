"""The versions of a table's rows: all changes of the table, for an `as_of` join.

A stream of upserts has the newest row of each key: the step `NAME@table` passes over older changes,
and `dedup` over the earlier rows of a batch. `as_of` needs each of them, at its own event time. So
it reads what is in front of such a step. Filters and projections behind it are repeated, in a step
`NAME@versions`. Steps that nothing reads then are left out of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import field, replace

from headrace.core.plan import nodes
from headrace.core.plan.changelog import ChangelogNotSupported, describe_kind, infer_kind
from headrace.core.plan.conversions import format_conversion_name
from headrace.core.plan.nodes.matching import AsOfMatch
from headrace.core.plan.row_expressions import is_fallible_operation
from headrace.core.types.lazy_dataclass import dataclass

ACCEPTED_HINT = (
    "as_of reads the table of a source or a dedup with keep: last, and where, select, with and "
    "drop of these; the results of an aggregate in a window are rows, and no changes"
)
ON_HINT = "as_of can compare it: write the condition into on"
FALLIBLE_HINT = "leave out on_error, or compute it after the join"


@dataclass(frozen=True, slots=True)
class Versions:
    """A stream with all versions of rows, and the value that orders those of one time, if any."""

    stream: nodes.Stream
    sequence: nodes.ComputedColumn | None = None

    def read_in(self, join: nodes.Join) -> nodes.Join:
        """Return an `as_of` join that reads them as its right input."""
        assert isinstance(join.matching, AsOfMatch), "no other join reads versions"
        deletes = _has_deletes(self.stream.kind)
        return replace(
            join, matching=replace(join.matching, sequence=self.sequence, has_deletes=deletes)
        )


@dataclass(frozen=True, slots=True)
class VersionSteps:
    """The streams of versions in a plan; a new one is added to the streams and parts."""

    streams: MutableMapping[str, nodes.Stream]
    parts: MutableMapping[str, nodes.Source | nodes.Step]
    producers: Mapping[str, str]
    """The part that produces each stream."""
    _bypassed: list[str] = field(default_factory=list)
    """The steps in front of which versions are read."""

    def find(self, name: str) -> Versions:
        """Return the versions of the rows of a stream. Raises ChangelogNotSupported."""
        stream = self.streams[name]
        if isinstance(stream.kind, nodes.Append):
            return Versions(stream)
        if isinstance(stream.kind, nodes.Retract):
            raise _reject(stream)
        step = self.parts[self.producers[stream.name]]
        assert isinstance(step, nodes.Step), "the changes of a source are read through a step"
        self._bypassed.append(step.name)
        before, dedup, after = _split_at_dedup(step.operations)
        if dedup is not None and dedup.changes is not None:
            return self._find_source_changes(step)
        if not _is_repeatable((*before, *after)):
            raise _reject(stream)
        if step.on_error != "fail" and any(map(is_fallible_operation, step.operations)):
            message = f'as_of does not take the rows of "{name}", because on_error leaves some out'
            raise ChangelogNotSupported(message, FALLIBLE_HINT, "join")
        return self._repeat_step(step, before, dedup, after)

    def list_needed_steps(self, sinks: Iterable[nodes.Sink]) -> Iterator[nodes.Step]:
        """Yield the steps of the plan, without those that only the reading of versions needed."""
        steps = [part for part in self.parts.values() if isinstance(part, nodes.Step)]
        read = {sink.input for sink in sinks}
        needed = []
        for step in reversed(steps):
            if step.name in self._bypassed and read.isdisjoint(out.name for out in step.outputs):
                continue
            read.update(step.inputs)
            needed.append(step)
        return reversed(needed)

    def _find_source_changes(self, step: nodes.Step) -> Versions:
        """Return the changes of a source, which the step of its table reads."""
        source = self.parts[step.inputs[0]]
        assert isinstance(source, nodes.Source), "the step of a table reads its source"
        assert source.table is not None, "it is a table"
        versions = replace(source.table, has_versions=True)
        self.parts[source.name] = replace(source, table=versions)
        return Versions(source.outputs[0], source.table.sequence)

    def _repeat_step(
        self,
        step: nodes.Step,
        before: tuple[nodes.Operation, ...],
        dedup: nodes.Dedup | None,
        after: tuple[nodes.Operation, ...],
    ) -> Versions:
        """Return the output of a step that does the same with all versions."""
        inputs, sequence = step.inputs, None
        if dedup is not None:
            kind: nodes.StreamKind = nodes.Upsert(tuple(column.name for column in dedup.key))
        else:
            found = self.find(step.inputs[0])
            inputs, kind, sequence = (found.stream.name,), found.stream.kind, found.sequence
        for operation in after:
            if isinstance(operation, nodes.Filter) and not _has_deletes(kind):
                message = f'as_of does not take the rows of "{step.name}", which filters a dedup'
                raise ChangelogNotSupported(message, ON_HINT, "join")
            kind = infer_kind(operation, kind)
        name = format_conversion_name(step.name, "versions")
        out = replace(step.outputs[0], name=name, kind=kind)
        self.streams[name] = out
        self.parts[name] = replace(
            step,
            name=name,
            inputs=inputs,
            operations=(*before, *after),
            on_error="fail",
            outputs=(out,),
            side_outputs=frozenset(),
        )
        return Versions(out, sequence)


def _split_at_dedup(
    operations: tuple[nodes.Operation, ...],
) -> tuple[tuple[nodes.Operation, ...], nodes.Dedup | None, tuple[nodes.Operation, ...]]:
    """Return the dedup among operations, with those before and after it."""
    for at, operation in enumerate(operations):
        if isinstance(operation, nodes.Dedup):
            return operations[:at], operation, operations[at + 1 :]
    return (), None, operations


def _is_repeatable(operations: Iterable[nodes.Operation]) -> bool:
    """Whether a second step may do the same work: it has no state and no side effects."""
    return all(isinstance(operation, nodes.Filter | nodes.Project) for operation in operations)


def _has_deletes(kind: nodes.StreamKind) -> bool:
    """Whether the rows say whether they delete the row with their key, as filters need."""
    return isinstance(kind, nodes.Upsert) and kind.has_deletes


def _reject(stream: nodes.Stream) -> ChangelogNotSupported:
    """Return the error for a stream whose earlier rows are not known."""
    assert not isinstance(stream.kind, nodes.Append), "each of its rows is a version"
    return ChangelogNotSupported(
        f"as_of does not take {describe_kind(stream.kind)}: only the last of several changes "
        "may be there",
        ACCEPTED_HINT,
        "join",
    )
