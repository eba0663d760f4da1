"""Functions of doubles: roots, powers, logarithms, and the test for NaN.

Square roots are exact. Exponentials, powers and logarithms come from the machine's mathematical
library, and Spark's from Java's StrictMath: they agree to 1e-15 of the value, not to the last bit.
"""

from __future__ import annotations

from headrace.core.expressions.function import Call, Function, function, overload
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import OURS, Constant, ExpressionError, Form, Typed
from headrace.core.types import DOUBLE, INTERVALS, STRING, Array, Struct, Type

_FAMILY = "numbers"


def _logarithm(name: str) -> Function:
    """Define a logarithm of a fixed base."""
    base = {"ln": "e", "log10": "10", "log2": "2"}[name]

    def build(bound: Bound) -> Form:
        from headrace.core.expressions import floating
        from headrace.core.expressions.batches import per_column

        return per_column(floating.LOGARITHMS[name], DOUBLE)

    return function(
        *(
            name,
            _FAMILY,
            f"The logarithm to base {base}, NULL unless the value is above 0; within 1e-15 of"
            " Spark's.",
        ),
        overload(f"{name}(value: double) -> double", build=build, spark=OURS),
        example={
            "ln": ("ln(1)", "0.0"),
            "log10": ("log10(1000)", "3.0"),
            "log2": ("log2(8)", "3.0"),
        }[name],
    )


def _natural(bound: Bound) -> Form:
    from headrace.core.expressions import floating
    from headrace.core.expressions.batches import per_column

    return per_column(floating.LOGARITHMS["ln"], DOUBLE)


def _to_base(bound: Bound) -> Form:
    from headrace.core.expressions.batches import staged
    from headrace.core.expressions.floating import logarithm

    return staged(logarithm, DOUBLE)


def _power(bound: Bound) -> Form:
    from headrace.core.expressions.batches import staged
    from headrace.core.expressions.floating import power

    return staged(power, DOUBLE)


def _type_of(call: Call) -> Typed:
    if len(call.arguments) != 1:
        message = f"typeof takes 1 argument, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, "write typeof(value)")
    type = call.arguments[0].type
    if type in INTERVALS:
        raise ExpressionError(
            "typeof does not support intervals: their units are not known", call.span
        )
    return Constant(STRING, False, call.span, _name_of(type))


def _name_of(type: Type) -> str:
    """Return the name of a type in Spark, without nullability, and with field names as they are."""
    match type:
        case Array(element):
            return f"array<{_name_of(element)}>"
        case Struct(fields):
            inside = (f"{field.name}:{_name_of(field.type)}" for field in fields)
            return f"struct<{','.join(inside)}>"
    return str(type)


MATHEMATICS = (
    function(
        *("sqrt", _FAMILY, "The square root; NaN of a negative number."),
        overload("sqrt(value: double) -> double", lambda value: value.sqrt(), nulls="strict"),
        example=("sqrt(16)", "4.0"),
    ),
    function(
        *("exp", _FAMILY, "e raised to the power of the value; within 1e-15 of Spark's."),
        overload(
            "exp(value: double) -> double", lambda value: value.exp(), nulls="strict", spark=OURS
        ),
        example=("exp(0)", "1.0"),
    ),
    _logarithm("ln"),
    _logarithm("log10"),
    _logarithm("log2"),
    function(
        *(
            "log",
            _FAMILY,
            "The logarithm to a base, by default e; NULL unless base and value are above 0; within"
            " 1e-15 of Spark's.",
        ),
        overload("log(value: double) -> double", build=_natural, spark=OURS),
        overload("log(base: double, value: double) -> double", build=_to_base, spark=OURS),
        example=("log(10, 100)", "2.0"),
        more=(("log(1)", "0.0"),),
    ),
    function(
        *(
            "power",
            _FAMILY,
            "The first number raised to the power of the second; within 1e-15 of Spark's.",
        ),
        overload(
            "power(base: double, exponent: double) -> double",
            build=_power,
            nulls="strict",
            spark=OURS,
        ),
        example=("power(2, 10)", "1024.0"),
        aliases=("pow",),
    ),
    function(
        *("isnan", _FAMILY, "Whether the value is NaN; false for NULL."),
        overload(
            "isnan(value: double) -> boolean",
            lambda value: value.is_nan().fill_null(False),
            nulls="never",
        ),
        example=("isnan(double('NaN'))", "true"),
        more=(("isnan(null)", "false"),),
    ),
    function(
        *("typeof", _FAMILY, "The type of the value, as text."),
        example=("typeof(1 + 1.5)", "decimal(3,1)"),
        resolve=_type_of,
        signatures=("typeof(value: T) -> string",),
    ),
)
