"""Operators of operations with growing calls (`FunctionCall.growth`), whose values are bounded.

Rows pass in slices in which the values of each call together are within its limit, and a row with a
value above it fails. Operations without such calls have other operators, and cost nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.user_code import format_row
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.errors.value_errors import ValueTooLarge
from headrace.core.expressions.typed import (
    PROCESSING_TIME,
    ColumnReference,
    ProcessingTime,
    TypedExpression,
    walk,
)
from headrace.core.expressions.value_limits import BoundedExpressions
from headrace.core.operators.operator import FailedRow, Operator, Output, StatelessOperator
from headrace.core.operators.stateless_operators import ProjectionKernel, ProjectionStage
from headrace.core.operators.wrappers import OperatorWrapper
from headrace.core.plan import nodes
from headrace.core.plan.growing_operations import find_growing_expressions
from headrace.core.types.elements import DELETE, HIDDEN_COLUMNS
from headrace.core.types.out_of_range_times import format_out_of_range

if TYPE_CHECKING:
    import polars as pl

FailureHandler: TypeAlias = Callable[[list[FailedRow]], Iterator[Output]]
"""Takes the rows that fail, and returns what is emitted for them."""


class BoundedRows:
    """The input rows of an operation, in slices and without those that fail.

    `on_failure` takes the rows that fail; without it they fail the job.
    """

    def __init__(
        self,
        step: str,
        operation: nodes.Operation,
        now_us: Callable[[], int],
        on_failure: FailureHandler | None,
    ) -> None:
        expressions = find_growing_expressions(operation)
        self._step = step
        self._expressions = BoundedExpressions(expressions)
        self._now_us = now_us
        self._on_failure = on_failure
        every = (node for typed in expressions.values() for node in walk(typed))
        self._needs_now = any(isinstance(node, ProcessingTime) for node in every)

    def split(
        self, frame: pl.DataFrame
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame, Iterator[Output]]]:
        """Yield the rows that do not fail, the values of their growing expressions, and the output
        for the rows that fail."""
        import polars as pl

        if self._needs_now:
            frame = frame.with_columns(pl.lit(self._now_us()).alias(PROCESSING_TIME))
        for piece in self._expressions.evaluate(frame):
            rows, values, excess = piece.rows, piece.values, dict(piece.excess)
            if excess and DELETE in rows.columns:  # a delete needs no values
                excess = {at: text for at, text in excess.items() if not rows[DELETE][at]}
            failed: Iterator[Output] = iter(())
            if excess:
                failed = self._fail_rows(rows, excess)
                passed = pl.int_range(rows.height, eager=True).is_in(list(excess)).not_()
                rows, values = rows.filter(passed), values.filter(passed)
            yield rows.drop(PROCESSING_TIME, strict=False), values, failed

    def _fail_rows(self, rows: pl.DataFrame, excess: Mapping[int, str]) -> Iterator[Output]:
        visible = rows.drop(*HIDDEN_COLUMNS, PROCESSING_TIME, strict=False)
        shown = format_out_of_range(visible[list(excess)])
        named = [
            FailedRow(message, row)
            for message, row in zip(excess.values(), shown.iter_rows(named=True), strict=True)
        ]
        if self._on_failure is None or DELETE in rows.columns:
            with attribute_errors_to(self._step):
                raise ValueTooLarge(f"{named[0].error} (in the row {format_row(named[0].row)})")
        return self._on_failure(named)


class BoundedProjectionOperator(StatelessOperator):
    """The operator of a filter or projection with growing calls."""

    def __init__(
        self, stream: str, operation: nodes.Filter | nodes.Project, rows: BoundedRows
    ) -> None:
        self._stream = stream
        self._rows = rows
        self._kernel = ProjectionKernel(
            ProjectionStage().with_operation(stream, _read_values(operation))
        )

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows that pass, with the selected columns."""
        for rows, values, failed in self._rows.split(frame):
            yield from failed
            made = self._kernel(rows.hstack(values), Counter())
            yield self._stream, made.drop(values.columns, strict=False)


def _read_values(operation: nodes.Filter | nodes.Project) -> nodes.Filter | nodes.Project:
    """Return the operation with each growing expression replaced by the column of its value."""
    computed = {id(typed): name for name, typed in find_growing_expressions(operation).items()}

    def read(typed: TypedExpression) -> TypedExpression:
        name = computed.get(id(typed))
        return ColumnReference(typed.type, typed.nullable, typed.span, name) if name else typed

    if isinstance(operation, nodes.Filter):
        return replace(operation, condition=read(operation.condition))
    columns = (replace(column, value=read(column.value)) for column in operation.columns)
    return replace(operation, columns=tuple(columns))


class BoundedInputOperator(OperatorWrapper):
    """A wrapper of another operator that passes it the rows that do not fail."""

    def __init__(self, operator: Operator, rows: BoundedRows) -> None:
        super().__init__(operator)
        self._rows = rows

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows."""
        for rows, _, failed in self._rows.split(frame):
            yield from failed
            yield from self._operator.process(rows)
