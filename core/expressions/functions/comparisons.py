"""Comparisons: Spark's order of values, which is Polars' total order.

NaN equals itself and is above all numbers, -0.0 equals 0.0, text and binary are compared by their
bytes, and false is below true. Different numbers are compared in their common type, a date and a
timestamp as timestamps. Arrays and structs are equal when all their contents are, NULLs included;
their order is that of `value_order`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal as DecimalValue
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.expressions.coercion import common_type_of_all, comparison_type
from headrace.core.expressions.function import SqlFunction, TypedCall, function
from headrace.core.expressions.functions.common_types import (
    find_tight_type,
    mismatch_hint,
    refuse_map,
    widen,
)
from headrace.core.expressions.functions.in_list import MEMBERSHIP
from headrace.core.expressions.typed import (
    ColumnReference,
    Constant,
    ExpressionError,
    ExpressionWarning,
    FunctionCall,
    PolarsForm,
    Span,
    TypedExpression,
    find_columns,
)
from headrace.core.types.data_types import (
    BOOLEAN,
    FLOAT_TYPES,
    NULL,
    Array,
    Struct,
    Type,
    find_map,
    is_integer,
    is_nested,
    quote_name,
)

if TYPE_CHECKING:
    import polars as pl


_ORDER_OPERATORS = ("<", "<=", ">", ">=")
_CHAINED_HINT = "compare twice: low < value and value < high"


_MIRRORED: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<=>": lambda column, constant: column.eq_missing(constant),
    "<": operator.gt,
    "<=": operator.ge,
    ">": operator.lt,
    ">=": operator.le,
}
"""The comparisons with their operands exchanged."""


def _compare_columns(
    name: str, form: PolarsForm, left: TypedExpression, right: TypedExpression
) -> PolarsForm:
    """Return the form of a comparison, with its operands exchanged if only the right is a column.

    Polars compares a literal with a column of one value to a single value, not to a column.
    """
    if find_columns(left) or not find_columns(right):
        return form
    mirrored = _MIRRORED[name]
    return lambda constant, column: mirrored(column, constant)


def _build_form(
    name: str, form: PolarsForm, left: TypedExpression, right: TypedExpression, *, ordered: bool
) -> PolarsForm:
    if ordered and is_nested(left.type):
        from headrace.core.expressions.value_order import build_comparison

        return build_comparison(form)
    return _compare_columns(name, form, left, right)


def build_null_safe_equality(left: TypedExpression, right: TypedExpression) -> PolarsForm:
    """Return the form of `<=>` for these operands."""
    return _compare_columns("<=>", lambda a, b: a.eq_missing(b), left, right)


def widen_pair(
    call: TypedCall, *, ordered: bool = False
) -> tuple[TypedExpression, TypedExpression]:
    """Return both operands in the type of their comparison; two bare NULLs are compared as
    booleans."""
    left, right = call.arguments
    common = comparison_type(left.type, right.type, equality=not ordered)
    if common is None:
        message = f"{call.name} cannot compare {left.type} with {right.type}"
        chained = isinstance(left, FunctionCall) and left.function in _ORDER_OPERATORS
        hint = _CHAINED_HINT if chained else mismatch_hint(left.type, right.type)
        odd = next((each for each in call.arguments if each.type == BOOLEAN), None)
        raise ExpressionError(
            message, odd.span if odd and hint and not chained else call.span, hint
        )
    refuse_map(call.name, left if find_map(left.type) else right)
    if ordered and is_nested(common) and not _has_tight_type(left.type, right.type):
        message = f"{call.name} cannot compare {left.type} with {right.type}"
        raise ExpressionError(message, call.span, "decimals in arrays and structs are of one type")
    target = BOOLEAN if common == NULL else common
    return widen(left, target), widen(right, target)


def _has_tight_type(left: Type, right: Type) -> bool:
    """Whether no decimal within has another type than that of both."""
    match left, right:
        case Array(a), Array(b):
            return _has_tight_type(a, b)
        case Struct(a), Struct(b):
            pairs = zip(a, b, strict=True)
            return all(_has_tight_type(one.type, other.type) for one, other in pairs)
    return find_tight_type(left, right) is not None


def _define_comparison(
    name: str,
    doc: str,
    form: Callable[[pl.Expr, pl.Expr], pl.Expr],
    *examples: tuple[str, str],
    letter: str = "O",
    null_safe: bool = False,
) -> SqlFunction:
    def resolve(call: TypedCall) -> TypedExpression:
        left, right = widen_pair(call, ordered=letter == "O")
        if letter == "O" and (known := compare_far_decimal(call)) is not None:
            result = partial(_ignore_values, known)
            return FunctionCall(BOOLEAN, False, call.span, call.name, (left, right), result)
        nullable = not null_safe and (left.nullable or right.nullable)
        warning = None if null_safe else _warn_of_null(call)
        made = _build_form(name, form, left, right, ordered=letter == "O")
        return FunctionCall(
            BOOLEAN, nullable, call.span, call.name, (left, right), made, warning=warning
        )

    text = f"{name}(left: {letter}, right: {letter}) -> boolean"
    first, *more = examples
    return function(
        *(name, "logic", doc),
        example=first,
        more=tuple(more),
        resolve=resolve,
        signatures=(text,),
    )


def compare_far_decimal(call: TypedCall) -> bool | None:
    """Compare an integer with a literal decimal that is beyond all of them.

    Spark reads no value then: the result is the same for every row, also for NULL.
    """
    left, right = call.arguments
    for decimal, other in ((left, right), (right, left)):
        if isinstance(decimal, Constant) and is_integer(other.type):
            value = decimal.value
            if isinstance(value, DecimalValue) and not -(2**63) <= value <= 2**63 - 1:
                decimal_is_greater = decimal is right if value > 0 else decimal is left
                return call.name.startswith("<") == decimal_is_greater
    return None


def _ignore_values(known: bool, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Return a known result for each row."""
    never_null = left.is_null() | right.is_null()
    return never_null.is_not_null() if known else never_null.is_null()


def _warn_of_null(call: TypedCall) -> ExpressionWarning | None:
    """Return the warning about a literal NULL as operand."""
    for side in call.arguments:
        if isinstance(side, Constant) and side.type == NULL:
            message = f"{call.name} with null is null for every row"
            return ExpressionWarning(message, *_suggest_null_test(call, side))
    return None


def _suggest_null_test(call: TypedCall, null: Constant) -> tuple[Span, str]:
    """Return what to replace in a comparison with NULL, and the hint."""
    test = "is not null" if call.name == "<>" else "is null"
    other = next((each for each in call.arguments if each is not null), null)
    covers = call.span.start <= min(other.span.start, null.span.start)
    covers = covers and max(other.span.end, null.span.end) <= call.span.end
    if isinstance(other, ColumnReference) and covers:
        return call.span, f"write {quote_name(other.name)} {test}"
    return null.span, f"as in value {test}"


def _build_extreme_resolver(
    name: str, build: Callable[[Type], PolarsForm]
) -> Callable[[TypedCall], TypedExpression]:
    """Return the resolver of `greatest` or `least`: two or more values of one ordered type."""

    def resolve(call: TypedCall) -> TypedExpression:
        if len(call.arguments) < 2:
            message = f"{name} takes at least 2 arguments, got {len(call.arguments)}"
            raise ExpressionError(message, call.span, f"as in {name}(first, second)")
        common = common_type_of_all(value.type for value in call.arguments)
        if common is None:
            types = " and ".join(dict.fromkeys(str(value.type) for value in call.arguments))
            hint = "convert each to string to compare them as text"
            raise ExpressionError(f"{name} cannot compare {types}", call.span, hint)
        values = tuple(widen(value, common) for value in call.arguments)
        for value in call.arguments:
            refuse_map(name, value)
        nullable = all(value.nullable for value in values)
        return FunctionCall(common, nullable, call.span, name, values, build(common))

    return resolve


def _build_greatest(type: Type) -> PolarsForm:
    import polars as pl

    from headrace.core.expressions.batch_forms import evaluate_once

    if is_nested(type):
        return _build_nested_extreme(type, largest=True)
    if type not in FLOAT_TYPES:
        return lambda *values: pl.max_horizontal(values)

    def form(*values: pl.Expr) -> pl.Expr:
        nan = pl.any_horizontal([value.is_nan() for value in values])
        return pl.when(nan).then(float("nan")).otherwise(pl.max_horizontal(values[::-1]))

    return evaluate_once(form, type)


def _build_least(type: Type) -> PolarsForm:
    # Of 0.0 and -0.0 Spark takes the first, Polars the last: so the values are reversed.
    import polars as pl

    if is_nested(type):
        return _build_nested_extreme(type, largest=False)
    return lambda *values: pl.min_horizontal(values[::-1])


def _build_nested_extreme(type: Type, *, largest: bool) -> PolarsForm:
    from headrace.core.expressions.value_order import build_extreme

    return build_extreme(type, largest=largest)


COMPARISONS: tuple[SqlFunction, ...] = (
    _define_comparison(
        "=",
        "Whether both values are equal; NULL if one of them is NULL. == is the same.",
        lambda a, b: a == b,
        ("1 = 1.0", "true"),
        ("date '2024-01-02' = '2024-1-2'", "true"),
        letter="T",
    ),
    _define_comparison(
        "<>",
        "Whether the values are different; NULL if one of them is NULL. != is the same.",
        lambda a, b: a != b,
        ("'a' <> 'A'", "true"),
        letter="T",
    ),
    _define_comparison(
        "<=>",
        "Whether both values are equal, or both are NULL; never NULL itself.",
        lambda a, b: a.eq_missing(b),
        ("null <=> null", "true"),
        ("1 <=> null", "false"),
        letter="T",
        null_safe=True,
    ),
    _define_comparison(
        "<",
        "Whether the left value is less than the right; NULL if one of them is NULL.",
        lambda a, b: a < b,
        ("'Z' < 'a'", "true"),
    ),
    _define_comparison(
        "<=",
        "Whether the left value is at most the right; NULL if one of them is NULL.",
        lambda a, b: a <= b,
        ("2 <= 2.0", "true"),
    ),
    _define_comparison(
        ">",
        "Whether the left value is greater than the right; NULL if one of them is NULL. NaN is"
        " above all numbers.",
        lambda a, b: a > b,
        ("cast('NaN' as double) > 1e300", "true"),
    ),
    _define_comparison(
        ">=",
        "Whether the left value is at least the right; NULL if one of them is NULL.",
        lambda a, b: a >= b,
        ("date '2024-01-02' >= timestamp '2024-01-02 00:00:00'", "true"),
    ),
    function(
        "greatest",
        "logic",
        "The greatest of two or more values, ignoring NULLs; NULL if all are NULL. NaN is above all"
        " numbers.",
        example=("greatest(1, 2.5, null)", "2.5"),
        resolve=_build_extreme_resolver("greatest", _build_greatest),
        signatures=("greatest(value: O, other: O...) -> O",),
    ),
    function(
        "least",
        "logic",
        "The least of two or more values, ignoring NULLs; NULL if all are NULL.",
        example=("least(3, 2, null)", "2"),
        resolve=_build_extreme_resolver("least", _build_least),
        signatures=("least(value: O, other: O...) -> O",),
    ),
    *MEMBERSHIP,
)
"""Comparison operators, `in`, `greatest` and `least`."""
