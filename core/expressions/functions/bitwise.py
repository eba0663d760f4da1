"""Bitwise operators on integers, which are two's complement as in Java."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import BIGINT, INT, Type, to_polars

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
)
