"""Higher-order functions: what computes the elements of arrays by lambda functions.

The parameters of a lambda function have the types of the elements. An argument that is no lambda
function is the value for every element, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.expressions.function import (
    SqlFunction,
    TypedCall,
    UntypedLambda,
    choose_signature,
    function,
    overload,
    with_growth,
)
from headrace.core.expressions.functions.common_types import to_condition
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    NOWHERE,
    ColumnReference,
    ExpressionError,
    FunctionCall,
    LambdaFunction,
    LambdaVariable,
    PolarsForm,
    TypedExpression,
    find_inputs,
    walk,
)
from headrace.core.types.data_types import (
    BOOLEAN,
    INT,
    MAX_DIGITS,
    Array,
    Decimal,
    Type,
    is_integer,
    is_nested,
    strip_nullability,
)

if TYPE_CHECKING:
    import polars as pl

LAMBDA_FAMILY = "lambda functions"
_FAMILY = LAMBDA_FAMILY
Computation: TypeAlias = "Callable[..., pl.Series]"


def make_parameter(type: Type, *, nullable: bool = True) -> TypedExpression:
    """Return a value of the type of a parameter of a lambda function."""
    return TypedExpression(type, nullable, NOWHERE)


def expect_arguments(call: TypedCall, counts: Sequence[int], text: str) -> None:
    """Raise the error about another number of arguments; `text` is an example."""
    if len(call.arguments) not in counts:
        wanted = " or ".join(map(str, counts))
        message = f"{call.name} takes {wanted} arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, f"as in {text}")


def _expect_array(call: TypedCall, at: int, text: str) -> Type:
    """Return the type of the elements of an argument."""
    argument = call.arguments[at]
    if isinstance(argument, UntypedLambda):
        message = f"{call.name} wants an array before the lambda function"
        raise ExpressionError(message, argument.span, f"as in {text}")
    if isinstance(argument.type, Array):
        return argument.type.element
    message = f"{call.name} wants an array, got {argument.type}"
    raise ExpressionError(message, argument.span, f"as in {text}")


def type_lambda(
    call: TypedCall, at: int, parameters: Sequence[TypedExpression], least: int, text: str
) -> LambdaFunction:
    """Return the lambda function of the call, of some or all of these parameters."""
    argument = call.arguments[at]
    if not isinstance(argument, UntypedLambda):
        return LambdaFunction(argument.type, argument.nullable, argument.span, (), argument)
    count = len(argument.parameters)
    if not least <= count <= len(parameters):
        wanted = " or ".join(map(str, range(least, len(parameters) + 1)))
        noun = "parameter" if wanted == "1" else "parameters"
        message = f"{call.name} wants a lambda function of {wanted} {noun}, got {count}"
        raise ExpressionError(message, argument.span, f"as in {text}")
    return argument.apply(parameters[:count])


def type_condition(call: TypedCall, function: LambdaFunction) -> LambdaFunction:
    """Return the lambda function with a condition as its body."""
    body = to_condition(call, function.body, null=True)
    return replace(function, type=body.type, body=body)


def repeats_values(function: LambdaFunction) -> bool:
    """Whether the function may make values of any size for each element of the same outer one."""
    from headrace.core.expressions.value_sizes import has_variable_size

    outer = find_inputs(function)
    return has_variable_size(function.type) and any(
        has_variable_size(node.type) and not find_inputs(node).isdisjoint(outer)
        for node in walk(function.body)
        if isinstance(node, ColumnReference | LambdaVariable)
    )


def build_lambda_call(
    call: TypedCall, type: Type, arguments: Sequence[TypedExpression], compute: Computation
) -> FunctionCall:
    """Return the typed call; it is NULL where an array is."""
    from headrace.core.expressions.compiled_lambda import build_higher_order_form

    form = build_higher_order_form(compute, type)
    return FunctionCall(type, True, call.span, call.name, tuple(arguments), form)


_TRANSFORM = "transform(array, x -> x + 1)"


def _resolve_transform(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.lambda_forms import transform_elements

    expect_arguments(call, (2,), _TRANSFORM)
    element = _expect_array(call, 0, _TRANSFORM)
    parameters = (make_parameter(element), make_parameter(INT, nullable=False))
    made = type_lambda(call, 1, parameters, 1, _TRANSFORM)
    typed = build_lambda_call(call, Array(made.type), (call.arguments[0], made), transform_elements)
    return with_growth(typed, None) if repeats_values(made) else typed


def _resolve_filter(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.lambda_forms import filter_elements

    text = "filter(array, x -> x > 1)"
    expect_arguments(call, (2,), text)
    element = _expect_array(call, 0, text)
    parameters = (make_parameter(element), make_parameter(INT, nullable=False))
    condition = type_condition(call, type_lambda(call, 1, parameters, 1, text))
    array = call.arguments[0]
    return build_lambda_call(call, array.type, (array, condition), filter_elements)


def _build_search_resolver(name: str) -> Callable[[TypedCall], TypedExpression]:
    """Return the resolver of `exists` or `forall`."""

    def resolve(call: TypedCall) -> TypedExpression:
        from headrace.core.expressions.functions import lambda_forms

        text = f"{name}(array, x -> x > 1)"
        expect_arguments(call, (2,), text)
        parameters = (make_parameter(_expect_array(call, 0, text)),)
        condition = type_condition(call, type_lambda(call, 1, parameters, 1, text))
        exists = name == "exists"
        compute = lambda_forms.find_element if exists else lambda_forms.check_elements
        return build_lambda_call(call, BOOLEAN, (call.arguments[0], condition), compute)

    return resolve


def _resolve_zip_with(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.lambda_forms import zip_elements

    text = "zip_with(array, other, (x, y) -> x + y)"
    expect_arguments(call, (3,), text)
    parameters = [make_parameter(_expect_array(call, at, text)) for at in (0, 1)]
    made = type_lambda(call, 2, parameters, 2, text)
    typed = build_lambda_call(call, Array(made.type), (*call.arguments[:2], made), zip_elements)
    return with_growth(typed, None) if repeats_values(made) else typed


def _resolve_aggregate(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.array_folds import fold_elements, sum_elements
    from headrace.core.expressions.value_sizes import has_variable_size

    text = f"{call.name}(array, 0, (total, x) -> total + x)"
    expect_arguments(call, (3, 4), text)
    element = _expect_array(call, 0, text)
    start = call.arguments[1]
    if isinstance(start, UntypedLambda):
        message = f"{call.name} wants a value to start with before the lambda function"
        raise ExpressionError(message, start.span, f"as in {text}")
    state = make_parameter(start.type)
    merge = type_lambda(call, 2, (state, make_parameter(element)), 2, text)
    _check_merge(call, merge)
    arguments: list[TypedExpression] = [*call.arguments[:2], merge]
    if len(call.arguments) == 4:
        arguments.append(type_lambda(call, 3, (state,), 1, f"{text[:-1]}, total -> total * 2)"))
    growing = has_variable_size(start.type)
    if term := _find_added_term(merge):
        arguments[2] = term
        return build_lambda_call(call, arguments[-1].type, arguments, sum_elements)
    typed = build_lambda_call(call, arguments[-1].type, arguments, fold_elements)
    return with_growth(typed, None) if growing else typed


def _find_added_term(merge: LambdaFunction) -> LambdaFunction | None:
    """Return what a merge adds to the state for each element, if it only adds whole numbers."""
    body = merge.body
    if not (isinstance(body, FunctionCall) and body.function == "+" and is_integer(body.type)):
        return None
    if not merge.parameters:
        return None
    state, element = merge.parameters
    for added, other in permutations(body.arguments):
        is_state = isinstance(added, LambdaVariable) and added.column == state.column
        if is_state and state.column not in find_inputs(other):
            return LambdaFunction(other.type, other.nullable, merge.span, (element,), other)
    return None


def _check_merge(call: TypedCall, merge: LambdaFunction) -> None:
    """Refuse a merge that gives another type than that of the start."""
    start = call.arguments[1]
    if strip_nullability(merge.type) == strip_nullability(start.type):
        return
    message = f"{call.name} starts with {start.type}, and its lambda function gives {merge.type}"
    if isinstance(merge.type, Decimal):
        wide = Decimal(MAX_DIGITS, merge.type.scale)
        hint = f"cast the start, and what the lambda function gives, as {wide}"
        raise ExpressionError(message, start.span, hint)
    raise ExpressionError(message, start.span, f"write cast(... as {merge.type})")


_ARRAY_SORT = "array_sort(array, (left, right) -> left - right)"


def _sort_nulls_last(array: pl.Expr) -> pl.Expr:
    import polars as pl

    return array.list.eval(pl.element().sort(nulls_last=True))


def _build_sort(bound: BoundArguments) -> PolarsForm:
    if not is_nested(bound.type_arguments["O"]):
        return _sort_nulls_last
    from headrace.core.expressions.value_order import build_sort

    return build_sort(bound.result, descending=False, nulls_last=True)


_SORT = overload(
    "array_sort(array: array<O>) -> array<O>",
    build=_build_sort,
    nulls="strict",
)


def _resolve_array_sort(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.comparator_sort import sort_elements

    expect_arguments(call, (1, 2), _ARRAY_SORT)
    element = _expect_array(call, 0, _ARRAY_SORT)
    array = call.arguments[0]
    if len(call.arguments) == 1:
        _, bound = choose_signature(call, [_SORT.signature])
        return _SORT.apply(call, bound)
    parameters = (make_parameter(element), make_parameter(element))
    comparator = type_lambda(call, 1, parameters, 2, _ARRAY_SORT)
    if comparator.type != INT:
        message = f"{call.name} wants a lambda function that gives int, got {comparator.type}"
        raise ExpressionError(message, comparator.body.span, "it gives -1, 0 or 1")
    typed = build_lambda_call(call, array.type, (array, comparator), sort_elements)
    # Spark fails at a NULL, and may fail where the comparator contradicts itself.
    return replace(typed, spark=NO_SPARK_FORM)


HIGHER_ORDER: tuple[SqlFunction, ...] = (
    function(
        *("transform", _FAMILY, "The array of the lambda function's values, of each element."),
        example=("transform(array(1, 2, 3), x -> x * 10)", "[10, 20, 30]"),
        more=(("transform(array('a', 'b'), (x, i) -> x || i)", "[a0, b1]"),),
        resolve=_resolve_transform,
        signatures=(
            "transform(array: array<T>, x -> U) -> array<U>",
            "transform(array: array<T>, (x, index) -> U) -> array<U>",
        ),
        is_higher_order=True,
    ),
    function(
        *("filter", _FAMILY, "The elements for which the condition is true."),
        example=("filter(array(1, 2, 3, null), x -> x > 1)", "[2, 3]"),
        more=(("filter(array('a', 'b', 'c'), (x, i) -> i % 2 = 0)", "[a, c]"),),
        resolve=_resolve_filter,
        signatures=(
            "filter(array: array<T>, x -> boolean) -> array<T>",
            "filter(array: array<T>, (x, index) -> boolean) -> array<T>",
        ),
        is_higher_order=True,
    ),
    function(
        *(
            "exists",
            _FAMILY,
            "Whether the condition is true for an element; NULL if it is not, but NULL for one.",
        ),
        example=("exists(array(1, 2, 3), x -> x > 2)", "true"),
        more=(("exists(array(1, null), x -> x > 2)", "NULL"),),
        resolve=_build_search_resolver("exists"),
        signatures=("exists(array: array<T>, x -> boolean) -> boolean",),
        is_higher_order=True,
    ),
    function(
        *(
            "forall",
            _FAMILY,
            "Whether the condition is true for all elements; NULL if it is NULL for one, and "
            "false for none.",
        ),
        example=("forall(array(1, 2, 3), x -> x > 0)", "true"),
        more=(("forall(array(1, null), x -> x > 0)", "NULL"),),
        resolve=_build_search_resolver("forall"),
        signatures=("forall(array: array<T>, x -> boolean) -> boolean",),
        is_higher_order=True,
    ),
    function(
        *(
            "zip_with",
            _FAMILY,
            "The array of the lambda function's values, of an element of each array; NULL is "
            "the element beyond the end of the shorter array.",
        ),
        example=("zip_with(array(1, 2), array(10, 20), (x, y) -> x + y)", "[11, 22]"),
        more=(("zip_with(array('a', 'b'), array(1), (x, y) -> coalesce(y, 0))", "[1, 0]"),),
        resolve=_resolve_zip_with,
        signatures=("zip_with(array: array<T>, other: array<U>, (x, y) -> V) -> array<V>",),
        is_higher_order=True,
    ),
    function(
        *(
            "aggregate",
            _FAMILY,
            "One value of all elements: from the start, the first lambda function makes the "
            "next value of the last one and an element; another one may make the result of "
            "the last value.",
        ),
        example=("aggregate(array(1, 2, 3), 0, (total, x) -> total + x)", "6"),
        more=(
            ("aggregate(array(1, 2, 3), 0, (total, x) -> total + x, total -> total / 2)", "3.0"),
        ),
        aliases=("reduce",),
        resolve=_resolve_aggregate,
        signatures=("aggregate(array: array<T>, start: U, (value, x) -> U, [value -> V]) -> V",),
        is_higher_order=True,
    ),
    function(
        *(
            "array_sort",
            _FAMILY,
            "The elements in order, NULLs last; or in the order of a comparator, which gives "
            "a negative number, 0 or a positive one if the first element comes before, with "
            "or after the second. NULL if the comparator gives NULL.",
        ),
        example=("array_sort(array('b', null, 'a'))", "[a, b, null]"),
        more=(("array_sort(array(1, 3, 2), (left, right) -> right - left)", "[3, 2, 1]"),),
        resolve=_resolve_array_sort,
        signatures=(
            "array_sort(array: array<O>) -> array<O>",
            "array_sort(array: array<T>, (left, right) -> int) -> array<T>",
        ),
        is_higher_order=True,
    ),
)
"""The functions that take lambda functions."""
