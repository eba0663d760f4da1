"""Arithmetic on doubles with the results of the IEEE standard, independent of the batch.

Polars divides by a single value by multiplying with its reciprocal, and raises to a single power by
another routine than to a column of powers: both are off in the last place, and make a result depend
on whether a column has one row or more. Its remainder is rounded. So division, remainder and power
are computed here on columns of full length.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl

_SPLIT_FACTOR = 2.0**27 + 1


def divide_by(value: pl.Series, divisor: float) -> pl.Series:
    """Divide the column by one number."""
    return value / pl.Series([divisor], dtype=value.dtype).new_from_index(0, len(value))


def normalize_zero(value: pl.Expr) -> pl.Expr:
    """Replace -0.0 by 0.0."""
    return pl.when(value == 0.0).then(pl.lit(0.0)).otherwise(value)


def divide_floats(frame: pl.DataFrame) -> pl.Series:
    """Return a0 / a1; null where a1 is zero."""
    return frame["a0"] / _null_if_zero(frame["a1"])


def compute_remainder(frame: pl.DataFrame) -> pl.Series:
    """Return the remainder of a0 / a1, with the sign of a0; null where a1 is zero."""
    return _exact_remainder(frame["a0"], _null_if_zero(frame["a1"]))


def compute_pmod(frame: pl.DataFrame) -> pl.Series:
    """Compute Spark's pmod: add the divisor to a negative remainder, and divide again."""
    divisor = _null_if_zero(frame["a1"])
    rest = _exact_remainder(frame["a0"], divisor)
    below = rest < 0.0
    if not below.any():
        return rest
    return _exact_remainder(rest + divisor, divisor).zip_with(below, rest)


def raise_to_power(frame: pl.DataFrame) -> pl.Series:
    """Return a0 to the power a1; as in Java, 1 or -1 to the power of NaN or infinity is NaN."""
    base, exponent = frame["a0"], frame["a1"]
    if len(base) == 1:
        return _raise_columns(base.new_from_index(0, 2), exponent.new_from_index(0, 2)).head(1)
    return _raise_columns(base, exponent)


def compute_logarithm(frame: pl.DataFrame) -> pl.Series:
    """Return the logarithm of a1 to the base a0; null unless both are above zero."""
    return _natural_log(frame["a1"]) / _natural_log(frame["a0"])


def _natural_log(value: pl.Series) -> pl.Series:
    return _null_unless_positive(value).log()


def _null_unless_positive(value: pl.Series) -> pl.Series:
    """Return the numbers above zero, and NaN; the others become null."""
    low = value <= 0.0
    return value.set(low, None) if low.any() else value


# The decimal logarithm of 2 in two parts, the first short enough to be multiplied exactly.
_LOG10_2_HIGH, _LOG10_2_LOW = 3.01029995663611771306e-01, 3.69423907715893078616e-13
_MANTISSA, _BIAS = 1 << 52, 1023


def _log10(value: pl.Series) -> pl.Series:
    """Return the logarithm to base 10, exact for powers of ten, unlike Polars' own.

    A number is m * 2 ** k, so its logarithm is the logarithm of m plus k times that of 2.
    """
    value = _null_unless_positive(value)
    tiny = value < 2.0**-1022
    bits = (value * 2.0**54).zip_with(tiny, value).reinterpret(dtype=pl.Int64)
    exponent = bits // _MANTISSA - _BIAS - 54 * tiny.cast(pl.Int64)
    below = (exponent < 0).cast(pl.Int64)
    fraction = (bits % _MANTISSA + (_BIAS - below) * _MANTISSA).reinterpret(dtype=pl.Float64)
    power = (exponent + below).cast(pl.Float64)
    low = power * _LOG10_2_LOW + fraction.log() * math.log10(math.e)
    return value.zip_with(~value.is_finite(), low + power * _LOG10_2_HIGH)


LOGARITHMS: dict[str, Callable[[pl.Series], pl.Series]] = {
    "ln": _natural_log,
    "log10": _log10,
    "log2": lambda value: divide_by(_natural_log(value), math.log(2.0)),
}


def _raise_columns(base: pl.Series, exponent: pl.Series) -> pl.Series:
    result = base.pow(exponent)
    odd = (base.abs() == 1.0) & ~exponent.is_finite()
    return result.set(odd, math.nan) if odd.any() else result


def _null_if_zero(divisor: pl.Series) -> pl.Series:
    zero = divisor == 0.0
    return divisor.set(zero, None) if zero.any() else divisor


def _exact_remainder(value: pl.Series, divisor: pl.Series) -> pl.Series:
    """Return the exact remainder of floats or doubles."""
    a, b = value.cast(pl.Float64), divisor.cast(pl.Float64)
    quotient = (a / b).cast(pl.Int64, strict=False).cast(pl.Float64)
    rest = _subtract_product(a, quotient, b)
    # The quotient may have been rounded up to the next whole number.
    size = b.abs()
    beyond = ((rest < 0.0) & (a > 0.0)) | ((rest > 0.0) & (a < 0.0))
    if beyond.any():
        rest = (rest + size.zip_with(a > 0.0, 0.0 - size)).zip_with(beyond, rest)
    rest = (a * 0.0).zip_with(rest == 0.0, rest)
    easy = (quotient.abs() < 2.0**52) & _is_safe_magnitude(a.abs()) & _is_safe_magnitude(size)
    hard = ~easy.fill_null(False) & a.is_not_null() & b.is_not_null()
    if hard.any():
        rest = rest.scatter(hard.arg_true(), _fmod_each(a.filter(hard), b.filter(hard)))
    return rest.cast(value.dtype)


def _is_safe_magnitude(size: pl.Series) -> pl.Series:
    """Whether products and their halves stay clear of both ends of the range of doubles."""
    return (size < 2.0**900) & (size > 2.0**-900)


def _subtract_product(a: pl.Series, quotient: pl.Series, b: pl.Series) -> pl.Series:
    """Return a - quotient * b without rounding: the product is split into two doubles."""
    high = quotient * b
    q1, q2 = _split_halves(quotient)
    b1, b2 = _split_halves(b)
    low = ((q1 * b1 - high) + q1 * b2 + q2 * b1) + q2 * b2
    return (a - high) - low


def _split_halves(value: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Split doubles into two doubles of half the digits, whose sum they are."""
    far = value * _SPLIT_FACTOR
    high = far - (far - value)
    return high, value - high


def _fmod_each(a: pl.Series, b: pl.Series) -> list[float]:
    """Compute the few remainders whose operands are too large, too small or too far apart."""
    return [_fmod_scalar(x, y) for x, y in zip(a, b, strict=True)]


def _fmod_scalar(a: float, b: float) -> float:
    return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) else math.nan
