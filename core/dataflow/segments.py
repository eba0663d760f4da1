"""The segments of a task: the operations of consecutive steps, grouped by the operator to run them.

Adjacent `where`, `select`, `with` and `drop` operations are one segment, across steps; every other
operation is a segment of its own, as are those whose expressions may fail. Streams between
the segments of a step have internal names, which no pipeline can use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.core.plan import nodes
from headrace.core.plan.row_expressions import is_fallible_operation
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """The operations of one operator: column operations, or a single other operation."""

    step: nodes.Step
    """The step of the last operation."""
    input_stream: str
    output_stream: str
    columns: tuple[tuple[str, nodes.Filter | nodes.Project], ...] = ()
    """The column operations, each with the name of its step."""
    operation: nodes.Operation | None = None
    """The other operation; a step without operations has neither."""

    @property
    def ends_step(self) -> bool:
        """Whether the output stream is that of the step."""
        return self.output_stream == self.step.name


def cut_segments(steps: Sequence[nodes.Step]) -> list[Segment]:
    """Cut the operations of consecutive steps into segments, each reading the one before."""
    work = [(step, operation) for step in steps for operation in step.operations or (None,)]
    segments: list[Segment] = []
    name, at = steps[0].name + "#" if steps else "", 0
    while at < len(work):
        columns = tuple(_iterate_column_operations(work[at:]))
        at += max(len(columns), 1)
        step, operation = work[at - 1]
        following = work[at][0] if at < len(work) else None
        output_stream = f"{step.name}#{at}" if following is step else step.name
        segments.append(Segment(step, name, output_stream, columns, None if columns else operation))
        if following is not None:
            name = output_stream if following is step else following.inputs[0]
    return segments


def _iterate_column_operations(
    work: Sequence[tuple[nodes.Step, nodes.Operation | None]],
) -> Iterator[tuple[str, nodes.Filter | nodes.Project]]:
    """Iterate over the column operations before the first other one."""
    for step, operation in work:
        if not isinstance(operation, nodes.Filter | nodes.Project):
            return
        if is_fallible_operation(operation):
            return
        yield step.name, operation
