"""Names of types as functions: `double(x)` is `cast(x as double)`."""

from __future__ import annotations

from headrace.core.expressions.casts import cast
from headrace.core.expressions.function import Call, Function, function
from headrace.core.expressions.typed import ExpressionError, Typed
from headrace.core.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Decimal,
    Type,
)


def _conversion(name: str, target: Type, written: str, shown: str) -> Function:
    def resolve(call: Call) -> Typed:
        if len(call.arguments) != 1:
            message = f"{name} takes 1 argument, got {len(call.arguments)}"
            raise ExpressionError(message, call.span, f"write {name}(value) or cast(value as ...)")
        return cast(call.arguments[0], target, call.span)

    return function(
        *(name, "casts", f"The value as {target}: short for cast(value as {target})."),
        example=(f"{name}({written})", shown),
        resolve=resolve,
        signatures=(f"{name}(value: T) -> {target}",),
    )


CONVERSIONS = (
    _conversion("boolean", BOOLEAN, "'yes'", "true"),
    _conversion("tinyint", TINYINT, "300", "44"),
    _conversion("smallint", SMALLINT, "'7'", "7"),
    _conversion("int", INT, "'12.9'", "12"),
    _conversion("bigint", BIGINT, "12.9D", "12"),
    _conversion("float", FLOAT, "'1e3'", "1000.0"),
    _conversion("double", DOUBLE, "'1e3'", "1000.0"),
    _conversion("decimal", Decimal(10, 0), "'2.5'", "3"),
    _conversion("string", STRING, "1.50", "1.50"),
    _conversion("binary", BINARY, "'abc'", "abc"),
    _conversion("date", DATE, "'2024-1-2'", "2024-01-02"),
    _conversion("timestamp", TIMESTAMP, "'2024-01-02T03:04:05Z'", "2024-01-02 03:04:05"),
)
