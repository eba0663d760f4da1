"""An expression whose names are resolved and whose types are known; it compiles to Polars.

There are four kinds of node: a column, a constant, a function applied to arguments, and the
processing time of the batch. Whatever a function needs beyond its arguments (a compiled pattern, a
result scale) is inside its `form`, so that compiling is one walk without a case per function.
Implicit casts are nodes like any other: what is typed here is exactly what will run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal as PythonDecimal
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.types import TIMESTAMP, Type, to_polars

if TYPE_CHECKING:
    import polars as pl

# A constant of an interval type is a whole number: of microseconds, or of months.
Value: TypeAlias = bool | int | float | PythonDecimal | str | bytes | date | datetime | None
Form: TypeAlias = "Callable[..., pl.Expr]"

AS_WRITTEN, OURS = "", "ours"
"""What Spark runs of a function: what was written; or nothing, for it would give something else."""

PROCESSING_TIME = "__now"
"""The hidden column in which an executor hands a batch its processing time, when one is needed."""


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `[start, end)` of an expression's text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From the start of this to the end of the other."""
        return Span(self.start, other.end)


class ExpressionError(Exception):
    """An expression is wrong: what, at which characters of its text, and what would be right."""

    def __init__(self, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint


class ExpressionErrors(Exception):
    """All that is wrong with one expression, from the left."""

    def __init__(self, errors: Iterable[ExpressionError]) -> None:
        self.errors = tuple(sorted(errors, key=lambda error: error.span.start))
        super().__init__("; ".join(error.message for error in self.errors))


@dataclass(frozen=True, slots=True)
class Typed:
    """A typed expression; the subclasses below are all there are."""

    type: Type
    nullable: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Column(Typed):
    """A column of the input."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant(Typed):
    """A value known now; `lost` is an escape in its text that stands for nothing, like `\\d`."""

    value: Value
    lost: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Apply(Typed):
    """A function of columns: `form(*compiled arguments)` is its Polars expression.

    `spark` is what Spark runs: `AS_WRITTEN`, `OURS`, or a text in which `{0}`, `{1}` stand for the
    arguments as they were written.
    """

    function: str
    arguments: tuple[Typed, ...]
    form: Form
    spark: str = field(default=AS_WRITTEN, compare=False)


@dataclass(frozen=True, slots=True)
class ProcessingTime(Typed):
    """The time at which a batch is processed: one value a batch, given by the executor."""


def to_expr(typed: Typed) -> pl.Expr:
    """The Polars expression of exactly this meaning, over the input's columns by name."""
    import polars as pl

    match typed:
        case Column():
            return pl.col(typed.name)
        case Constant():
            return pl.lit(typed.value, dtype=to_polars(typed.type))
        case Apply():
            return typed.form(*map(to_expr, typed.arguments))
        case ProcessingTime():
            return pl.col(PROCESSING_TIME).cast(to_polars(TIMESTAMP))
    raise AssertionError(typed)


def walk(typed: Typed) -> Iterator[Typed]:
    """The node and all below it."""
    yield typed
    if isinstance(typed, Apply):
        for argument in typed.arguments:
            yield from walk(argument)


def ours_within(*inside: Typed) -> str:
    """What Spark runs of a function whose form has these inside it, and not as arguments."""
    nodes = (node for typed in inside for node in walk(typed))
    ours = any(isinstance(node, Apply) and node.spark == OURS for node in nodes)
    return OURS if ours else AS_WRITTEN


def columns(typed: Typed) -> frozenset[str]:
    """The names of the input columns it reads."""
    return frozenset(node.name for node in walk(typed) if isinstance(node, Column))


def substituted(typed: Typed, columns: Mapping[str, Typed]) -> Typed:
    """The expression with every column replaced by what it stands for."""
    match typed:
        case Column():
            return columns[typed.name]
        case Apply():
            arguments = tuple(substituted(argument, columns) for argument in typed.arguments)
            return replace(typed, arguments=arguments)
    return typed
