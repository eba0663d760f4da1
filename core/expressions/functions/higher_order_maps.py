"""Higher-order functions of maps, which compute keys and values by lambda functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.core.expressions.coercion import common_type
from headrace.core.expressions.function import (
    SqlFunction,
    TypedCall,
    UntypedLambda,
    function,
    with_growth,
)
from headrace.core.expressions.functions.common_types import widen
from headrace.core.expressions.functions.higher_order import (
    LAMBDA_FAMILY,
    Computation,
    build_lambda_call,
    expect_arguments,
    make_parameter,
    repeats_values,
    type_condition,
    type_lambda,
)
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ExpressionError,
    FunctionCall,
    LambdaFunction,
    TypedExpression,
)
from headrace.core.types.data_types import NULL, MapType


def _expect_map(call: TypedCall, at: int, text: str) -> MapType:
    argument = call.arguments[at]
    if isinstance(argument, UntypedLambda):
        message = f"{call.name} wants a map before the lambda function"
        raise ExpressionError(message, argument.span, f"as in {text}")
    if isinstance(argument.type, MapType):
        return argument.type
    message = f"{call.name} wants a map, got {argument.type}"
    raise ExpressionError(message, argument.span, f"as in {text}")


def _type_entry_lambda(call: TypedCall, map: MapType, text: str) -> LambdaFunction:
    parameters = (make_parameter(map.key, nullable=False), make_parameter(map.value))
    return type_lambda(call, 1, parameters, 2, text)


def _resolve_map_filter(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.map_lambda_forms import filter_entries

    text = "map_filter(map, (k, v) -> v > 1)"
    expect_arguments(call, (2,), text)
    map = _expect_map(call, 0, text)
    condition = type_condition(call, _type_entry_lambda(call, map, text))
    return build_lambda_call(call, map, (call.arguments[0], condition), filter_entries)


def _resolve_transform_values(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.map_lambda_forms import transform_values

    text = "transform_values(map, (k, v) -> v + 1)"
    expect_arguments(call, (2,), text)
    map = _expect_map(call, 0, text)
    made = _type_entry_lambda(call, map, text)
    type = MapType(map.key, made.type)
    return _build_map_call(call, type, (call.arguments[0], made), transform_values)


def _resolve_transform_keys(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.map_lambda_forms import transform_keys

    text = "transform_keys(map, (k, v) -> upper(k))"
    expect_arguments(call, (2,), text)
    map = _expect_map(call, 0, text)
    made = _type_entry_lambda(call, map, text)
    if isinstance(made.type, MapType) or made.type == NULL:
        message = f"{call.name} cannot make keys of type {made.type}"
        raise ExpressionError(message, made.body.span, f"as in {text}")
    type = MapType(made.type, map.value)
    typed = _build_map_call(call, type, (call.arguments[0], made), transform_keys)
    return replace(typed, spark=NO_SPARK_FORM)  # fails at a key that is NULL or occurs twice


def _resolve_map_zip_with(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.map_lambda_forms import zip_maps

    text = "map_zip_with(map, other, (k, v1, v2) -> v1 + v2)"
    expect_arguments(call, (3,), text)
    left, right = (_expect_map(call, at, text) for at in (0, 1))
    key = common_type(left.key, right.key)
    if key is None:
        message = f"{call.name} cannot compare keys of {left.key} and {right.key}"
        raise ExpressionError(
            message,
            call.arguments[1].span,
            f"transform_keys(map, (k, v) -> cast(k as {left.key})) makes others",
        )
    parameters = (
        make_parameter(key, nullable=False),
        make_parameter(left.value),
        make_parameter(right.value),
    )
    made = type_lambda(call, 2, parameters, 3, text)
    maps = (
        widen(argument, MapType(key, map.value))
        for argument, map in zip(call.arguments[:2], (left, right), strict=True)
    )
    return _build_map_call(call, MapType(key, made.type), (*maps, made), zip_maps)


def _build_map_call(
    call: TypedCall, type: MapType, arguments: Sequence[TypedExpression], compute: Computation
) -> FunctionCall:
    """Return the typed call whose last argument is the lambda function."""
    typed = build_lambda_call(call, type, arguments, compute)
    made = arguments[-1]
    assert isinstance(made, LambdaFunction)
    return with_growth(typed, None) if repeats_values(made) else typed


HIGHER_ORDER_MAPS: tuple[SqlFunction, ...] = (
    function(
        *("map_filter", LAMBDA_FAMILY, "The entries for which the condition is true."),
        example=("map_filter(map('a', 1, 'b', 2), (k, v) -> v > 1)", "{b -> 2}"),
        resolve=_resolve_map_filter,
        signatures=("map_filter(map: map<K, V>, (k, v) -> boolean) -> map<K, V>",),
        is_higher_order=True,
    ),
    function(
        *("transform_values", LAMBDA_FAMILY, "The map with other values by the same keys."),
        example=("transform_values(map('a', 1, 'b', 2), (k, v) -> v * 10)", "{a -> 10, b -> 20}"),
        resolve=_resolve_transform_values,
        signatures=("transform_values(map: map<K, V>, (k, v) -> U) -> map<K, U>",),
        is_higher_order=True,
    ),
    function(
        *(
            "transform_keys",
            LAMBDA_FAMILY,
            "The map with other keys for the same values; NULL where a key is NULL or occurs"
            " twice, at which Spark fails.",
        ),
        example=("transform_keys(map('a', 1, 'b', 2), (k, v) -> upper(k))", "{A -> 1, B -> 2}"),
        more=(("transform_keys(map('a', 1, 'b', 2), (k, v) -> 'x')", "NULL"),),
        resolve=_resolve_transform_keys,
        signatures=("transform_keys(map: map<K, V>, (k, v) -> U) -> map<U, V>",),
        is_higher_order=True,
    ),
    function(
        *(
            "map_zip_with",
            LAMBDA_FAMILY,
            "The map of the lambda function's values for each key of either map; NULL is the value"
            " of a key that a map does not have.",
        ),
        example=(
            "map_zip_with(map('a', 1), map('a', 2, 'b', 3), (k, x, y) -> coalesce(x, 0) + y)",
            "{a -> 3, b -> 3}",
        ),
        resolve=_resolve_map_zip_with,
        signatures=(
            "map_zip_with(map: map<K, V>, other: map<K, U>, (k, v1, v2) -> T) -> map<K, T>",
        ),
        is_higher_order=True,
    ),
)
"""The functions of maps that take lambda functions."""
