"""Names of types as functions: `double(x)` is `cast(x as double)`."""

from __future__ import annotations

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.function import SqlFunction, TypedCall, function
from headrace.core.expressions.typed import ExpressionError, TypedExpression
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIME,
    TIMESTAMP,
    TINYINT,
    Decimal,
    Type,
)


def _define_conversion(name: str, target: Type, written: str, shown: str) -> SqlFunction:
    def resolve(call: TypedCall) -> TypedExpression:
        if len(call.arguments) != 1:
            message = f"{name} takes 1 argument, got {len(call.arguments)}"
            raise ExpressionError(message, call.span, f"as in {name}(value)")
        return build_cast(call.arguments[0], target, call.span)

    return function(
        *(name, "casts", f"The value as {target}: short for cast(value as {target})."),
        example=(f"{name}({written})", shown),
        resolve=resolve,
        signatures=(f"{name}(value: T) -> {target}",),
    )


CONVERSIONS = (
    _define_conversion("boolean", BOOLEAN, "'yes'", "true"),
    _define_conversion("tinyint", TINYINT, "300", "44"),
    _define_conversion("smallint", SMALLINT, "'7'", "7"),
    _define_conversion("int", INT, "'12.9'", "12"),
    _define_conversion("bigint", BIGINT, "12.9D", "12"),
    _define_conversion("float", FLOAT, "'1e3'", "1000.0"),
    _define_conversion("double", DOUBLE, "'1e3'", "1000.0"),
    _define_conversion("decimal", Decimal(10, 0), "'2.5'", "3"),
    _define_conversion("string", STRING, "1.50", "1.50"),
    _define_conversion("binary", BINARY, "'abc'", "abc"),
    _define_conversion("time", TIME, "'07:08:09.5'", "07:08:09.5"),
    _define_conversion("date", DATE, "'2024-1-2'", "2024-01-02"),
    _define_conversion("timestamp", TIMESTAMP, "'2024-01-02T03:04:05Z'", "2024-01-02 03:04:05"),
)
