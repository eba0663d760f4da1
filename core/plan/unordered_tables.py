"""Warnings about aggregates that cannot take rows in the order of their table's sequence.

The order of rows is a 64-bit integer, which a sequence of text, decimals or floats is not: rows of
such a table go by their event time.

Tests: tests/core/plan/test_table_sources.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.pipeline.model import Pipeline
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    ChangeColumn,
    ChangeOrder,
    ComputedColumn,
    Dedup,
    Join,
    Process,
    RowTime,
    Step,
)
from headrace.core.types.row_order import SEQUENCE_TYPES

ORDERED_CALLS = ("first", "first_value", "any_value", "last", "last_value", "collect_list")


def warn_of_unordered_tables(
    pipeline: Pipeline, steps: Iterable[Step], report: PlanProblems
) -> None:
    """Warn of the first aggregate of each step that would go by such a sequence."""
    tables: dict[str, tuple[str, ComputedColumn]] = {}
    """The source and the sequence of the rows, by stream."""
    for step in steps:
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
    texts = (call.name.removeprefix("__") for c in operation.columns for call in c.expression.calls)
    text = next((text for text in texts if text.partition("(")[0] in ORDERED_CALLS), None)
    if text is None:
        return
    report.subject = f'step "{step.name}"'
    message = (
        f'{text} does not go by the sequence of "{source}", which is of type {sequence.value.type}'
    )
    hint = f"an integer, a date or a timestamp orders rows; else use min_by(x, {sequence.text})"
    report.warn(message, pipeline.steps[step.name].keys_at["aggregate"].locate(), hint)
