"""Decimal operators: the types of their results as in Spark, and the operands that are refused.

A sum has room for the carry, a product for the digits of both, a quotient for at least six
decimals. Past 38 digits decimals are dropped, down to six of them. An integer column counts with
all digits of its type, an integer literal with its own. An operation that cannot be computed within
128 bits is refused here, when the expression is typed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal as PythonDecimal
from functools import partial

from headrace.core.expressions.casts import cast
from headrace.core.expressions.coercion import decimal_of
from headrace.core.expressions.function import Call
from headrace.core.expressions.typed import Apply, Constant, ExpressionError, Form, Typed
from headrace.core.types import BIGINT, INT, MAX_DIGITS, NULL, SMALLINT, Decimal, Type

_LEAST_SCALE = 6


def adjusted(precision: int, scale: int) -> Decimal:
    """Limit a type to 38 digits: decimals are dropped in favour of the whole part, down to six.

    >>> str(adjusted(12, 4)), str(adjusted(45, 20)), str(adjusted(50, 8))
    ('decimal(12,4)', 'decimal(38,13)', 'decimal(38,6)')
    """
    if precision <= MAX_DIGITS:
        return Decimal(precision, scale)
    whole = precision - scale
    return Decimal(MAX_DIGITS, max(MAX_DIGITS - whole, min(scale, _LEAST_SCALE)))


def sum_type(left: Decimal, right: Decimal) -> Decimal:
    """Return the type of a sum or difference."""
    scale = max(left.scale, right.scale)
    return adjusted(max(_whole(left), _whole(right)) + scale + 1, scale)


def product_type(left: Decimal, right: Decimal) -> Decimal:
    """Return the type of a product."""
    return adjusted(left.precision + right.precision + 1, left.scale + right.scale)


def quotient_type(left: Decimal, right: Decimal) -> Decimal:
    """Return the type of a quotient.

    >>> str(quotient_type(Decimal(10, 2), Decimal(5, 4)))
    'decimal(20,8)'
    """
    scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
    return adjusted(_whole(left) + right.scale + scale, scale)


def remainder_type(left: Decimal, right: Decimal) -> Decimal:
    """Return the type of a remainder."""
    scale = max(left.scale, right.scale)
    return adjusted(min(_whole(left), _whole(right)) + scale, scale)


def _whole(type: Decimal) -> int:
    return type.precision - type.scale


@dataclass(frozen=True, slots=True)
class Operator:
    """An arithmetic operator on decimals: the result's type, whether it is computable, and its
    form."""

    returns: Callable[[Decimal, Decimal], Type]
    possible: Callable[[Decimal, Decimal], bool]
    form: Callable[[Decimal, Decimal], Form]

    def resolve(self, call: Call, left: Decimal, right: Decimal) -> Typed:
        """Return the typed node of a call with decimals of these types."""
        if not self.possible(left, right):
            message = f"{left} {call.name} {right} needs more than {MAX_DIGITS} digits on the way"
            hint = "cast the operands to fewer digits, as in cast(x as decimal(18,4))"
            raise ExpressionError(message, call.span, hint)
        a, b = call.arguments
        arguments = (_as_decimal(a, left), _as_decimal(b, right))
        result = self.returns(left, right)
        return Apply(result, True, call.span, call.name, arguments, self.form(left, right))


def decimal_operands(call: Call) -> tuple[Decimal, Decimal] | None:
    """Return the decimal types of both operands, where one is a decimal and both are exact."""
    if len(call.arguments) != 2:
        return None
    a, b = call.arguments
    if not (isinstance(a.type, Decimal) or isinstance(b.type, Decimal)):
        return None
    if a.type == NULL and call.name in ("/", "try_divide"):
        return None
    left = _counted(a) if a.type != NULL else _counted(b)
    right = _counted(b) if b.type != NULL else left
    return (left, right) if left and right else None


def _as_decimal(typed: Typed, type: Decimal) -> Typed:
    if isinstance(typed, Constant) and isinstance(typed.value, int):
        return Constant(type, False, typed.span, PythonDecimal(typed.value))
    return cast(typed, type, typed.span)


def _counted(typed: Typed) -> Decimal | None:
    """Return the decimal type of an operand: an integer literal has the digits of its value."""
    own = typed.type in (SMALLINT, INT, BIGINT) and isinstance(typed, Constant)
    if own and isinstance(typed, Constant) and isinstance(typed.value, int):
        return Decimal(len(str(abs(typed.value))), 0)
    return decimal_of(typed.type)


def _added(left: Decimal, right: Decimal, *, minus: bool = False) -> Form:
    from headrace.core.expressions import exact, wide
    from headrace.core.expressions.batches import once, staged

    result = sum_type(left, right)
    if result.scale < max(left.scale, right.scale):
        return staged(lambda f: wide.added(f, left, right, result, minus=minus), result)
    return once(lambda a, b: exact.added(a, b, left, right, result, minus=minus), result)


def _multiplied(left: Decimal, right: Decimal) -> Form:
    from headrace.core.expressions import exact, wide
    from headrace.core.expressions.batches import once, staged

    result = product_type(left, right)
    dropped = left.scale + right.scale - result.scale
    if dropped and left.precision + right.precision > MAX_DIGITS:
        return staged(lambda frame: wide.multiplied(frame, dropped, result), result)
    return once(lambda a, b: exact.multiplied(a, b, left, right, result), result)


def _divided(left: Decimal, right: Decimal) -> Form:
    from headrace.core.expressions import exact, wide
    from headrace.core.expressions.batches import once, staged

    result = quotient_type(left, right)
    shift = result.scale - left.scale + right.scale
    if shift >= 0 and max(left.precision + shift, right.precision) < MAX_DIGITS:
        return once(lambda a, b: exact.divided(a, b, shift, result), result)
    return staged(lambda frame: wide.divided(frame, left, right, result), result)


def _remainder(left: Decimal, right: Decimal) -> Form:
    from headrace.core.expressions.batches import once
    from headrace.core.expressions.exact import remainder

    result = remainder_type(left, right)
    return once(lambda a, b: remainder(a, b, left, right, result), result)


def _positive_remainder(left: Decimal, right: Decimal) -> Form:
    from headrace.core.expressions.batches import once
    from headrace.core.expressions.exact import positive_remainder

    result = remainder_type(left, right)
    return once(lambda a, b: positive_remainder(a, b, left, right, result), result)


def _divided_whole(left: Decimal, right: Decimal) -> Form:
    from headrace.core.expressions.batches import once
    from headrace.core.expressions.exact import divided_whole

    return once(lambda a, b: divided_whole(a, b, left, right), BIGINT)


def _always(left: Decimal, right: Decimal) -> bool:
    return True


def _quotient_is_exact(left: Decimal, right: Decimal) -> bool:
    """Whether divisor and remainders have room for the zeros that a step appends."""
    shift = quotient_type(left, right).scale - left.scale + right.scale
    room = MAX_DIGITS - right.precision
    return room >= -shift and (room > 0 or left.precision + shift <= MAX_DIGITS)


def _level_is_exact(left: Decimal, right: Decimal) -> bool:
    """Whether both have room for the decimals of the other."""
    return max(_whole(left), _whole(right)) + max(left.scale, right.scale) <= MAX_DIGITS


OPERATORS: dict[str, Operator] = {
    "+": Operator(sum_type, _always, _added),
    "-": Operator(sum_type, _always, partial(_added, minus=True)),
    "*": Operator(product_type, _always, _multiplied),
    "/": Operator(quotient_type, _quotient_is_exact, _divided),
    "%": Operator(remainder_type, _level_is_exact, _remainder),
    "pmod": Operator(remainder_type, _level_is_exact, _positive_remainder),
    "div": Operator(lambda left, right: BIGINT, _level_is_exact, _divided_whole),
}
