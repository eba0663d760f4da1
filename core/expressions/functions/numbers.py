"""Arithmetic: integers wrap, a division by zero is NULL, decimals are exact.

A decimal with an integer or another decimal goes through `decimal_operators`, where each operand
counts with its own digits; with a float or double it becomes a double. A text counts as a double.
Everything else is computed in the wider type.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_float
from dataclasses import replace
from decimal import Decimal as PythonDecimal

from headrace.core.expressions.arithmetic.decimal_operators import (
    DECIMAL_OPERATORS,
    decimal_operands,
)
from headrace.core.expressions.function import Overload, SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import spark_form_of_negation
from headrace.core.expressions.functions.interval_fields import DIV_OVERLOADS, name_overloads
from headrace.core.expressions.functions.intervals import (
    DIVIDE_OVERLOADS,
    MINUS_OVERLOADS,
    NEGATIVE_OVERLOADS,
    PLUS_OVERLOADS,
    POSITIVE_OVERLOADS,
    TIMES_OVERLOADS,
)
from headrace.core.expressions.functions.operand_errors import convert_texts, operand_error
from headrace.core.expressions.signature import BoundArguments, SignatureMismatch, bind_arguments
from headrace.core.expressions.typed import (
    Constant,
    FunctionCall,
    PolarsForm,
    TypedExpression,
    find_inputs,
)
from headrace.core.types.data_types import (
    DOUBLE,
    FLOAT,
    FLOAT_TYPES,
    INT,
    SMALLINT,
    TINYINT,
    Decimal,
    is_integer,
    to_polars,
)

FAMILY = "numbers"


def _define_arithmetic(
    name: str,
    doc: str,
    *overloads: Overload,
    example: tuple[str, str],
    more: tuple[tuple[str, str], ...] = (),
    aliases: tuple[str, ...] = (),
    operator: str = "",
) -> SqlFunction:
    """Define a function whose decimals are typed by the operator of that name, and the rest by
    overloads."""
    row = function(name, FAMILY, doc, *overloads, example=example, more=more, aliases=aliases)

    def resolve(call: TypedCall) -> TypedExpression:
        call = convert_texts(call)
        types = decimal_operands(call)
        if types:
            return DECIMAL_OPERATORS[operator or name].resolve(call, *types)
        bound = [bind_arguments(overload.signature, call.arguments) for overload in overloads]
        matches = [not isinstance(each, SignatureMismatch) for each in bound]
        counts = [isinstance(each, SignatureMismatch) and each.index is None for each in bound]
        if any(matches) or all(counts):
            return row.resolve(call)
        raise operand_error(call)

    return replace(row, resolve_own=resolve)


def _build_division(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic.doubles import divide_by, divide_floats
    from headrace.core.expressions.batch_forms import compute_on_column, compute_on_frame

    divisor = _find_constant(bound.arguments[1])
    if not divisor:
        return compute_on_frame(divide_floats, DOUBLE)
    by = compute_on_column(lambda value: divide_by(value, float(divisor)), DOUBLE)
    return lambda value, _: by(value)


def _find_constant(typed: TypedExpression) -> int | float | PythonDecimal | None:
    """Return the constant number of the argument, as it is or cast to a float or double."""
    if isinstance(typed, FunctionCall) and typed.function == "cast" and typed.type in FLOAT_TYPES:
        (typed,) = typed.arguments
    value = typed.value if isinstance(typed, Constant) else None
    if isinstance(value, float) and typed.type == FLOAT:
        return c_float(value).value  # 0.1F is not 0.1
    return value if isinstance(value, int | float | PythonDecimal) else None


def _build_integer_remainder(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic.integers import truncating_remainder
    from headrace.core.expressions.batch_forms import evaluate_once

    return evaluate_once(truncating_remainder, bound.result)


def _build_double_remainder(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic.doubles import compute_remainder
    from headrace.core.expressions.batch_forms import compute_on_frame

    return compute_on_frame(compute_remainder, bound.result)


def _build_pmod(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic import doubles, integers
    from headrace.core.expressions.batch_forms import compute_on_frame, evaluate_once

    if not is_integer(bound.result):
        return compute_on_frame(doubles.compute_pmod, bound.result)
    # Java computes types narrower than int as int.
    wide = INT if bound.result in (TINYINT, SMALLINT) else bound.result
    form = integers.build_pmod(to_polars(wide), to_polars(bound.result))
    return evaluate_once(form, bound.result)


def _build_negation(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic import decimals
    from headrace.core.expressions.batch_forms import evaluate_once

    type = bound.result
    if not isinstance(type, Decimal) or type.precision <= decimals.NEGATED_DIGITS:
        return lambda value: -value
    return evaluate_once(lambda value: decimals.negate(value, type), type)


def _build_checked(operator: str) -> Callable[[BoundArguments], PolarsForm]:
    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.arithmetic.integers import WIDE_OPERATORS

        type = to_polars(bound.result)
        return lambda a, b: WIDE_OPERATORS[operator](a, b).cast(type, strict=False)

    return build


def _build_sum(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic.doubles import normalize_zero
    from headrace.core.expressions.batch_forms import compute_on_frame, evaluate_once

    left, right = map(_find_zero, bound.arguments)
    if bound.result in FLOAT_TYPES and any(map(_is_computed_constant, bound.arguments)):
        return compute_on_frame(lambda frame: frame["a0"] + frame["a1"], bound.result)
    if bound.result not in FLOAT_TYPES or "0.0" not in (left, right):
        return lambda a, b: a + b
    return evaluate_once(lambda a, b: normalize_zero(b if left else a), bound.result)


def _build_difference(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic.doubles import normalize_zero
    from headrace.core.expressions.batch_forms import compute_on_frame, evaluate_once

    left, right = map(_find_zero, bound.arguments)
    if bound.result in FLOAT_TYPES and any(map(_is_computed_constant, bound.arguments)):
        return compute_on_frame(lambda frame: frame["a0"] - frame["a1"], bound.result)
    if bound.result not in FLOAT_TYPES or (left != "0.0" and right != "-0.0"):
        return lambda a, b: a - b
    return evaluate_once(lambda a, b: normalize_zero(-b if left else a), bound.result)


def _find_zero(typed: TypedExpression) -> str:
    """Return which constant zero the argument is, cast or not, or "".

    Polars replaces a value plus or minus zero by the value, or by its negative. That is wrong only
    for the sign of zeros: -0.0 + 0.0 is 0.0, and so are -0.0 - (-0.0) and 0.0 - 0.0.
    """
    value = _find_constant(typed)
    if value is None or value != 0:
        return ""
    return str(value) if isinstance(value, float) else "0.0"


def _is_computed_constant(typed: TypedExpression) -> bool:
    """Whether the argument is a constant that Polars computes, which may be such a zero."""
    return (
        isinstance(typed, FunctionCall) and not find_inputs(typed) and _find_constant(typed) is None
    )


PLUS = (overload("+(left: N, right: N) -> N", build=_build_sum, nulls="strict"), *PLUS_OVERLOADS)
MINUS = (
    overload("-(left: N, right: N) -> N", build=_build_difference, nulls="strict"),
    *MINUS_OVERLOADS,
)
TIMES = (
    overload("*(left: N, right: N) -> N", lambda a, b: a * b, nulls="strict"),
    *TIMES_OVERLOADS,
)

ARITHMETIC = (
    _define_arithmetic(
        "+",
        "The sum; integers wrap around on overflow.",
        *PLUS,
        example=("1 + 2", "3"),
        more=(("2147483647 + 1", "-2147483648"), ("1.50 + 1", "2.50")),
    ),
    _define_arithmetic(
        "-",
        "The difference; integers wrap around on overflow.",
        *MINUS,
        example=("1 - 2", "-1"),
        more=(("1.5 - 0.25", "1.25"),),
    ),
    _define_arithmetic(
        "*",
        "The product; integers wrap around on overflow.",
        *TIMES,
        example=("2 * 3", "6"),
        more=(("1.5 * 1.5", "2.25"),),
    ),
    _define_arithmetic(
        *("/", "The quotient as a double or a decimal, also of integers; NULL when divided by 0."),
        overload("/(left: double, right: double) -> double", build=_build_division),
        *DIVIDE_OVERLOADS,
        example=("7 / 2", "3.5"),
        more=(("1.0 / 3", "0.333333"), ("1 / 0", "NULL")),
    ),
    _define_arithmetic(
        *("div", "The quotient truncated to a whole number; NULL when divided by 0."),
        overload("div(left: bigint, right: bigint) -> bigint", lambda a, b: a.truncdiv(b)),
        *DIV_OVERLOADS,
        example=("7 div 2", "3"),
        more=(("-7 div 2", "-3"), ("7.5 div 2", "3")),
    ),
    _define_arithmetic(
        *("%", "The remainder, with the sign of the first number; NULL when divided by 0."),
        overload("%(left: I, right: I) -> I", build=_build_integer_remainder),
        overload("%(left: float, right: float) -> float", build=_build_double_remainder),
        overload("%(left: double, right: double) -> double", build=_build_double_remainder),
        example=("-7 % 3", "-1"),
        more=(("7.5 % 2", "1.5"), ("mod(7, -3)", "1")),
        aliases=("mod",),
    ),
    _define_arithmetic(
        *(
            "pmod",
            "The remainder, made positive if the second number is positive.",
        ),
        overload("pmod(left: I, right: I) -> I", build=_build_pmod),
        overload("pmod(left: float, right: float) -> float", build=_build_pmod),
        overload("pmod(left: double, right: double) -> double", build=_build_pmod),
        example=("pmod(-7, 3)", "2"),
        more=(("pmod(-7, -3)", "-1"),),
    ),
    _define_arithmetic(
        *("negative", "The number with the opposite sign; the least integer is unchanged."),
        overload("negative(value: N) -> N", build=_build_negation, spark=spark_form_of_negation),
        *NEGATIVE_OVERLOADS,
        example=("-(1 + 2)", "-3"),
        more=(("negative(1.5)", "-1.5"),),
    ),
    _define_arithmetic(
        *("positive", "The number, unchanged."),
        overload("positive(value: N) -> N", lambda value: value, nulls="strict"),
        *POSITIVE_OVERLOADS,
        example=("positive(1.5)", "1.5"),
    ),
)


def _define_try(
    name: str, operator: str, doc: str, *overloads: Overload, example: str
) -> SqlFunction:
    return _define_arithmetic(name, doc, *overloads, example=(example, "NULL"), operator=operator)


TRY_ARITHMETIC = (
    _define_try(
        *("try_add", "+", "The sum, or NULL on overflow."),
        overload("try_add(left: I, right: I) -> I", build=_build_checked("+")),
        overload("try_add(left: float, right: float) -> float", build=_build_sum),
        overload("try_add(left: double, right: double) -> double", build=_build_sum),
        *name_overloads(PLUS_OVERLOADS, "try_add"),
        example="try_add(2147483647, 1)",
    ),
    _define_try(
        *("try_subtract", "-", "The difference, or NULL on overflow."),
        overload("try_subtract(left: I, right: I) -> I", build=_build_checked("-")),
        overload("try_subtract(left: float, right: float) -> float", build=_build_difference),
        overload("try_subtract(left: double, right: double) -> double", build=_build_difference),
        *name_overloads(MINUS_OVERLOADS, "try_subtract"),
        example="try_subtract(-2147483648, 1)",
    ),
    _define_try(
        *("try_multiply", "*", "The product, or NULL on overflow."),
        overload("try_multiply(left: I, right: I) -> I", build=_build_checked("*")),
        overload("try_multiply(left: float, right: float) -> float", lambda a, b: a * b),
        overload("try_multiply(left: double, right: double) -> double", lambda a, b: a * b),
        *name_overloads(TIMES_OVERLOADS, "try_multiply"),
        example="try_multiply(2147483647, 2)",
    ),
    _define_try(
        *("try_divide", "/", "The quotient, or NULL when divided by 0; / does the same."),
        overload("try_divide(left: double, right: double) -> double", build=_build_division),
        *name_overloads(DIVIDE_OVERLOADS, "try_divide"),
        example="try_divide(1, 0)",
    ),
    _define_try(
        *("try_mod", "%", "The remainder, or NULL when divided by 0; % does the same."),
        overload("try_mod(left: I, right: I) -> I", build=_build_integer_remainder),
        overload("try_mod(left: float, right: float) -> float", build=_build_double_remainder),
        overload("try_mod(left: double, right: double) -> double", build=_build_double_remainder),
        example="try_mod(7, 0)",
    ),
)

NUMBERS = (*ARITHMETIC, *TRY_ARITHMETIC)
