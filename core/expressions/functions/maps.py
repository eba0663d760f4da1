"""Maps: making them, and their keys, values and entries.

A map has no order and no equality in Spark: it cannot be compared, grouped by or be a key. A key
that is NULL or occurs twice makes no map: the row fails, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.casts.rules import find_refusal
from headrace.core.expressions.coercion import coerce_to, common_type
from headrace.core.expressions.function import (
    SqlFunction,
    TypedCall,
    choose_signature,
    function,
    overload,
)
from headrace.core.expressions.functions.common_types import (
    find_tight_type,
    mismatch_hint,
    widen,
    widen_all,
)
from headrace.core.expressions.functions.map_forms import (
    build_entries,
    build_key_check,
    build_map,
    build_pairing,
    build_pairs,
    build_union,
    look_up,
    split_entries,
)
from headrace.core.expressions.functions.patterns import build_split, find_plain_separator
from headrace.core.expressions.signature import BoundArguments, parse_signature
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    Constant,
    ConstantValue,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import (
    BOOLEAN,
    NULL,
    STRING,
    Array,
    MapType,
    Struct,
    Type,
    find_map,
    is_nested,
    is_numeric,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

_FAMILY = "collections"
_FROM_ARRAYS = "map_from_arrays(keys: array<K>, values: array<V>) -> map<K, V>"
_FROM_TEXT = (
    "str_to_map(text: exact string, [pattern: constant string], [separator: constant string])"
    " -> map<string, string>"
)


def resolve_map_subscript(call: TypedCall) -> TypedExpression:
    """Resolve `map[key]` and `map.key`: the key is cast to the type of the keys."""
    map, key = call.arguments
    assert isinstance(map.type, MapType)
    wanted = map.type.key
    if key.type == NULL:
        return build_cast(key, map.type.value, call.span)
    found = _cast_key(key, wanted)
    if found is None:
        message = f"the keys of this map are of type {wanted}, got {key.type}"
        raise ExpressionError(message, key.span, mismatch_hint(wanted, key.type))
    return FunctionCall(map.type.value, True, call.span, call.name, (map, found), look_up)


def _cast_key(key: TypedExpression, wanted: Type) -> TypedExpression | None:
    """Cast a key as Spark casts arguments implicitly: numbers to numbers, and values to text."""
    numbers = is_numeric(key.type) and is_numeric(wanted)
    text = wanted == STRING and not is_nested(key.type)
    if (numbers or text) and not find_refusal(key.type, wanted, try_=False):
        return build_cast(key, wanted, key.span)
    return coerce_to(key, wanted)


def resolve_map_element(call: TypedCall) -> TypedExpression:
    """Resolve `element_at(map, key)`: map and key are widened to the type of one of them."""
    map, key = call.arguments
    assert isinstance(map.type, MapType)
    if key.type == NULL:
        return build_cast(key, map.type.value, call.span)
    if find_tight_type(map.type.key, key.type) is None:
        message = f"element_at wants a key of type {map.type.key}, got {key.type}"
        hint = mismatch_hint(map.type.key, key.type)
        if is_numeric(map.type.key) and is_numeric(key.type):
            hint = f"cast(... as {map.type.key}) converts it"
        raise ExpressionError(message, key.span, hint)
    arguments = _widen_key(call, map, key)
    return FunctionCall(map.type.value, True, call.span, call.name, arguments, look_up)


def _widen_key(
    call: TypedCall, map: TypedExpression, key: TypedExpression
) -> tuple[TypedExpression, TypedExpression]:
    assert isinstance(map.type, MapType)
    common = common_type(map.type.key, key.type)
    if common is None:
        message = f"{call.name} cannot look for {key.type} in the keys of {map.type}"
        raise ExpressionError(message, key.span, mismatch_hint(map.type.key, key.type))
    return widen(map, MapType(common, map.type.value)), widen(key, common)


def _resolve_contains_key(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.batch_forms import evaluate_once

    if len(call.arguments) != 2:
        message = f"map_contains_key takes 2 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, "its signature is map_contains_key(map, key)")
    map, key = call.arguments
    if not isinstance(map.type, MapType):
        raise ExpressionError(f"map_contains_key wants a map, got {map.type}", map.span)
    if key.type == NULL:
        hint = "cast(null as ...) gives the NULL a type"
        raise ExpressionError("map_contains_key cannot look for a bare NULL", key.span, hint)
    arguments = _widen_key(call, map, key)
    form = evaluate_once(_contains_key, BOOLEAN)
    return FunctionCall(BOOLEAN, True, call.span, call.name, arguments, form)


def _contains_key(map: pl.Expr, key: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when(key.is_not_null()).then(map.map.contains_key(key))


def _resolve_map(call: TypedCall) -> TypedExpression:
    keys, values = call.arguments[::2], call.arguments[1::2]
    if len(keys) != len(values):
        message = f"map takes pairs of a key and a value, got {len(call.arguments)} arguments"
        raise ExpressionError(message, call.span, "as in map('a', 1, 'b', 2)")
    for key in keys:
        _check_key(key)
    keys, key_type = widen_all(call, keys)
    values, value_type = widen_all(call, values)
    type = MapType(key_type, value_type)
    parts = tuple(part for pair in zip(keys, values, strict=True) for part in pair)
    safe = _are_distinct(keys)
    if not parts:
        return _build_empty_map(call, type)
    typed = _build_map(call, type, parts, build_pairs(type), nullable=False)
    return replace(typed, spark=AS_WRITTEN, failure=None) if safe else typed


def _build_empty_map(call: TypedCall, type: MapType) -> FunctionCall:
    import polars as pl

    empty = pl.lit({}, dtype=to_polars(type))
    return FunctionCall(type, False, call.span, call.name, (), lambda: empty)


def _build_map(
    call: TypedCall,
    type: MapType,
    arguments: tuple[TypedExpression, ...],
    entries: PolarsForm,
    *,
    nullable: bool = True,
) -> FunctionCall:
    """Return the map of the entries of arguments, which fails in rows in which they make none."""
    return FunctionCall(
        *(type, nullable, call.span, call.name, arguments, build_map(type, entries)),
        spark=NO_SPARK_FORM,
        failure=build_key_check(entries),
    )


def _check_key(key: TypedExpression) -> None:
    if key.type == NULL:
        raise ExpressionError("a key of a map cannot be null", key.span)
    if find_map(key.type):
        hint = "map_entries(...) gives the entries of a map as an array"
        raise ExpressionError(
            f"a key of a map cannot contain a map, got {key.type}", key.span, hint
        )


def _are_distinct(keys: Sequence[TypedExpression]) -> bool:
    """Whether the keys are distinct literals; raises an error for a literal that occurs twice."""
    known: set[ConstantValue] = set()
    for key in keys:
        if isinstance(key, Constant) and key.value is not None:
            if key.value in known:
                raise ExpressionError(f"the key {key.value!r} occurs twice", key.span)
            known.add(key.value)
    return len(known) == len(keys)


def _resolve_concat(call: TypedCall) -> TypedExpression:
    maps = call.arguments
    if not maps:
        type = MapType(STRING, STRING)
        return _build_empty_map(call, type)
    for map in maps:
        if not isinstance(map.type, MapType):
            raise ExpressionError(f"map_concat joins maps, got {map.type}", map.span)
    maps, common = widen_all(call, maps)
    assert isinstance(common, MapType)
    return _build_map(call, common, maps, build_union(common))


def _resolve_from_entries(call: TypedCall) -> TypedExpression:
    if len(call.arguments) != 1:
        message = f"map_from_entries takes 1 argument, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, "as in map_from_entries(array(struct('a', 1)))")
    (array,) = call.arguments
    entry = array.type.element if isinstance(array.type, Array) else None
    if not isinstance(entry, Struct) or len(entry.fields) != 2:
        message = f"map_from_entries wants an array of structs of two fields, got {array.type}"
        raise ExpressionError(message, array.span, "as in map_from_entries(array(struct('a', 1)))")
    key, value = entry.fields
    _check_key(TypedExpression(key.type, True, array.span))
    type = MapType(key.type, value.type)
    return _build_map(call, type, (array,), build_entries((key.name, value.name)))


def _resolve_from_arrays(call: TypedCall) -> TypedExpression:
    _, bound = choose_signature(call, [parse_signature(_FROM_ARRAYS)])
    assert isinstance(bound.result, MapType)
    typed = _build_map(call, bound.result, bound.arguments, build_pairing(bound.result))
    check = typed.failure
    assert check is not None

    def explain(keys: pl.Expr, values: pl.Expr) -> pl.Expr:
        import polars as pl

        reason = pl.lit("the arrays of keys and of values have not the same length")
        same = keys.list.len() == values.list.len()
        return pl.when(~same).then(reason).otherwise(check(keys, values))

    return replace(typed, failure=explain)


def _build_part(form: PolarsForm) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of an array of parts of a map; with keys of type `void` it is empty."""

    def build(bound: BoundArguments) -> PolarsForm:
        import polars as pl

        if bound.type_arguments["K"] != NULL:
            return form
        empty = pl.lit([], dtype=to_polars(bound.result))
        return lambda map: pl.when(map.is_not_null()).then(empty)

    return build


def _resolve_from_text(call: TypedCall) -> TypedExpression:
    _, bound = choose_signature(call, [parse_signature(_FROM_TEXT)])
    assert isinstance(bound.result, MapType)
    pair, separator = (bound.constants.get(at, default) for at, default in ((1, ","), (2, ":")))
    if pair is None or separator is None:
        return Constant(bound.result, True, call.span, None)
    plain = find_plain_separator(str(separator))
    if not plain:
        message = "str_to_map wants plain text between a key and its value"
        hint = r"plain text is ':' or '\\.'; between the entries any pattern is accepted"
        raise ExpressionError(message, bound.arguments[2].span, hint)
    split = build_split(replace(bound, constants={1: pair}, result=Array(STRING)))

    def entries(text: pl.Expr) -> pl.Expr:
        return split_entries(split(text), plain)

    return _build_map(call, bound.result, bound.column_arguments, entries)


MAPS: tuple[SqlFunction, ...] = (
    function(
        "map",
        _FAMILY,
        "A map of keys and values, which alternate. A row fails in which a key is NULL or occurs"
        " twice.",
        example=("map('a', 1, 'b', 2)", "{a -> 1, b -> 2}"),
        resolve=_resolve_map,
        signatures=("map(key: K, value: V, ...) -> map<K, V>",),
    ),
    function(
        "map_concat",
        _FAMILY,
        "A map of the entries of all maps. A row fails in which a key occurs twice.",
        example=("map_concat(map('a', 1), map('b', 2))", "{a -> 1, b -> 2}"),
        resolve=_resolve_concat,
        signatures=("map_concat(map: map<K, V>...) -> map<K, V>",),
    ),
    function(
        "map_contains_key",
        _FAMILY,
        "Whether the map has the key; NULL if either is.",
        example=("map_contains_key(map('a', 1), 'a')", "true"),
        resolve=_resolve_contains_key,
        signatures=("map_contains_key(map: map<K, V>, key: K) -> boolean",),
    ),
    function(
        "map_entries",
        _FAMILY,
        "The entries of a map, as an array of structs of a key and a value.",
        overload(
            "map_entries(map: map<K, V>) -> array<struct<key: K, value: V>>",
            build=_build_part(lambda map: map.map.entries()),
            nulls="strict",
        ),
        example=("map_entries(map('a', 1, 'b', 2))", "[{a, 1}, {b, 2}]"),
    ),
    function(
        "map_from_arrays",
        _FAMILY,
        "A map of an array of keys and an array of values. A row fails in which a key is NULL or"
        " occurs twice, or the arrays are not of the same length.",
        example=("map_from_arrays(array('a', 'b'), array(1, 2))", "{a -> 1, b -> 2}"),
        resolve=_resolve_from_arrays,
        signatures=(_FROM_ARRAYS,),
    ),
    function(
        "map_from_entries",
        _FAMILY,
        "A map of an array of structs of a key and a value; NULL if one of the structs is. A row"
        " fails in which a key is NULL or occurs twice.",
        example=("map_from_entries(array(struct('a', 1), struct('b', 2)))", "{a -> 1, b -> 2}"),
        resolve=_resolve_from_entries,
        signatures=("map_from_entries(entries: array<struct<key: K, value: V>>) -> map<K, V>",),
    ),
    function(
        "map_keys",
        _FAMILY,
        "The keys of a map, as an array.",
        overload(
            "map_keys(map: map<K, V>) -> array<K>",
            build=_build_part(lambda map: map.map.keys()),
            nulls="strict",
        ),
        example=("map_keys(map('a', 1, 'b', 2))", "[a, b]"),
    ),
    function(
        "map_values",
        _FAMILY,
        "The values of a map, as an array.",
        overload(
            "map_values(map: map<K, V>) -> array<V>", lambda map: map.map.values(), nulls="strict"
        ),
        example=("map_values(map('a', 1, 'b', 2))", "[1, 2]"),
    ),
    function(
        "str_to_map",
        _FAMILY,
        "A map of the texts between the matches of a pattern, ',' if none is given, each split at"
        " the first separator, ':' if none is given. A row fails in which a key occurs twice.",
        example=("str_to_map('a:1,b:2')", "{a -> 1, b -> 2}"),
        more=(("str_to_map('a=1&b', '&', '=')", "{a -> 1, b -> null}"),),
        resolve=_resolve_from_text,
        signatures=(_FROM_TEXT,),
    ),
)
"""The functions of maps."""
