"""Trigonometric and hyperbolic functions, other functions of doubles, and the constants pi and e.

The machine's mathematical library and Java's agree to 1e-15 of the value, not to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import build_evaluating_once
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import NO_SPARK_FORM, PolarsForm

if TYPE_CHECKING:
    import polars as pl

_FAMILY = "numbers"
_CLOSE = "; within 1e-15 of Spark's."


def _define_inexact(
    name: str, doc: str, form: Callable[[pl.Expr], pl.Expr], example: tuple[str, str]
) -> SqlFunction:
    """Define a function of one double whose last digits may differ from Spark's."""
    return function(
        *(name, _FAMILY, f"{doc}{_CLOSE}"),
        overload(
            f"{name}(value: double) -> double",
            build=build_evaluating_once(form),
            nulls="some" if name == "log1p" else "strict",
            spark=NO_SPARK_FORM,
        ),
        example=example,
    )


def _exponentiate_minus_one(value: pl.Expr) -> pl.Expr:
    """Return e ** value - 1 without the loss of digits near 0."""
    import polars as pl

    near = (value / 2).sinh() * (value / 2).exp() * 2
    tiny = pl.when(value.abs() < 1e-18).then(value).otherwise(near)
    far = pl.when(value > 0).then(value.exp()).when(value <= 0).then(-1.0)
    return pl.when((value.abs() < 40) | value.is_nan()).then(tiny).otherwise(far)


def _add_one_to_logarithm(value: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when((value > -1) | value.is_nan()).then(value.log1p())


def _hypotenuse(x: pl.Expr, y: pl.Expr) -> pl.Expr:
    """Return the root of the sum of both squares, which themselves may be too large or small."""
    import polars as pl

    larger, smaller = pl.max_horizontal(x.abs(), y.abs()), pl.min_horizontal(x.abs(), y.abs())
    ratio = smaller / larger
    length = pl.when(larger > 0).then(larger * (1 + ratio * ratio).sqrt()).otherwise(larger)
    endless = x.is_infinite() | y.is_infinite()
    unknown = x.is_nan() | y.is_nan()
    found = pl.when(unknown).then(math.nan).otherwise(length)
    result = pl.when(endless).then(math.inf).otherwise(found)
    return pl.when(x.is_not_null() & y.is_not_null()).then(result)


def _define_constant(name: str, doc: str, value: float) -> SqlFunction:
    def build(bound: BoundArguments) -> PolarsForm:
        import polars as pl

        return lambda: pl.lit(value)

    return function(
        *(name, _FAMILY, doc),
        overload(f"{name}() -> double", build=build, nulls="never"),
        example=(f"{name}()", str(value)),
    )


def _build_arctangent(bound: BoundArguments) -> PolarsForm:
    import polars as pl

    from headrace.core.expressions.arithmetic.doubles import normalize_zero
    from headrace.core.expressions.batch_forms import evaluate_once

    return evaluate_once(
        lambda y, x: pl.arctan2(normalize_zero(y), normalize_zero(x)), bound.result
    )


_CIRCLE: tuple[SqlFunction, ...] = (
    _define_inexact("sin", "The sine of an angle in radians", lambda v: v.sin(), ("sin(0)", "0.0")),
    _define_inexact(
        "cos", "The cosine of an angle in radians", lambda v: v.cos(), ("cos(0)", "1.0")
    ),
    _define_inexact(
        "tan", "The tangent of an angle in radians", lambda v: v.tan(), ("tan(0)", "0.0")
    ),
    _define_inexact(
        "cot",
        "The cotangent of an angle in radians",
        lambda v: 1.0 / v.tan(),
        ("cot(0)", "Infinity"),
    ),
    _define_inexact(
        "sec", "The secant of an angle in radians", lambda v: 1.0 / v.cos(), ("sec(0)", "1.0")
    ),
    _define_inexact(
        "csc",
        "The cosecant of an angle in radians",
        lambda v: 1.0 / v.sin(),
        ("csc(0)", "Infinity"),
    ),
    _define_inexact(
        "asin",
        "The angle in radians of a sine; NaN outside of -1 to 1",
        lambda v: v.arcsin(),
        ("asin(0)", "0.0"),
    ),
    _define_inexact(
        "acos",
        "The angle in radians of a cosine; NaN outside of -1 to 1",
        lambda v: v.arccos(),
        ("acos(1)", "0.0"),
    ),
    _define_inexact(
        "atan", "The angle in radians of a tangent", lambda v: v.arctan(), ("atan(0)", "0.0")
    ),
    function(
        *("atan2", _FAMILY, f"The angle in radians of the point (x, y){_CLOSE}"),
        overload(
            "atan2(y: double, x: double) -> double",
            build=_build_arctangent,
            nulls="strict",
            spark=NO_SPARK_FORM,
        ),
        example=("atan2(0, 1)", "0.0"),
    ),
    function(
        *("degrees", _FAMILY, "An angle in radians as degrees."),
        overload("degrees(angle: double) -> double", lambda v: v.degrees(), nulls="strict"),
        example=("degrees(pi())", "180.0"),
    ),
    function(
        *("radians", _FAMILY, "An angle in degrees as radians."),
        overload("radians(angle: double) -> double", lambda v: v.radians(), nulls="strict"),
        example=("radians(180)", "3.141592653589793"),
    ),
)

_HYPERBOLA: tuple[SqlFunction, ...] = (
    _define_inexact("sinh", "The hyperbolic sine", lambda v: v.sinh(), ("sinh(0)", "0.0")),
    _define_inexact("cosh", "The hyperbolic cosine", lambda v: v.cosh(), ("cosh(0)", "1.0")),
    _define_inexact("tanh", "The hyperbolic tangent", lambda v: v.tanh(), ("tanh(0)", "0.0")),
    _define_inexact(
        "asinh", "The inverse hyperbolic sine", lambda v: v.arcsinh(), ("asinh(0)", "0.0")
    ),
    _define_inexact(
        "acosh",
        "The inverse hyperbolic cosine; NaN below 1",
        lambda v: v.arccosh(),
        ("acosh(1)", "0.0"),
    ),
    _define_inexact(
        "atanh",
        "The inverse hyperbolic tangent; NaN outside of -1 to 1",
        lambda v: (v.log1p() - (-v).log1p()) / 2,
        ("atanh(0)", "0.0"),
    ),
)

TRIGONOMETRY: tuple[SqlFunction, ...] = (
    *_CIRCLE,
    *_HYPERBOLA,
    _define_inexact("cbrt", "The cube root", lambda v: v.cbrt(), ("cbrt(27)", "3.0")),
    _define_inexact(
        "expm1",
        "e raised to the power of the value, minus 1",
        _exponentiate_minus_one,
        ("expm1(0)", "0.0"),
    ),
    _define_inexact(
        "log1p",
        "The natural logarithm of the value plus 1; NULL unless the value is above -1",
        _add_one_to_logarithm,
        ("log1p(0)", "0.0"),
    ),
    function(
        *(
            "hypot",
            _FAMILY,
            f"The length of the longest side of a right triangle with these sides{_CLOSE}",
        ),
        overload(
            "hypot(a: double, b: double) -> double",
            build=build_evaluating_once(_hypotenuse),
            nulls="strict",
            spark=NO_SPARK_FORM,
        ),
        example=("hypot(3, 4)", "5.0"),
    ),
    function(
        *("rint", _FAMILY, "The nearest whole number as a double; the even one of two."),
        overload(
            "rint(value: double) -> double",
            lambda v: v.round(0, mode="half_to_even"),
            nulls="strict",
        ),
        example=("rint(2.5)", "2.0"),
    ),
    _define_constant("pi", "The ratio of a circle's circumference to its diameter.", math.pi),
    _define_constant("e", "Euler's number, the base of natural logarithms.", math.e),
)
"""The functions of angles, and their like."""
