"""Bitwise operators on integers, which are two's complement as in Java."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import ExpressionError, PolarsForm
from headrace.core.types.data_types import BIGINT, INT, SMALLINT, TINYINT, Type, to_polars

if TYPE_CHECKING:
    import polars as pl

_FAMILY = "numbers"


def _shift_type(bound: BoundArguments) -> Type:
    return BIGINT if bound.types[0] == BIGINT else INT


def _build_shift(operator: str) -> Callable[[BoundArguments], PolarsForm]:
    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.arithmetic.integers import build_shift

        type = to_polars(bound.result)
        form = build_shift(operator, type)
        return lambda value, count: form(value.cast(type), count)

    return build


def _define_shift(operator: str, alias: str, doc: str, *examples: tuple[str, str]) -> SqlFunction:
    first, *more = examples
    return function(
        *(
            operator,
            _FAMILY,
            f"{doc}; only the lowest 5 bits of the count are used, 6 for a bigint.",
        ),
        overload(
            f"{operator}(value: I, count: int) -> I",
            build=_build_shift(operator),
            returns=_shift_type,
            nulls="strict",
            spark=f"{alias}({{0}}, {{1}})",  # after `array`, Spark takes ">>" for two brackets
        ),
        example=first,
        more=tuple(more),
        aliases=(alias,),
    )


def _count_bits(value: pl.Expr) -> pl.Expr:
    """Count the bits that are set; a negative integer has those of a bigint."""
    import polars as pl

    return value.cast(pl.Int64).bitwise_count_ones().cast(pl.Int32)


_SIZES: dict[Type, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}


def _check_bit_position(bound: BoundArguments) -> None:
    position, size = bound.constants[1], _SIZES[bound.types[0]]
    if isinstance(position, int) and not 0 <= position < size:
        message = f"the bits of {bound.types[0]} are numbered 0 to {size - 1}, got {position}"
        raise ExpressionError(message, bound.arguments[1].span)


def _get_bit(value: pl.Expr, position: int) -> pl.Expr:
    import polars as pl

    wide = value.cast(pl.Int64)
    if position == 63:
        return (wide < 0).cast(pl.Int8)
    return (wide // (1 << position) % 2).cast(pl.Int8)


BITWISE = (
    function(
        *("&", _FAMILY, "The bitwise and: the bits that are set in both integers."),
        overload("&(left: I, right: I) -> I", lambda a, b: a & b, nulls="strict"),
        example=("6 & 3", "2"),
    ),
    function(
        *("|", _FAMILY, "The bitwise or: the bits that are set in one integer or the other."),
        overload("|(left: I, right: I) -> I", lambda a, b: a | b, nulls="strict"),
        example=("6 | 3", "7"),
    ),
    function(
        *(
            "^",
            _FAMILY,
            "The bitwise exclusive or, not a power: the bits that are set in exactly one integer.",
        ),
        overload("^(left: I, right: I) -> I", lambda a, b: a ^ b, nulls="strict"),
        example=("6 ^ 3", "5"),
    ),
    function(
        *("~", _FAMILY, "The bitwise complement: the bits that are not set in the integer."),
        overload("~(value: I) -> I", lambda value: ~value, nulls="strict"),
        example=("~ 5", "-6"),
    ),
    _define_shift(
        *("<<", "shiftleft", "The bits shifted to the left"),
        *(("1 << 4", "16"), ("1 << 33", "2")),
    ),
    _define_shift(
        *(">>", "shiftright", "The bits shifted to the right, keeping the sign"),
        *(("-8 >> 1", "-4"), ("shiftright(16, 2)", "4")),
    ),
    _define_shift(
        *(">>>", "shiftrightunsigned", "The bits shifted to the right, filled with zeros"),
        *(("-8 >>> 1", "2147483644"), ("8 >>> 1", "4")),
    ),
    function(
        *("bit_count", _FAMILY, "The number of bits that are set; in a negative integer of 64."),
        overload("bit_count(value: I) -> int", _count_bits, nulls="strict"),
        overload(
            "bit_count(value: boolean) -> int",
            lambda value: value.cast(to_polars(INT)),
            nulls="strict",
        ),
        example=("bit_count(13)", "3"),
        more=(("bit_count(-1)", "64"),),
    ),
    function(
        *("getbit", _FAMILY, "The bit at a position, 1 or 0; the lowest is at position 0."),
        overload(
            "getbit(value: I, position: constant int) -> tinyint",
            _get_bit,
            check=_check_bit_position,
            nulls="strict",
        ),
        example=("getbit(11, 0)", "1"),
        more=(("getbit(11, 2)", "0"),),
        aliases=("bit_get",),
    ),
)
