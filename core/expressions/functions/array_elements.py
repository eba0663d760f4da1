"""Arrays with an element found, inserted or removed, and arrays put side by side.

Values are compared as Spark compares members of arrays: NaN equals NaN, and -0.0 equals 0.0.
"""

from __future__ import annotations

from headrace.core.expressions.function import (
    SqlFunction,
    TypedCall,
    function,
    with_growth,
)
from headrace.core.expressions.functions.arguments import SMALL_FACTOR, literal_int
from headrace.core.expressions.functions.array_element_forms import (
    build_insertion,
    build_position,
    build_removal,
    build_zip,
    explain_zero_index,
    measure_insertion,
)
from headrace.core.expressions.functions.common_types import (
    find_tight_type,
    mismatch_hint,
    refuse_map,
    widen,
)
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ColumnReference,
    Constant,
    ExpressionError,
    FunctionCall,
    TypedExpression,
    find_inputs,
)
from headrace.core.types.data_types import BIGINT, INT, NULL, Array, Field, Struct, is_integer

_FAMILY = "collections"


def _take_arguments(call: TypedCall, *names: str) -> tuple[TypedExpression, ...]:
    """Return the arguments, of which the first is an array."""
    if len(call.arguments) != len(names):
        message = f"{call.name} takes {len(names)} arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, f"as in {call.name}({', '.join(names)})")
    array = call.arguments[0]
    if not isinstance(array.type, Array):
        raise ExpressionError(f"{call.name} wants an array, got {array.type}", array.span)
    return call.arguments


def _widen_element(
    call: TypedCall, array: TypedExpression, value: TypedExpression
) -> tuple[TypedExpression, TypedExpression]:
    """Widen an array and a value to one type of elements."""
    assert isinstance(array.type, Array)
    element = array.type.element
    common = find_tight_type(element, value.type)
    if common is None:
        message = f"{call.name} wants a value of type {element}, got {value.type}"
        raise ExpressionError(message, value.span, mismatch_hint(element, value.type))
    return widen(array, Array(common)), widen(value, common)


def _resolve_position(call: TypedCall) -> TypedExpression:
    array, value = _take_arguments(call, "array", "value")
    refuse_map(call.name, array)
    arguments = _widen_element(call, array, value)
    nullable = array.nullable or value.nullable
    return FunctionCall(BIGINT, nullable, call.span, call.name, arguments, build_position())


def _resolve_removal(call: TypedCall) -> TypedExpression:
    array, value = _take_arguments(call, "array", "value")
    refuse_map(call.name, array)
    arguments = _widen_element(call, array, value)
    type, nullable = arguments[0].type, array.nullable or value.nullable
    return FunctionCall(type, nullable, call.span, call.name, arguments, build_removal(type))


def _resolve_insertion(call: TypedCall) -> TypedExpression:
    array, position, value = _take_arguments(call, "array", "position", "value")
    if not is_integer(position.type) or position.type == BIGINT:
        message = f"array_insert wants an int position, got {position.type}"
        raise ExpressionError(message, position.span, "cast(... as int) converts it")
    if literal_int(position) == 0:
        message = "array_insert counts from 1, or with -1 from the end, got 0"
        raise ExpressionError(message, position.span, "1 inserts at the start, -1 at the end")
    wide, element = _widen_element(call, array, value)
    known = literal_int(position)
    typed = FunctionCall(
        *(wide.type, array.nullable or position.nullable, call.span, call.name),
        (wide, widen(position, INT), element),
        build_insertion(wide.type),
    )
    if known is None and find_inputs(position):
        typed = FunctionCall(
            *(typed.type, typed.nullable, call.span, call.name, typed.arguments, typed.form),
            NO_SPARK_FORM,
            failure=explain_zero_index,
        )
    small = known is not None and abs(known) <= SMALL_FACTOR
    return typed if small else with_growth(typed, measure_insertion)


def _resolve_zip(call: TypedCall) -> TypedExpression:
    void = Array(NULL)
    arrays = tuple(widen(a, void) if a.type == NULL else a for a in call.arguments)
    for array in arrays:
        if not isinstance(array.type, Array):
            raise ExpressionError(f"arrays_zip wants arrays, got {array.type}", array.span)
    names = [_name_element(array) or str(at) for at, array in enumerate(arrays)]
    twice = next((at for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        message = f'two fields named "{names[twice]}"'
        hint = "concat(array) gives the field a number as its name"
        raise ExpressionError(message, arrays[twice].span, hint)
    fields = tuple(
        Field(name, array.type.element)
        for name, array in zip(names, arrays, strict=True)
        if isinstance(array.type, Array)
    )
    type = Array(Struct(fields))
    nullable = any(array.nullable for array in arrays)
    return FunctionCall(type, nullable, call.span, call.name, arrays, build_zip(names, type))


def _name_element(array: TypedExpression) -> str:
    """Return the name that an array has of its own: that of a column or a field."""
    match array:
        case ColumnReference(name=name):
            return name
        case FunctionCall(function=".", arguments=(_, Constant(value=str(name)))):
            return name
    return ""


ARRAY_ELEMENTS: tuple[SqlFunction, ...] = (
    function(
        "array_position",
        _FAMILY,
        "The position of the first element with this value, from 1; 0 if there is none.",
        example=("array_position(array(5, 7, 7), 7)", "2"),
        resolve=_resolve_position,
        signatures=("array_position(array: array<T>, value: T) -> bigint",),
    ),
    function(
        "array_remove",
        _FAMILY,
        "The array without the elements of this value; NULLs stay.",
        example=("array_remove(array(1, 2, null, 2), 2)", "[1, null]"),
        resolve=_resolve_removal,
        signatures=("array_remove(array: array<T>, value: T) -> array<T>",),
    ),
    function(
        "array_insert",
        _FAMILY,
        "The array with another element at a position, 1 is the first and -1 the last; a gap is"
        " filled with NULLs. A row in which the position is 0 fails.",
        example=("array_insert(array(1, 2, 4), 3, 3)", "[1, 2, 3, 4]"),
        more=(("array_insert(array(1), 3, 3)", "[1, null, 3]"),),
        resolve=_resolve_insertion,
        signatures=("array_insert(array: array<T>, position: int, value: T) -> array<T>",),
    ),
    function(
        "arrays_zip",
        _FAMILY,
        "An array of structs of the elements at the same position, as long as the longest array; a"
        " field has the name of its column, or the number of its argument from 0.",
        example=("arrays_zip(array(1, 2), array('a'))", "[{1, a}, {2, null}]"),
        resolve=_resolve_zip,
        signatures=("arrays_zip(array: array<T>...) -> array<struct<...>>",),
    ),
)
"""The functions of elements of arrays."""
