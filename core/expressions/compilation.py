"""Compilation of typed expressions to Polars.

Calls that may fail for a row, or whose results may be large, are computed in stages, only in the
rows that use them; a `CallCheck` takes the rows that fail. All others are one expression.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.core.errors.value_errors import ExpressionFailure, ValueTooLarge
from headrace.core.expressions.typed import (
    PROCESSING_TIME,
    ColumnReference,
    Constant,
    FunctionCall,
    LambdaFunction,
    LambdaVariable,
    ProcessingTime,
    RandomBits,
    TypedExpression,
    find_inputs,
    is_fallible,
)
from headrace.core.types.data_types import FLOAT_TYPES, TIMESTAMP, to_polars
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


def to_expr(typed: TypedExpression) -> pl.Expr:
    """Compile to the equivalent Polars expression over the input columns by name.

    Its evaluation raises an ExpressionFailure at the first row that fails.
    """
    return compile_checked(typed, RaisingCheck())


def to_key_expr(typed: TypedExpression) -> pl.Expr:
    """Compile an expression by whose values rows are grouped: negative zero is zero."""
    import polars as pl

    expr = to_expr(typed)
    if typed.type in FLOAT_TYPES:
        return pl.when(expr == 0).then(pl.lit(0.0, dtype=to_polars(typed.type))).otherwise(expr)
    return expr


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
        case Constant(value=decimal.Decimal() as number):
            # Polars imports numpy to read a decimal of Python, which takes 0.1 s.
            return pl.lit(f"{number:f}", dtype=to_polars(typed.type))
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
            return _fill_height(frame.select(value).to_series(), frame.height)

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
