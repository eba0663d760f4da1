"""Warnings about aggregates that cannot take rows in an order that belongs to the table.

The order of rows is a 64-bit integer, which a sequence of text, decimals or floats is not: rows of
such a table go by their event time. Rows of an aggregate or a join by keys over rows that change
go by the time of their last change. It depends on rows that are no longer there, and a batch does
not know it.

Tests: tests/core/plan/test_table_sources.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from headrace.core.pipeline.model import Pipeline
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.nodes import (
    Aggregate,
    Append,
    Apply,
    ChangeColumn,
    ChangeOrder,
    ComputedColumn,
    Dedup,
    Join,
    Process,
    RowTime,
    Step,
    StreamKind,
)
from headrace.core.plan.nodes.matching import ChangelogMatch
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.row_order import SEQUENCE_TYPES

ORDERED_CALLS = ("first", "first_value", "any_value", "last", "last_value", "collect_list")


def warn_of_unordered_tables(
    pipeline: Pipeline, steps: Iterable[Step], report: PlanProblems
) -> None:
    """Warn of the first aggregate of each step that would go by such a sequence or time."""
    tables: dict[str, tuple[str, ComputedColumn]] = {}
    """The source and the sequence of the rows, by stream."""
    orders = ChangeTimes()
    for step in steps:
        for unordered in orders.find_unordered(step):
            _warn_of_change_times(pipeline, step, unordered, report)
        table = next((tables[name] for name in step.inputs if name in tables), None)
        for operation in step.operations:
            match operation:
                case Dedup(changes=ChangeOrder(sequence=ComputedColumn() as sequence)):
                    has_order = sequence.value.type in SEQUENCE_TYPES
                    table = None if has_order else (step.inputs[0], sequence)
                case Aggregate():
                    _warn_of_calls(pipeline, step, operation, table, report)
                    table = None
                case Apply() | ChangeColumn() | Join() | Process() | RowTime():
                    table = None
        if table is not None:
            tables |= {stream.name: table for stream in step.outputs}


@dataclass(slots=True)
class ChangeTimes:
    """The streams of which rows have only the time of their last change."""

    _kinds: dict[str, StreamKind] = field(default_factory=dict)
    _found: set[str] = field(default_factory=set)

    def find_unordered(self, step: Step) -> Iterator[Aggregate]:
        """Yield the aggregates of a step that read such rows, after the steps that it reads."""
        kinds = [self._kinds.get(name) for name in step.inputs]
        changes = any(kind is not None and not isinstance(kind, Append) for kind in kinds)
        is_by_change = any(name in self._found for name in step.inputs)
        for operation in step.operations:
            match operation:
                case Aggregate():
                    if is_by_change:
                        yield operation
                    is_by_change = changes and operation.window is None
                case Join(matching=ChangelogMatch()):
                    is_by_change = changes
                case Apply() | ChangeColumn() | Process() | RowTime():
                    is_by_change = False
        self._kinds |= {stream.name: stream.kind for stream in step.outputs}
        if is_by_change:
            self._found |= {stream.name for stream in step.outputs}


def _warn_of_change_times(
    pipeline: Pipeline, step: Step, operation: Aggregate, report: PlanProblems
) -> None:
    text = next((text for text in _list_calls(operation) if not text.startswith("any_")), None)
    if text is None:
        return
    report.subject = f'step "{step.name}"'
    message = (
        f"{text} goes by the time of the last change of each row, so its result depends on rows "
        "that are no longer there, and differs with --batch"
    )
    hint = "min_by(x, y) and max_by(x, y) go by a column of the rows"
    report.warn(message, pipeline.steps[step.name].keys_at["aggregate"].locate(), hint)


def _list_calls(operation: Aggregate) -> Iterator[str]:
    """Yield the calls of an aggregate that depend on the order of rows."""
    for call in (call for c in operation.columns for call in c.expression.calls):
        text = call.name.removeprefix("__")
        if text.partition("(")[0] in ORDERED_CALLS:
            yield text


def _warn_of_calls(
    pipeline: Pipeline,
    step: Step,
    operation: Aggregate,
    table: tuple[str, ComputedColumn] | None,
    report: PlanProblems,
) -> None:
    if table is None:
        return
    source, sequence = table
    text = next(_list_calls(operation), None)
    if text is None:
        return
    report.subject = f'step "{step.name}"'
    message = (
        f'{text} does not go by the sequence of "{source}", which is of type {sequence.value.type}'
    )
    by = "max_by" if text.startswith("last") else "min_by"
    hint = f"an integer, a date or a timestamp orders rows; else use {by}(x, {sequence.text})"
    report.warn(message, pipeline.steps[step.name].keys_at["aggregate"].locate(), hint)
