"""Arithmetic: integers wrap, a division by zero is NULL, decimals are exact.

A decimal with an integer or another decimal goes through `decimal_operators`, where each operand
counts with its own digits; with a float or double it becomes a double. Everything else is computed
in the wider type.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_float
from dataclasses import replace
from decimal import Decimal as PythonDecimal

from headrace.core.expressions.decimals import OPERATORS, decimal_operands
from headrace.core.expressions.function import Call, Function, Overload, function, overload
from headrace.core.expressions.functions.arguments import signed_in_spark
from headrace.core.expressions.functions.intervals import (
    DIVIDE_OVERLOADS,
    MINUS_OVERLOADS,
    NEGATIVE_OVERLOADS,
    PLUS_OVERLOADS,
    POSITIVE_OVERLOADS,
    TIMES_OVERLOADS,
)
from headrace.core.expressions.functions.operands import unfit
from headrace.core.expressions.signature import Bound, Mismatch, bind
from headrace.core.expressions.typed import Apply, Constant, Form, Typed, columns
from headrace.core.types import (
    DOUBLE,
    FLOAT,
    FLOATS,
    INT,
    SMALLINT,
    TINYINT,
    Decimal,
    is_integer,
    to_polars,
)

FAMILY = "numbers"


def _arithmetic(
    name: str,
    doc: str,
    *overloads: Overload,
    example: tuple[str, str],
    more: tuple[tuple[str, str], ...] = (),
    aliases: tuple[str, ...] = (),
    operator: str = "",
) -> Function:
    """Define a function whose decimals are typed by the operator of that name, and the rest by
    overloads."""
    row = function(name, FAMILY, doc, *overloads, example=example, more=more, aliases=aliases)

    def resolve(call: Call) -> Typed:
        types = decimal_operands(call)
        if types:
            return OPERATORS[operator or name].resolve(call, *types)
        bound = [bind(overload.signature, call.arguments) for overload in overloads]
        matches = [not isinstance(each, Mismatch) for each in bound]
        counts = [isinstance(each, Mismatch) and each.index is None for each in bound]
        if any(matches) or all(counts):
            return row.resolve(call)
        raise unfit(call)

    return replace(row, resolve_own=resolve)


def _divided(bound: Bound) -> Form:
    from headrace.core.expressions.batches import per_column, staged
    from headrace.core.expressions.floating import divided, over

    divisor = _constant(bound.arguments[1])
    if not divisor:
        return staged(divided, DOUBLE)
    by = per_column(lambda value: over(value, float(divisor)), DOUBLE)
    return lambda value, _: by(value)


def _constant(typed: Typed) -> int | float | PythonDecimal | None:
    """Return the constant number of the argument, as it is or cast to a float or double."""
    if isinstance(typed, Apply) and typed.function == "cast" and typed.type in FLOATS:
        (typed,) = typed.arguments
    value = typed.value if isinstance(typed, Constant) else None
    if isinstance(value, float) and typed.type == FLOAT:
        return c_float(value).value  # 0.1F is not 0.1
    return value if isinstance(value, int | float | PythonDecimal) else None


def _integer_remainder(bound: Bound) -> Form:
    from headrace.core.expressions.batches import once
    from headrace.core.expressions.integers import remainder

    return once(remainder, bound.result)


def _floating_remainder(bound: Bound) -> Form:
    from headrace.core.expressions.batches import staged
    from headrace.core.expressions.floating import remainder

    return staged(remainder, bound.result)


def _positive_remainder(bound: Bound) -> Form:
    from headrace.core.expressions import floating, integers
    from headrace.core.expressions.batches import once, staged

    if not is_integer(bound.result):
        return staged(floating.positive_remainder, bound.result)
    # Java computes types narrower than int as int.
    wide = INT if bound.result in (TINYINT, SMALLINT) else bound.result
    form = integers.positive_remainder(to_polars(wide), to_polars(bound.result))
    return once(form, bound.result)


def _negative(bound: Bound) -> Form:
    from headrace.core.expressions import exact
    from headrace.core.expressions.batches import once

    type = bound.result
    if not isinstance(type, Decimal) or type.precision <= exact.SIGNED_DIGITS:
        return lambda value: -value
    return once(lambda value: exact.negated(value, type), type)


def _checked(operator: str) -> Callable[[Bound], Form]:
    def build(bound: Bound) -> Form:
        from headrace.core.expressions.integers import CHECKED

        type = to_polars(bound.result)
        return lambda a, b: CHECKED[operator](a, b).cast(type, strict=False)

    return build


def _plus(bound: Bound) -> Form:
    from headrace.core.expressions.batches import once, staged
    from headrace.core.expressions.floating import plain_zero

    left, right = map(_zero, bound.arguments)
    if bound.result in FLOATS and any(map(_folded, bound.arguments)):
        return staged(lambda frame: frame["a0"] + frame["a1"], bound.result)
    if bound.result not in FLOATS or "0.0" not in (left, right):
        return lambda a, b: a + b
    return once(lambda a, b: plain_zero(b if left else a), bound.result)


def _minus(bound: Bound) -> Form:
    from headrace.core.expressions.batches import once, staged
    from headrace.core.expressions.floating import plain_zero

    left, right = map(_zero, bound.arguments)
    if bound.result in FLOATS and any(map(_folded, bound.arguments)):
        return staged(lambda frame: frame["a0"] - frame["a1"], bound.result)
    if bound.result not in FLOATS or (left != "0.0" and right != "-0.0"):
        return lambda a, b: a - b
    return once(lambda a, b: plain_zero(-b if left else a), bound.result)


def _zero(typed: Typed) -> str:
    """Return which constant zero the argument is, cast or not, or "".

    Polars replaces a value plus or minus zero by the value, or by its negative. That is wrong only
    for the sign of zeros: -0.0 + 0.0 is 0.0, and so are -0.0 - (-0.0) and 0.0 - 0.0.
    """
    value = _constant(typed)
    if value is None or value != 0:
        return ""
    return str(value) if isinstance(value, float) else "0.0"


def _folded(typed: Typed) -> bool:
    """Whether the argument is a constant that Polars computes, which may be such a zero."""
    return isinstance(typed, Apply) and not columns(typed) and _constant(typed) is None


PLUS = (overload("+(left: N, right: N) -> N", build=_plus, nulls="strict"), *PLUS_OVERLOADS)
MINUS = (overload("-(left: N, right: N) -> N", build=_minus, nulls="strict"), *MINUS_OVERLOADS)
TIMES = (
    overload("*(left: N, right: N) -> N", lambda a, b: a * b, nulls="strict"),
    *TIMES_OVERLOADS,
)

ARITHMETIC = (
    _arithmetic(
        "+",
        "The sum; integers wrap around on overflow.",
        *PLUS,
        example=("1 + 2", "3"),
        more=(("2147483647 + 1", "-2147483648"), ("1.50 + 1", "2.50")),
    ),
    _arithmetic(
        "-",
        "The difference; integers wrap around on overflow.",
        *MINUS,
        example=("1 - 2", "-1"),
        more=(("1.5 - 0.25", "1.25"),),
    ),
    _arithmetic(
        "*",
        "The product; integers wrap around on overflow.",
        *TIMES,
        example=("2 * 3", "6"),
        more=(("1.5 * 1.5", "2.25"),),
    ),
    _arithmetic(
        *("/", "The quotient as a double or a decimal, also of integers; NULL when divided by 0."),
        overload("/(left: double, right: double) -> double", build=_divided),
        *DIVIDE_OVERLOADS,
        example=("7 / 2", "3.5"),
        more=(("1.0 / 3", "0.333333"), ("1 / 0", "NULL")),
    ),
    _arithmetic(
        *("div", "The quotient truncated to a whole number; NULL when divided by 0."),
        overload("div(left: bigint, right: bigint) -> bigint", lambda a, b: a.truncdiv(b)),
        example=("7 div 2", "3"),
        more=(("-7 div 2", "-3"), ("7.5 div 2", "3")),
    ),
    _arithmetic(
        *("%", "The remainder, with the sign of the first number; NULL when divided by 0."),
        overload("%(left: I, right: I) -> I", build=_integer_remainder),
        overload("%(left: float, right: float) -> float", build=_floating_remainder),
        overload("%(left: double, right: double) -> double", build=_floating_remainder),
        example=("-7 % 3", "-1"),
        more=(("7.5 % 2", "1.5"), ("mod(7, -3)", "1")),
        aliases=("mod",),
    ),
    _arithmetic(
        *(
            "pmod",
            "The remainder, made positive if the second number is positive.",
        ),
        overload("pmod(left: I, right: I) -> I", build=_positive_remainder),
        overload("pmod(left: float, right: float) -> float", build=_positive_remainder),
        overload("pmod(left: double, right: double) -> double", build=_positive_remainder),
        example=("pmod(-7, 3)", "2"),
        more=(("pmod(-7, -3)", "-1"),),
    ),
    _arithmetic(
        *("negative", "The number with the opposite sign; the least integer is unchanged."),
        overload("negative(value: N) -> N", build=_negative, spark=signed_in_spark),
        *NEGATIVE_OVERLOADS,
        example=("-(1 + 2)", "-3"),
        more=(("negative(1.5)", "-1.5"),),
    ),
    _arithmetic(
        *("positive", "The number, unchanged."),
        overload("positive(value: N) -> N", lambda value: value, nulls="strict"),
        *POSITIVE_OVERLOADS,
        example=("positive(1.5)", "1.5"),
    ),
)


def _try(name: str, operator: str, doc: str, *overloads: Overload, example: str) -> Function:
    return _arithmetic(name, doc, *overloads, example=(example, "NULL"), operator=operator)


TRIED = (
    _try(
        *("try_add", "+", "The sum, or NULL on overflow."),
        overload("try_add(left: I, right: I) -> I", build=_checked("+")),
        overload("try_add(left: float, right: float) -> float", build=_plus),
        overload("try_add(left: double, right: double) -> double", build=_plus),
        example="try_add(2147483647, 1)",
    ),
    _try(
        *("try_subtract", "-", "The difference, or NULL on overflow."),
        overload("try_subtract(left: I, right: I) -> I", build=_checked("-")),
        overload("try_subtract(left: float, right: float) -> float", build=_minus),
        overload("try_subtract(left: double, right: double) -> double", build=_minus),
        example="try_subtract(-2147483648, 1)",
    ),
    _try(
        *("try_multiply", "*", "The product, or NULL on overflow."),
        overload("try_multiply(left: I, right: I) -> I", build=_checked("*")),
        overload("try_multiply(left: float, right: float) -> float", lambda a, b: a * b),
        overload("try_multiply(left: double, right: double) -> double", lambda a, b: a * b),
        example="try_multiply(2147483647, 2)",
    ),
    _try(
        *("try_divide", "/", "The quotient, or NULL when divided by 0; / does the same."),
        overload("try_divide(left: double, right: double) -> double", build=_divided),
        example="try_divide(1, 0)",
    ),
    _try(
        *("try_mod", "%", "The remainder, or NULL when divided by 0; % does the same."),
        overload("try_mod(left: I, right: I) -> I", build=_integer_remainder),
        overload("try_mod(left: float, right: float) -> float", build=_floating_remainder),
        overload("try_mod(left: double, right: double) -> double", build=_floating_remainder),
        example="try_mod(7, 0)",
    ),
)

NUMBERS = (*ARITHMETIC, *TRIED)
