"""Typed expressions: names are resolved, types are known, and the tree compiles to Polars.

The nodes are a column, a constant, a function applied to arguments, the processing time of the
batch, random bits of a row, and a lambda function, which is an argument, with the variables in its
body. All that a function needs besides its arguments (a compiled pattern, a result scale) is inside
its `form`, so compiling is one walk without a case per function. Implicit casts are ordinary nodes:
the typed tree is exactly what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal as PythonDecimal
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.errors.value_errors import ExpressionFailure, ValueTooLarge
from headrace.core.types.data_types import TIMESTAMP, Field, Type, to_polars
from headrace.core.types.elements import ORDER

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


def to_expr(typed: TypedExpression) -> pl.Expr:
    """Compile to the equivalent Polars expression over the input columns by name.

    Its evaluation raises an ExpressionFailure at the first row that fails.
    """
    return compile_checked(typed, RaisingCheck())


def _compile(typed: TypedExpression) -> pl.Expr:
    if not isinstance(typed, FunctionCall):
        return compile_node(typed, ())
    return compile_node(typed, _compile_arguments(typed, RaisingCheck(), _compile))


def _compile_arguments(
    call: FunctionCall, check: CallCheck, compile: Callable[[TypedExpression], pl.Expr]
) -> list[pl.Expr | LambdaArgument]:
    """Compile the arguments of a call: lambda functions with this check of their own values."""
    return [
        LambdaArgument(each, call, check) if isinstance(each, LambdaFunction) else compile(each)
        for each in call.arguments
    ]


def compile_node(typed: TypedExpression, arguments: Sequence[pl.Expr | LambdaArgument]) -> pl.Expr:
    """Compile a node of these compiled arguments."""
    import polars as pl

    match typed:
        case ColumnReference():
            return pl.col(typed.name)
        case Constant():
            return pl.lit(typed.value, dtype=to_polars(typed.type))
        case FunctionCall():
            return typed.form(*arguments)
        case ProcessingTime():
            return pl.col(PROCESSING_TIME).cast(to_polars(TIMESTAMP))
        case LambdaVariable():
            return pl.col(typed.column)
        case RandomBits():
            from headrace.core.expressions.random_bits import make_row_bits

            return make_row_bits(typed.key)
    raise AssertionError(typed)


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


USED = "used"
"""The column that says in which rows a value is used."""


class CallCheck(Protocol):
    """A check of calls in the rows that use them, before their values are computed."""

    def reject(self, call: FunctionCall, reasons: pl.Series) -> None:
        """Report the rows in which the call fails: those with a reason."""
        ...

    def admit(self, call: FunctionCall, sizes: pl.Series) -> pl.Series | None:
        """Return the rows whose results of these sizes are to be computed; None for all."""
        ...


class RaisingCheck:
    """A check that raises an ExpressionFailure at the first row that fails."""

    def reject(self, call: FunctionCall, reasons: pl.Series) -> None:
        """Raise the first reason, unless the value is to be NULL."""
        if not call.is_lenient:
            raise ExpressionFailure(format_failure(call, reasons.drop_nulls()[0]))

    def admit(self, call: FunctionCall, sizes: pl.Series) -> pl.Series | None:
        """Raise ValueTooLarge if one of the values is too large, unless it is to be NULL."""
        assert call.growth is not None
        largest = find_largest(sizes)
        if largest <= call.growth.max_bytes:
            return None
        if call.is_lenient:
            return sizes <= call.growth.max_bytes
        raise ValueTooLarge(format_excess(call, largest))


def format_failure(call: FunctionCall, reason: str) -> str:
    """Format the message of a call that fails."""
    return f"{call.function}: {reason}"


def format_excess(call: FunctionCall, size: int) -> str:
    """Format the message of a value above the limit."""
    assert call.growth is not None
    limit = call.growth.max_bytes
    return f"{call.function} would make a value of {size:,} bytes, more than max_value, {limit:,}"


def compile_checked(typed: TypedExpression, check: CallCheck) -> pl.Expr:
    """Compile an expression whose calls are checked in the rows in which they are used."""
    import polars as pl

    if not is_fallible(typed):
        return _compile(typed)
    computation = _Computation(check)
    value = computation.compile(typed, pl.lit(True))
    return computation.build(typed, value)


class _Computation:
    """The computation of an expression with checked calls, in stages over a frame of its columns.

    Each stage adds a column: the values of a checked call, an argument that says where another is
    used, or the rows in which one is used. So each is computed once, however many stages read it.
    """

    def __init__(self, check: CallCheck) -> None:
        self._check = check
        self._stages: list[Callable[[pl.DataFrame], pl.Expr | pl.Series]] = []

    def compile(self, typed: TypedExpression, used: pl.Expr) -> pl.Expr:
        """Compile an expression that is used in these rows, over the columns of the stages."""
        if not (isinstance(typed, FunctionCall) and is_fallible(typed)):
            return _compile(typed)
        if any(isinstance(argument, LambdaFunction) for argument in typed.arguments):
            return self._compile_higher_order(typed, used)
        arguments = self._compile_arguments(typed, used)
        if not typed.is_checked:
            return compile_node(typed, arguments)
        return self._add_stage(partial(_compute_call, typed, arguments, self._check, used))

    def build(self, typed: TypedExpression, value: pl.Expr) -> pl.Expr:
        """Return the expression that runs the stages, and then computes the value."""
        import polars as pl

        columns = sorted(find_inputs(typed))

        def compute(given: Sequence[pl.Series]) -> pl.Series:
            names = columns or [USED]
            frame = pl.DataFrame([c.alias(name) for c, name in zip(given, names, strict=True)])
            for at, stage in enumerate(self._stages):
                frame = frame.with_columns(stage(frame).alias(_name_stage(at)))
            return frame.select(value).to_series()

        inputs = [pl.col(name) for name in columns] or [pl.lit(True)]
        return pl.map_batches(
            inputs, compute, return_dtype=to_polars(typed.type), is_elementwise=True
        )

    def _compile_arguments(self, call: FunctionCall, used: pl.Expr) -> list[pl.Expr]:
        if call.lazy is None:
            return [self.compile(argument, used) for argument in call.arguments]
        # Only arguments that may fail need to know where they are used.
        fallible = [at for at, argument in enumerate(call.arguments) if is_fallible(argument)]
        last = max(fallible, default=0)
        arguments: list[pl.Expr] = []
        masks = [used]
        for at, argument in enumerate(call.arguments):
            if 0 < at <= last:
                masks.append(self._keep(call.lazy(arguments, masks, len(call.arguments))))
            value = self.compile(argument, masks[-1])
            simple = isinstance(argument, ColumnReference | Constant)
            arguments.append(value if simple or at >= last else self._keep(value))
        return arguments

    def _compile_higher_order(self, call: FunctionCall, used: pl.Expr) -> pl.Expr:
        """Compile a call with lambda functions, of no elements in the rows that do not use it."""
        import polars as pl

        def compile(argument: TypedExpression) -> pl.Expr:
            return pl.when(used).then(self.compile(argument, used))

        return self._keep(compile_node(call, _compile_arguments(call, self._check, compile)))

    def _keep(self, expr: pl.Expr) -> pl.Expr:
        return self._add_stage(lambda _: expr)

    def _add_stage(self, stage: Callable[[pl.DataFrame], pl.Expr | pl.Series]) -> pl.Expr:
        import polars as pl

        self._stages.append(stage)
        return pl.col(_name_stage(len(self._stages) - 1))


def _name_stage(at: int) -> str:
    return f"__stage{at}"


def _compute_call(
    call: FunctionCall,
    arguments: Sequence[pl.Expr],
    check: CallCheck,
    used: pl.Expr,
    rows: pl.DataFrame,
) -> pl.Series:
    """Return the values of a checked call in the rows in which it is used and does not fail."""
    import polars as pl

    names = [f"a{i}" for i in range(len(arguments))]
    columns = [pl.col(name) for name in names]
    given = [argument.alias(name) for argument, name in zip(arguments, names, strict=True)]
    frame = rows.select(*given, used.alias(USED)).head(rows.height)
    admitted = _check_failures(call, columns, check, frame, rows.height)
    if call.growth is not None:
        assert call.growth.size is not None, "a call with lambda functions checks its own values"
        size = pl.when(admitted).then(call.growth.size(*columns).cast(pl.Int64)).alias("size")
        sizes = _fill_height(frame.select(size).to_series(), rows.height).fill_null(0)
        within = check.admit(call, sizes)
        admitted = admitted if within is None else admitted & within
    if not admitted.all():
        frame = frame.select(pl.when(admitted).then(pl.col(name)) for name in (*names, USED))
    values = frame.select(call.form(*columns).alias("result")).to_series()
    return _fill_height(values, rows.height)


def _check_failures(
    call: FunctionCall,
    columns: Sequence[pl.Expr],
    check: CallCheck,
    frame: pl.DataFrame,
    height: int,
) -> pl.Series:
    """Return the rows that use the call and in which it does not fail; report the others."""
    import polars as pl

    if call.failure is None:
        return frame[USED]
    reason = pl.when(USED).then(call.failure(*columns)).cast(pl.String).alias("reason")
    reasons = frame.select(reason).to_series()
    if reasons.null_count() < len(reasons):
        check.reject(call, _fill_height(reasons, height))
    return frame[USED] & reasons.is_null()


def _fill_height(values: pl.Series, height: int) -> pl.Series:
    """Return the values for this number of rows: those of constants are the same for each."""
    return values if len(values) == height else values.new_from_index(0, height)


@dataclass(frozen=True, slots=True)
class LambdaArgument:
    """A lambda function as the form of its call gets it, with the check of calls in it."""

    function: LambdaFunction
    call: FunctionCall
    check: CallCheck


def find_largest(sizes: pl.Series) -> int:
    """Return the largest of the sizes; 0 if there are none."""
    largest = sizes.max()
    return largest if isinstance(largest, int) else 0


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
