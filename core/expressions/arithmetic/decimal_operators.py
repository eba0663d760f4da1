"""Decimal operators: the types of their results as in Spark, and the operands that are refused.

A sum has room for the carry, a product for the digits of both, a quotient for at least six
decimals. Past 38 digits decimals are dropped, down to six of them. An integer column counts with
all digits of its type, an integer literal with its own. An operation that cannot be computed within
128 bits is refused here, when the expression is typed.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal as PythonDecimal
from functools import partial

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.coercion import to_decimal_type
from headrace.core.expressions.function import TypedCall
from headrace.core.expressions.typed import (
    Constant,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import BIGINT, INT, MAX_DIGITS, NULL, SMALLINT, Decimal, Type
from headrace.core.types.lazy_dataclass import dataclass

_MIN_SCALE = 6


def limit_digits(precision: int, scale: int) -> Decimal:
    """Limit a type to 38 digits: decimals are dropped in favour of the whole part, down to six.

    >>> str(limit_digits(12, 4)), str(limit_digits(45, 20)), str(limit_digits(50, 8))
    ('decimal(12,4)', 'decimal(38,13)', 'decimal(38,6)')
    """
    if precision <= MAX_DIGITS:
        return Decimal(precision, scale)
    whole = precision - scale
    return Decimal(MAX_DIGITS, max(MAX_DIGITS - whole, min(scale, _MIN_SCALE)))


def sum_type(left: Decimal, right: Decimal) -> Decimal:
    """Return the type of a sum or difference."""
    scale = max(left.scale, right.scale)
    return limit_digits(max(_integer_digits(left), _integer_digits(right)) + scale + 1, scale)


def product_type(left: Decimal, right: Decimal) -> Decimal:
    """Return the type of a product."""
    return limit_digits(left.precision + right.precision + 1, left.scale + right.scale)


def quotient_type(left: Decimal, right: Decimal) -> Decimal:
    """Return the type of a quotient.

    >>> str(quotient_type(Decimal(10, 2), Decimal(5, 4)))
    'decimal(20,8)'
    """
    scale = max(_MIN_SCALE, left.scale + right.precision + 1)
    return limit_digits(_integer_digits(left) + right.scale + scale, scale)


def remainder_type(left: Decimal, right: Decimal) -> Decimal:
    """Return the type of a remainder."""
    scale = max(left.scale, right.scale)
    return limit_digits(min(_integer_digits(left), _integer_digits(right)) + scale, scale)


def _integer_digits(type: Decimal) -> int:
    return type.precision - type.scale


@dataclass(frozen=True, slots=True)
class DecimalOperator:
    """An arithmetic operator on decimals: the result's type, whether it is computable, and its
    form."""

    result_type: Callable[[Decimal, Decimal], Type]
    is_computable: Callable[[Decimal, Decimal], bool]
    build_form: Callable[[Decimal, Decimal], PolarsForm]

    def resolve(self, call: TypedCall, left: Decimal, right: Decimal) -> TypedExpression:
        """Return the typed node of a call with decimals of these types."""
        if not self.is_computable(left, right):
            message = f"{left} {call.name} {right} needs more than {MAX_DIGITS} digits on the way"
            hint = "cast the operands to fewer digits, as in cast(x as decimal(18,4))"
            raise ExpressionError(message, call.span, hint)
        a, b = call.arguments
        arguments = (_cast_to_decimal(a, left), _cast_to_decimal(b, right))
        result = self.result_type(left, right)
        return FunctionCall(
            result, True, call.span, call.name, arguments, self.build_form(left, right)
        )


def decimal_operands(call: TypedCall) -> tuple[Decimal, Decimal] | None:
    """Return the decimal types of both operands, where one is a decimal and both are exact."""
    if len(call.arguments) != 2:
        return None
    a, b = call.arguments
    if not (isinstance(a.type, Decimal) or isinstance(b.type, Decimal)):
        return None
    if a.type == NULL and call.name in ("/", "try_divide"):
        return None
    left = _operand_type(a) if a.type != NULL else _operand_type(b)
    right = _operand_type(b) if b.type != NULL else left
    return (left, right) if left and right else None


def _cast_to_decimal(typed: TypedExpression, type: Decimal) -> TypedExpression:
    if isinstance(typed, Constant) and isinstance(typed.value, int):
        return Constant(type, False, typed.span, PythonDecimal(typed.value))
    return build_cast(typed, type, typed.span)


def _operand_type(typed: TypedExpression) -> Decimal | None:
    """Return the decimal type of an operand: an integer literal has the digits of its value."""
    own = typed.type in (SMALLINT, INT, BIGINT) and isinstance(typed, Constant)
    if own and isinstance(typed, Constant) and isinstance(typed.value, int):
        return Decimal(len(str(abs(typed.value))), 0)
    return to_decimal_type(typed.type)


def _build_sum(left: Decimal, right: Decimal, *, minus: bool = False) -> PolarsForm:
    from headrace.core.expressions.arithmetic import decimals, wide_decimals
    from headrace.core.expressions.batch_forms import compute_on_frame, evaluate_once

    result = sum_type(left, right)
    if result.scale < max(left.scale, right.scale):
        return compute_on_frame(
            lambda f: wide_decimals.add_decimals(f, left, right, result, minus=minus), result
        )
    return evaluate_once(lambda a, b: decimals.add(a, b, left, right, result, minus=minus), result)


def _build_product(left: Decimal, right: Decimal) -> PolarsForm:
    from headrace.core.expressions.arithmetic import decimals, wide_decimals
    from headrace.core.expressions.batch_forms import compute_on_frame, evaluate_once

    result = product_type(left, right)
    dropped = left.scale + right.scale - result.scale
    if dropped and left.precision + right.precision > MAX_DIGITS:
        return compute_on_frame(
            lambda frame: wide_decimals.multiply_decimals(frame, dropped, result), result
        )
    return evaluate_once(lambda a, b: decimals.multiply(a, b, left, right, result), result)


def _build_quotient(left: Decimal, right: Decimal) -> PolarsForm:
    from headrace.core.expressions.arithmetic import decimals, wide_decimals
    from headrace.core.expressions.batch_forms import compute_on_frame, evaluate_once

    result = quotient_type(left, right)
    shift = result.scale - left.scale + right.scale
    if max(left.precision + shift, right.precision) < MAX_DIGITS:
        return evaluate_once(lambda a, b: decimals.divide(a, b, shift, result), result)
    return compute_on_frame(
        lambda frame: wide_decimals.divide_decimals(frame, left, right, result), result
    )


def _build_remainder(left: Decimal, right: Decimal) -> PolarsForm:
    from headrace.core.expressions.arithmetic.decimals import compute_remainder
    from headrace.core.expressions.batch_forms import evaluate_once

    result = remainder_type(left, right)
    return evaluate_once(lambda a, b: compute_remainder(a, b, left, right, result), result)


def _build_pmod(left: Decimal, right: Decimal) -> PolarsForm:
    from headrace.core.expressions.arithmetic.decimals import compute_pmod
    from headrace.core.expressions.batch_forms import evaluate_once

    result = remainder_type(left, right)
    return evaluate_once(lambda a, b: compute_pmod(a, b, left, right, result), result)


def _build_integer_quotient(left: Decimal, right: Decimal) -> PolarsForm:
    from headrace.core.expressions.arithmetic.decimals import divide_to_bigint
    from headrace.core.expressions.batch_forms import evaluate_once

    return evaluate_once(lambda a, b: divide_to_bigint(a, b, left, right), BIGINT)


def _is_always_exact(left: Decimal, right: Decimal) -> bool:
    return True


def _is_aligned_exact(left: Decimal, right: Decimal) -> bool:
    """Whether both have room for the decimals of the other."""
    return (
        max(_integer_digits(left), _integer_digits(right)) + max(left.scale, right.scale)
        <= MAX_DIGITS
    )


DECIMAL_OPERATORS: dict[str, DecimalOperator] = {
    "+": DecimalOperator(sum_type, _is_always_exact, _build_sum),
    "-": DecimalOperator(sum_type, _is_always_exact, partial(_build_sum, minus=True)),
    "*": DecimalOperator(product_type, _is_always_exact, _build_product),
    "/": DecimalOperator(quotient_type, _is_always_exact, _build_quotient),
    "%": DecimalOperator(remainder_type, _is_aligned_exact, _build_remainder),
    "pmod": DecimalOperator(remainder_type, _is_aligned_exact, _build_pmod),
    "div": DecimalOperator(lambda left, right: BIGINT, _is_aligned_exact, _build_integer_quotient),
}
