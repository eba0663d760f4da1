"""Typed expressions: names are resolved, types are known, and the tree compiles to Polars.

The nodes are a column, a constant, a function applied to arguments, the processing time of the
batch, random bits of a row, and a lambda function, which is an argument, with the variables in its
body. All that a function needs besides its arguments (a compiled pattern, a result scale) is inside
its `form`, so compiling (`compilation`) is one walk without a case per function. Implicit casts are
ordinary nodes: the typed tree is exactly what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date, datetime, time
from decimal import Decimal as PythonDecimal
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.types.data_types import Field, Type
from headrace.core.types.elements import ORDER
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

# A constant of an interval type is a whole number: of microseconds, or of months.
ConstantValue: TypeAlias = (
    bool | int | float | PythonDecimal | str | bytes | date | datetime | time | None
)
PolarsForm: TypeAlias = "Callable[..., pl.Expr]"

LazyRule: TypeAlias = "Callable[[Sequence[pl.Expr], Sequence[pl.Expr], int], pl.Expr]"
"""Returns in which rows an argument after the first is used, never null.

Given are the arguments before it, in which rows those are used, and the number of arguments.
"""

AS_WRITTEN, NO_SPARK_FORM = "", "ours"
"""The Spark form of a function: its text as written; or none, since Spark's result would differ."""

DEFAULT_MAX_VALUE = 64 * 2**20
"""The largest value in bytes that a growing call makes, unless `settings.max_value` is given."""

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
class ExpressionWarning:
    """A part of an expression that is allowed, but probably not meant."""

    message: str
    span: Span
    hint: str = ""


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
class ValueGrowth:
    """The size in bytes of a call's result, of the compiled arguments, and the limit of that.

    The size is None where the call checks the values that its lambda functions make.
    """

    size: PolarsForm | None
    max_bytes: int = DEFAULT_MAX_VALUE


@dataclass(frozen=True, slots=True)
class FunctionCall(TypedExpression):
    """A function of columns: `form(*compiled arguments)` is its Polars expression.

    `spark` is the expression for Spark: `AS_WRITTEN`, `NO_SPARK_FORM`, or a text in which `{0}`,
    `{1}` are the arguments as written. A call with a `growth` is growing: its result may be far
    larger than its arguments. `failure` gives the reason why the call fails in a row, of the
    compiled arguments, and NULL in the other rows. `lazy` is the rule of a function that does not
    use all arguments in every row.
    """

    function: str
    arguments: tuple[TypedExpression, ...]
    form: PolarsForm
    spark: str = field(default=AS_WRITTEN, compare=False)
    growth: ValueGrowth | None = field(default=None, compare=False)
    lazy: LazyRule | None = field(default=None, compare=False)
    warning: ExpressionWarning | None = field(default=None, compare=False)
    failure: PolarsForm | None = field(default=None, compare=False)
    is_lenient: bool = field(default=False, compare=False)
    """Whether a value that fails is NULL, because a check of its own has found the rows."""

    @property
    def is_checked(self) -> bool:
        """Whether the call itself may fail, whatever its arguments do."""
        return self.growth is not None or self.failure is not None


@dataclass(frozen=True, slots=True)
class ProcessingTime(TypedExpression):
    """The time at which a batch is processed: one value a batch, provided by the executor."""


@dataclass(frozen=True, slots=True)
class RandomBits(TypedExpression):
    """64 random bits of each row, made from a key and the row's place in the row order.

    They are unsigned, of a type that no expression has.
    """

    seed: str | None = None
    """The seed of the call, if it has one; calls with the same seed have the same bits."""
    key: int = 0
    """The key, which the plan makes of the job's seed and of that of the call or its step."""


@dataclass(frozen=True, slots=True)
class LambdaVariable(TypedExpression):
    """A parameter of a lambda function, in its body; `column` holds its values there."""

    name: str
    column: str


@dataclass(frozen=True, slots=True)
class LambdaFunction(TypedExpression):
    """A lambda function as an argument: its type is that of its body."""

    parameters: tuple[LambdaVariable, ...]
    body: TypedExpression


def is_fallible(typed: TypedExpression) -> bool:
    """Whether the expression may fail for a row: it has a checked call."""
    return any(isinstance(node, FunctionCall) and node.is_checked for node in walk(typed))


def with_null_on_failure(typed: TypedExpression) -> TypedExpression:
    """Return the expression with NULL for the calls that fail in a row."""
    match typed:
        case FunctionCall(arguments=arguments) if is_fallible(typed):
            arguments = tuple(map(with_null_on_failure, arguments))
            return replace(typed, arguments=arguments, is_lenient=True)
        case LambdaFunction(body=body):
            return replace(typed, body=with_null_on_failure(body))
    return typed


def walk(typed: TypedExpression) -> Iterator[TypedExpression]:
    """Yield the node and all nodes below it."""
    yield typed
    match typed:
        case FunctionCall(arguments=arguments):
            for argument in arguments:
                yield from walk(argument)
        case LambdaFunction(body=body):
            yield from walk(body)


def find_warnings(typed: TypedExpression) -> Iterator[ExpressionWarning]:
    """Yield the warnings of the node and of all nodes below it."""
    calls = (node for node in walk(typed) if isinstance(node, FunctionCall))
    return (call.warning for call in calls if call.warning)


def spark_form_of_parts(*inside: TypedExpression) -> str:
    """Return the Spark form of a function that embeds these expressions in its form."""
    nodes = (node for typed in inside for node in walk(typed))
    ours = any(isinstance(node, FunctionCall) and node.spark == NO_SPARK_FORM for node in nodes)
    return NO_SPARK_FORM if ours else AS_WRITTEN


def find_columns(typed: TypedExpression) -> frozenset[str]:
    """Return the names of the input columns that the expression reads, also of the row order."""
    nodes = (*walk(typed),)
    order = (ORDER for node in nodes if isinstance(node, RandomBits))
    return frozenset((*(n.name for n in nodes if isinstance(n, ColumnReference)), *order))


def is_random(typed: TypedExpression) -> bool:
    """Whether the expression has random values."""
    return any(isinstance(node, RandomBits) for node in walk(typed))


def replace_random_bits(
    typed: TypedExpression, rule: Callable[[RandomBits], RandomBits]
) -> TypedExpression:
    """Return the expression with all random bits replaced by the rule's; lambdas have none."""
    match typed:
        case RandomBits():
            return rule(typed)
        case FunctionCall() if is_random(typed):
            arguments = tuple(replace_random_bits(each, rule) for each in typed.arguments)
            return replace(typed, arguments=arguments)
    return typed


def find_inputs(typed: TypedExpression) -> frozenset[str]:
    """Return the names of the columns that the compiled expression reads, hidden ones included."""
    match typed:
        case ColumnReference(name=name) | LambdaVariable(column=name):
            return frozenset((name,))
        case ProcessingTime():
            return frozenset((PROCESSING_TIME,))
        case RandomBits():
            return frozenset((ORDER,))
        case FunctionCall(arguments=arguments):
            return frozenset[str]().union(*map(find_inputs, arguments))
        case LambdaFunction(parameters=parameters, body=body):
            return find_inputs(body) - {parameter.column for parameter in parameters}
    return frozenset()


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
        case LambdaFunction():
            return replace(typed, body=substitute_columns(typed.body, columns))
    return typed
