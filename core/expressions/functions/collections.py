"""Arrays and structs: making them, and accessing their contents.

`a[i]` and `get` count from 0, `element_at` from 1 or, negative, from the end. A missing element is
NULL; position 0 fails the row. An index wraps to int as in Spark, where only the lowest 32 bits of
a bigint count. A field of an array of structs is the array of that field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.coercion import coerce_argument, common_type
from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.collection_forms import (
    build_array,
    build_column_access,
    build_constant_access,
    build_contains,
    build_element_field,
    build_position_access,
    build_struct,
    explain_zero_position,
    get_at_position,
)
from headrace.core.expressions.functions.common_types import (
    mismatch_hint,
    refuse_map,
    widen,
    widen_all,
)
from headrace.core.expressions.functions.maps import resolve_map_element, resolve_map_subscript
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ColumnReference,
    Constant,
    ExpressionError,
    FunctionCall,
    LambdaVariable,
    Span,
    TypedExpression,
    find_inputs,
)
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    INT,
    NULL,
    STRING,
    Array,
    Field,
    MapType,
    Struct,
    Type,
    is_integer,
    to_polars,
)


def _expect_arguments(call: TypedCall, count: int, text: str) -> tuple[TypedExpression, ...]:
    actual = len(call.arguments)
    if actual != count:
        message = f"{call.name} takes {count} arguments, got {actual}"
        raise ExpressionError(message, call.span, f"its signature is {text}")
    return call.arguments


def _expect_array(call: TypedCall, value: TypedExpression) -> Array:
    if isinstance(value.type, Array):
        return value.type
    raise ExpressionError(f"{call.name} wants an array, got {value.type}", value.span)


def _resolve_subscript(call: TypedCall) -> TypedExpression:
    """Resolve `base[index]`: an element of an array, or a field of a struct by its name."""
    base, index = call.arguments
    named = isinstance(index, Constant) and index.type == STRING
    if named and _find_struct(base.type) is not None:
        return _resolve_field(call)
    if isinstance(base.type, MapType):
        return resolve_map_subscript(call)
    if isinstance(base.type, Array):
        return _resolve_element(call)
    if isinstance(base.type, Struct):
        raise ExpressionError("wanted the name of a field in quotes", index.span)
    hint = "substring(text, start, length) returns part of a text" if base.type == STRING else ""
    raise ExpressionError(
        f"[ ] wants an array, a map or a struct, got {base.type}", base.span, hint
    )


def _resolve_get(call: TypedCall) -> TypedExpression:
    array, index = _expect_arguments(call, 2, "get(array, index)")
    if not is_integer(index.type):
        index = coerce_argument(index, INT) or index
    return _resolve_element(replace(call, arguments=(array, index)))


def _resolve_element(call: TypedCall) -> TypedExpression:
    array, index = call.arguments
    element = _expect_array(call, array).element
    if not is_integer(index.type) and index.type != NULL:
        message = f"the index of an array must be an integer, got {index.type}"
        hint = "" if index.type == BOOLEAN else "cast(... as int) converts it"
        raise ExpressionError(message, index.span, hint)
    if isinstance(index, Constant):
        form = build_constant_access(_wrap_to_int(index.value), to_polars(element))
        return FunctionCall(element, True, call.span, call.name, (array,), form)
    form = build_column_access(index.type, element)
    arguments = (array, widen(index, INT) if index.type == NULL else index)
    return FunctionCall(element, True, call.span, call.name, arguments, form)


def _wrap_to_int(value: object) -> int | None:
    """Return the lowest 32 bits, as Java converts a long to an int."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31) if isinstance(value, int) else None


def _find_struct(type: Type) -> Struct | None:
    """Return the struct with the fields: the type itself, or the type of an array's elements."""
    inner = type.element if isinstance(type, Array) else type
    return inner if isinstance(inner, Struct) else None


def _resolve_field(call: TypedCall) -> TypedExpression:
    """Resolve `base.name`: a field, of an array of structs the array of that field, or of a map
    the value of that key."""
    base, name = call.arguments
    if isinstance(base.type, MapType):
        return resolve_map_subscript(call)
    struct = _find_struct(base.type)
    assert isinstance(name, Constant), "the parser gives a name"
    written = str(name.value)
    if struct is None:
        raise ExpressionError(f'no field "{written}": {base.type} has no fields', name.span)
    field = _find_field(struct, written, name.span)
    parts = (call.span, ".", (base, name))
    if isinstance(base.type, Array):
        return FunctionCall(
            Array(field.type), base.nullable, *parts, build_element_field(field.name)
        )
    nullable = base.nullable or field.nullable
    return FunctionCall(field.type, nullable, *parts, lambda base, _: base.struct.field(field.name))


def _find_field(struct: Struct, name: str, span: Span) -> Field:
    field = struct.get(name)
    if field is not None:
        return field
    known = [each.name for each in struct.fields]
    hint = suggest_name(name, known) or f"the fields are {', '.join(known)}"
    in_quotes = span.end - span.start == len(name) + 2
    span = Span(span.start + 1, span.end - 1) if in_quotes else span
    raise ExpressionError(f'unknown field "{name}"', span, hint)


def _check_not_zero(bound: BoundArguments) -> None:
    if bound.constants[1] == 0:
        message = "element_at counts from 1, or with -1 from the end, got 0"
        raise ExpressionError(message, bound.arguments[1].span, "array[0] is the first element")


_ELEMENT_AT = function(
    "element_at",
    "collections",
    "The element of an array at a position, 1 is the first, -1 the last, or the value of a key of a"
    " map; NULL if there is none. A row in which the position is 0 fails.",
    overload(
        "element_at(array: array<T>, position: constant int) -> T",
        get_at_position,
        check=_check_not_zero,
    ),
    example=("element_at(array('a', 'b', 'c'), -1)", "c"),
    more=(
        ("element_at(array('a', 'b', 'c'), 4)", "NULL"),
        ("element_at(map('a', 1, 'b', 2), 'b')", "2"),
    ),
    aliases=("try_element_at",),
    signatures=(
        "element_at(array: array<T>, position: constant int) -> T",
        "element_at(map: map<K, V>, key: K) -> V",
    ),
)


def _resolve_element_at(call: TypedCall) -> TypedExpression:
    """Resolve `element_at`: a computed position fails the row where it is 0, as in Spark."""
    array, position = _expect_arguments(call, 2, "element_at(array, position)")
    if isinstance(array.type, MapType):
        return resolve_map_element(call)
    if not is_integer(position.type) or position.type == BIGINT:
        message = f"element_at wants an int position, got {position.type}"
        raise ExpressionError(message, position.span, "cast(... as int) converts it")
    if find_inputs(position) and isinstance(array.type, Array) and is_integer(position.type):
        return FunctionCall(
            array.type.element,
            True,
            call.span,
            call.name,
            (array, position),
            build_position_access(array.type.element),
            NO_SPARK_FORM,
            failure=explain_zero_position,
        )
    return _ELEMENT_AT.resolve(call)


def _resolve_array_contains(call: TypedCall) -> TypedExpression:
    array, value = _expect_arguments(call, 2, "array_contains(array, value)")
    element = _expect_array(call, array).element
    refuse_map(call.name, array)
    if value.type == NULL:
        hint = "cast(null as ...) gives the NULL a type"
        raise ExpressionError("array_contains cannot look for a bare NULL", value.span, hint)
    common = common_type(element, value.type)
    if common is None:
        message = f"array_contains cannot look for {value.type} in {array.type}"
        raise ExpressionError(message, value.span, mismatch_hint(element, value.type))
    arguments = (widen(array, Array(common)), widen(value, common))
    return FunctionCall(BOOLEAN, True, call.span, call.name, arguments, build_contains())


def _resolve_array(call: TypedCall) -> TypedExpression:
    values, element = widen_all(call, call.arguments)
    form = build_array(to_polars(element), nested=isinstance(element, Array))
    return FunctionCall(Array(element), False, call.span, call.name, values, form)


def _resolve_named_struct(call: TypedCall) -> TypedExpression:
    names, values = call.arguments[::2], call.arguments[1::2]
    if not values or len(names) != len(values):
        message = (
            f"named_struct takes pairs of a name and a value, got {len(call.arguments)} arguments"
        )
        raise ExpressionError(message, call.span, "as in named_struct('a', 1, 'b', 2)")
    for name in names:
        if not isinstance(name, Constant) or name.type != STRING:
            raise ExpressionError("the name of a field must be text in quotes", name.span)
    texts = [str(name.value) for name in names if isinstance(name, Constant)]
    return _build_struct(call, texts, values)


def _resolve_struct(call: TypedCall) -> TypedExpression:
    if not call.arguments:
        raise ExpressionError("struct takes at least 1 argument, got 0", call.span)
    names = [_field_name(value) or f"col{i}" for i, value in enumerate(call.arguments, 1)]
    return _build_struct(call, names, call.arguments)


def _field_name(value: TypedExpression) -> str:
    """Return the name that a value has of its own: that of a column or a field."""
    match value:
        case ColumnReference(name=name) | LambdaVariable(name=name):
            return name
        case FunctionCall(function=".", arguments=(_, Constant(value=str(name)))):
            return name
    return ""


def _build_struct(
    call: TypedCall, names: Sequence[str], values: Sequence[TypedExpression]
) -> TypedExpression:
    twice = next((i for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        message = f'two fields named "{names[twice]}"'
        raise ExpressionError(
            message, values[twice].span, "named_struct('name', value) sets the names"
        )
    fields = zip(names, values, strict=True)
    type = Struct(tuple(Field(name, value.type) for name, value in fields))
    return FunctionCall(type, False, call.span, call.name, tuple(values), build_struct(names))


COLLECTIONS: tuple[SqlFunction, ...] = (
    function(
        "[]",
        "collections",
        "An element of an array, counted from 0, the value of a key of a map, or a field of a"
        " struct by its name in quotes; NULL if there is no such element.",
        example=("array('a', 'b')[0]", "a"),
        more=(("array('a', 'b')[2]", "NULL"), ("map('a', 1)['a']", "1")),
        resolve=_resolve_subscript,
        signatures=(
            "array[index: I] -> T",
            "map[key: K] -> V",
            "struct['field'] -> T",
        ),
    ),
    function(
        ".",
        "collections",
        "A field of a struct, NULL if the struct is NULL; of an array of structs, the array of this"
        " field; of a map, the value of this key, NULL if there is none.",
        example=("named_struct('a', 1).a", "1"),
        more=(("map('a', 1).a", "1"),),
        resolve=_resolve_field,
        signatures=("struct.field -> T", "array.field -> array<T>", "map.key -> V"),
    ),
    function(
        "size",
        "collections",
        "The number of elements of an array, NULLs included, or of entries of a map; -1 for NULL.",
        overload(
            "size(array: array<T>) -> int",
            lambda array: array.list.len().cast(to_polars(INT)).fill_null(-1),
            nulls="never",
        ),
        overload(
            "size(map: map<K, V>) -> int",
            lambda map: map.map.len().cast(to_polars(INT)).fill_null(-1),
            nulls="never",
        ),
        example=("size(array(1, null))", "2"),
        more=(("size(null)", "-1"), ("size(map('a', 1))", "1")),
        aliases=("cardinality",),
    ),
    replace(_ELEMENT_AT, resolve_own=_resolve_element_at),
    function(
        "get",
        "collections",
        "The element at an index, counted from 0; NULL if the index is negative or too high.",
        example=("get(array('a', 'b'), 1)", "b"),
        resolve=_resolve_get,
        signatures=("get(array: array<T>, index: I) -> T",),
    ),
    function(
        "array_contains",
        "collections",
        "Whether the array contains the value; NULL if either is NULL, or if the value is not found"
        " and the array contains a NULL.",
        example=("array_contains(array(1, 2), 2)", "true"),
        more=(("array_contains(array(1, null), 2)", "NULL"),),
        resolve=_resolve_array_contains,
        signatures=("array_contains(array: array<T>, value: T) -> boolean",),
    ),
    function(
        "array",
        "collections",
        "An array of the values, widened to one type.",
        example=("array(1, 2, 3)", "[1, 2, 3]"),
        resolve=_resolve_array,
        signatures=("array(value: T...) -> array<T>",),
    ),
    function(
        "named_struct",
        "collections",
        "A struct of fields, each a name in quotes and a value.",
        example=("named_struct('a', 1, 'b', 'x')", "{1, x}"),
        resolve=_resolve_named_struct,
        signatures=("named_struct(name: constant string, value: T, ...) -> struct<...>",),
    ),
    function(
        "struct",
        "collections",
        "A struct of the values; a field is named after its column, or col1, col2, ...",
        example=("struct(1, 'x')", "{1, x}"),
        resolve=_resolve_struct,
        signatures=("struct(value: T...) -> struct<...>",),
    ),
)
"""The functions of arrays and structs."""
