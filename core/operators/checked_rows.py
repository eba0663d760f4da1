"""Operators of operations whose expressions may fail for a row (`typed.is_fallible`).

A row fails if a call that it uses fails, as `raise_error` does, or makes too large a value. Rows
pass in slices in which the values of each growing call together are within its limit. Operations
without such calls have other operators, and cost nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.user_code import format_row
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions.checked_expressions import CheckedExpressions
from headrace.core.expressions.typed import (
    PROCESSING_TIME,
    ColumnReference,
    ProcessingTime,
    TypedExpression,
    walk,
)
from headrace.core.operators.operator import (
    FailedRow,
    Operator,
    Output,
    StatelessOperator,
    TwoInputOperator,
)
from headrace.core.operators.stateless_operators import ProjectionKernel, ProjectionStage
from headrace.core.operators.wrappers import OperatorWrapper
from headrace.core.plan import nodes
from headrace.core.plan.row_expressions import RowExpression, replace_expressions
from headrace.core.types.elements import DELETE, HIDDEN_COLUMNS, WEIGHT
from headrace.core.types.out_of_range_times import format_out_of_range

if TYPE_CHECKING:
    import polars as pl

FailureHandler: TypeAlias = Callable[[list[FailedRow]], Iterator[Output]]
"""Takes the rows that fail, and returns what is emitted for them."""

RowFailures: TypeAlias = Mapping[str, Mapping[int, ExpressionFailure]]
"""The rows that fail, by index, for the columns of the values."""


class CheckedRows:
    """The input rows of an operation, in slices and without those that fail.

    `on_failure` takes the rows that fail; without it they fail the job. A change that fails becomes
    a delete, so that no earlier row of its key stays. If its group's key fails, no row was there.
    """

    def __init__(
        self,
        step: str,
        fallible: Sequence[RowExpression],
        now_us: Callable[[], int],
        on_failure: FailureHandler | None,
    ) -> None:
        """`fallible` are the expressions of the operation that may fail."""
        self._step = step
        self._fallible = {f"__value{at}": each for at, each in enumerate(fallible)}
        typed = {name: each.typed for name, each in self._fallible.items()}
        self._expressions = CheckedExpressions(typed)
        self._now_us = now_us
        self._on_failure = on_failure
        every = (node for value in typed.values() for node in walk(value))
        self._needs_now = any(isinstance(node, ProcessingTime) for node in every)

    @property
    def values(self) -> Mapping[str, TypedExpression]:
        """The expressions that may fail, by the column of their values."""
        return {name: each.typed for name, each in self._fallible.items()}

    def split(
        self, frame: pl.DataFrame
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame, Iterator[Output]]]:
        """Yield the rows that do not fail, the values of their fallible expressions, and the output
        for the rows that fail."""
        import polars as pl

        if self._needs_now:
            frame = frame.with_columns(pl.lit(self._now_us()).alias(PROCESSING_TIME))
        for piece in self._expressions.evaluate(frame):
            rows, values = piece.rows, piece.values
            failed: Iterator[Output] = iter(())
            if piece.failures:
                failed = self._fail_rows(rows, piece.failures)
                dropped = self._find_dropped_rows(rows, piece.failures)
                rows = _delete_rows(rows, piece.failures)
                if dropped:
                    passed = pl.int_range(rows.height, eager=True).is_in(sorted(dropped)).not_()
                    rows, values = rows.filter(passed), values.filter(passed)
            yield rows.drop(PROCESSING_TIME, strict=False), values, failed

    def _find_dropped_rows(self, rows: pl.DataFrame, failures: RowFailures) -> set[int]:
        """Return the rows that do not pass: of changes only those without a group."""
        changes = DELETE in rows.columns
        names = (name for name in failures if self._fallible[name].is_key or not changes)
        return {row for name in names for row in failures[name]}

    def _fail_rows(self, rows: pl.DataFrame, failures: RowFailures) -> Iterator[Output]:
        found: dict[int, tuple[str, ExpressionFailure]] = {}
        for name, of_rows in failures.items():
            for row, failure in of_rows.items():
                if DELETE not in rows.columns or not rows[DELETE][row]:  # a delete has no values
                    found.setdefault(row, (self._fallible[name].place, failure))
        if not found:
            return iter(())
        found = dict(sorted(found.items()))
        visible = rows.drop(*HIDDEN_COLUMNS, PROCESSING_TIME, strict=False)
        shown = format_out_of_range(visible[list(found)]).iter_rows(named=True)
        if self._on_failure is None:
            place, failure = next(iter(found.values()))
            with attribute_errors_to(self._step):
                message = f"{failure.message} (in {place}, in the row {format_row(next(shown))})"
                raised = type(failure)(message)
                if WEIGHT in rows.columns:
                    raised.hint = raised.unskippable_hint
                raise raised
        return self._on_failure(
            [
                FailedRow(f"{failure.message} (in {place})", row)
                for (place, failure), row in zip(found.values(), shown, strict=True)
            ]
        )


def _delete_rows(rows: pl.DataFrame, failures: RowFailures) -> pl.DataFrame:
    """Return changes with a delete for each row that fails; other rows as they are."""
    import polars as pl

    if DELETE not in rows.columns:
        return rows
    failed = {row for of_rows in failures.values() for row in of_rows}
    deleted = pl.int_range(rows.height, eager=True).is_in(sorted(failed))
    return rows.with_columns((rows[DELETE] | deleted).alias(DELETE))


class CheckedProjectionOperator(StatelessOperator):
    """The operator of a filter or projection with expressions that may fail."""

    def __init__(
        self, stream: str, operation: nodes.Filter | nodes.Project, rows: CheckedRows
    ) -> None:
        self._stream = stream
        self._rows = rows
        self._kernel = ProjectionKernel(
            ProjectionStage().with_operation(stream, _read_values(operation, rows.values))
        )

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows that pass, with the selected columns."""
        for rows, values, failed in self._rows.split(frame):
            yield from failed
            made = self._kernel(rows.hstack(values), Counter())
            yield self._stream, made.drop(values.columns, strict=False)


def _read_values(
    operation: nodes.Filter | nodes.Project, values: Mapping[str, TypedExpression]
) -> nodes.Filter | nodes.Project:
    """Return the operation with each fallible expression replaced by the column of its value."""
    computed = {id(typed): name for name, typed in values.items()}

    def read(typed: TypedExpression) -> TypedExpression:
        name = computed.get(id(typed))
        return ColumnReference(typed.type, typed.nullable, typed.span, name) if name else typed

    return replace_expressions(operation, read)


class CheckedInputOperator(OperatorWrapper):
    """A wrapper of another operator that passes it the rows that do not fail."""

    def __init__(self, operator: Operator, rows: CheckedRows) -> None:
        super().__init__(operator)
        self._rows = rows

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows."""
        for rows, _, failed in self._rows.split(frame):
            yield from failed
            yield from self._operator.process(rows)


class CheckedTwoInputOperator(CheckedInputOperator):
    """A wrapper of an operator of two inputs that passes it the rows that do not fail."""

    def __init__(self, operator: TwoInputOperator, left: CheckedRows, right: CheckedRows) -> None:
        super().__init__(operator, left)
        self._two_input = operator
        self._right_rows = right

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Process rows of the right input."""
        for rows, _, failed in self._right_rows.split(frame):
            yield from failed
            yield from self._two_input.process_right(rows)
