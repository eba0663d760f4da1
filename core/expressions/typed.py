"""Typed expressions: names are resolved, types are known, and the tree compiles to Polars.

There are four kinds of node: a column, a constant, a function applied to arguments, and the
processing time of the batch. All that a function needs besides its arguments (a compiled pattern, a
result scale) is inside its `form`, so compiling is one walk without a case per function. Implicit
casts are ordinary nodes: the typed tree is exactly what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal as PythonDecimal
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.types.data_types import TIMESTAMP, Field, Type, to_polars

if TYPE_CHECKING:
    import polars as pl

# A constant of an interval type is a whole number: of microseconds, or of months.
ConstantValue: TypeAlias = bool | int | float | PythonDecimal | str | bytes | date | datetime | None
PolarsForm: TypeAlias = "Callable[..., pl.Expr]"

AS_WRITTEN, NO_SPARK_FORM = "", "ours"
"""The Spark form of a function: its text as written; or none, since Spark's result would differ."""

PROCESSING_TIME = "__now"
"""The hidden column in which the executor provides the processing time of a batch."""


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `[start, end)` of an expression's text."""

    start: int
    end: int

    def extend_to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of the other."""
        return Span(self.start, other.end)


NOWHERE = Span(0, 0)
"""The span of an expression that nobody wrote."""


class ExpressionError(Exception):
    """An error in an expression: message, span of the text, and a hint how to correct it."""

    def __init__(self, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint


class ExpressionErrors(Exception):
    """All errors of one expression, from left to right."""

    def __init__(self, errors: Iterable[ExpressionError]) -> None:
        self.errors = tuple(sorted(errors, key=lambda error: error.span.start))
        super().__init__("; ".join(error.message for error in self.errors))


@dataclass(frozen=True, slots=True)
class TypedExpression:
    """A typed expression; the subclasses below are the only ones."""

    type: Type
    nullable: bool
    span: Span


@dataclass(frozen=True, slots=True)
class ColumnReference(TypedExpression):
    """A column of the input."""

    name: str


def reference_field(field: Field) -> ColumnReference:
    """Return the reference to a column of the input that no text names."""
    return ColumnReference(field.type, field.nullable, NOWHERE, field.name)


@dataclass(frozen=True, slots=True)
class Constant(TypedExpression):
    r"""A value known when the expression is typed.

    `lost_escape` is an escape in its text that has no meaning, like `\d`.
    """

    value: ConstantValue
    lost_escape: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class FunctionCall(TypedExpression):
    """A function of columns: `form(*compiled arguments)` is its Polars expression.

    `spark` is the expression for Spark: `AS_WRITTEN`, `NO_SPARK_FORM`, or a text in which `{0}`,
    `{1}` are the arguments as written.
    """

    function: str
    arguments: tuple[TypedExpression, ...]
    form: PolarsForm
    spark: str = field(default=AS_WRITTEN, compare=False)


@dataclass(frozen=True, slots=True)
class ProcessingTime(TypedExpression):
    """The time at which a batch is processed: one value a batch, provided by the executor."""


def to_expr(typed: TypedExpression) -> pl.Expr:
    """Compile to the equivalent Polars expression over the input columns by name."""
    import polars as pl

    match typed:
        case ColumnReference():
            return pl.col(typed.name)
        case Constant():
            return pl.lit(typed.value, dtype=to_polars(typed.type))
        case FunctionCall():
            return typed.form(*map(to_expr, typed.arguments))
        case ProcessingTime():
            return pl.col(PROCESSING_TIME).cast(to_polars(TIMESTAMP))
    raise AssertionError(typed)


def walk(typed: TypedExpression) -> Iterator[TypedExpression]:
    """Yield the node and all nodes below it."""
    yield typed
    if isinstance(typed, FunctionCall):
        for argument in typed.arguments:
            yield from walk(argument)


def spark_form_of_parts(*inside: TypedExpression) -> str:
    """Return the Spark form of a function that embeds these expressions in its form."""
    nodes = (node for typed in inside for node in walk(typed))
    ours = any(isinstance(node, FunctionCall) and node.spark == NO_SPARK_FORM for node in nodes)
    return NO_SPARK_FORM if ours else AS_WRITTEN


def find_columns(typed: TypedExpression) -> frozenset[str]:
    """Return the names of the input columns that the expression reads."""
    return frozenset(node.name for node in walk(typed) if isinstance(node, ColumnReference))


def substitute_columns(
    typed: TypedExpression, columns: Mapping[str, TypedExpression]
) -> TypedExpression:
    """Replace every column by its expression in the mapping."""
    match typed:
        case ColumnReference():
            return columns[typed.name]
        case FunctionCall():
            arguments = tuple(substitute_columns(argument, columns) for argument in typed.arguments)
            return replace(typed, arguments=arguments)
    return typed
