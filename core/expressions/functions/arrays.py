"""Arrays made from others: with another element, without some, sorted, cut, joined to a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import (
    SMALL_FACTOR,
    build_evaluating_once,
    clip_at_zero,
    literal_int,
    literal_text,
)
from headrace.core.expressions.functions.array_sets import ARRAY_SETS
from headrace.core.expressions.functions.collection_forms import build_array
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    ExpressionError,
    PolarsForm,
)
from headrace.core.types.data_types import (
    BINARY,
    FLOAT_TYPES,
    INT,
    STRING,
    Array,
    is_nested,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

_FAMILY = "collections"


def _build_addition(*, at_end: bool) -> Callable[[BoundArguments], PolarsForm]:
    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.batch_forms import evaluate_once

        element = bound.type_arguments["T"]
        wrap = build_array(to_polars(element), nested=isinstance(element, Array))

        def form(array: pl.Expr, value: pl.Expr) -> pl.Expr:
            import polars as pl

            one = wrap(value)
            joined = array.list.concat(one) if at_end else one.list.concat(array)
            return pl.when(array.is_not_null()).then(joined)

        return evaluate_once(form, bound.result)

    return build


def _build_extreme(*, largest: bool) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of the largest or smallest element; NaN is above all numbers."""

    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.batch_forms import evaluate_once

        if is_nested(bound.result):
            from headrace.core.expressions.value_order import build_array_extreme

            return build_array_extreme(bound.result, largest=largest)
        if bound.result not in FLOAT_TYPES:
            return lambda array: array.list.max() if largest else array.list.min()

        def form(array: pl.Expr) -> pl.Expr:
            # Sorted, NaN is the last of the values.
            sorted_array = array.list.drop_nulls().list.sort(descending=largest)
            return sorted_array.list.get(0, null_on_oob=True)

        return evaluate_once(form, bound.result)

    return build


def _join_texts(array: pl.Expr, separator: pl.Expr, by: pl.Expr | None = None) -> pl.Expr:
    import polars as pl

    # A constant array has one row: repeat it, and join only where nothing is NULL.
    given = separator.is_not_null() & array.is_not_null()
    parts = pl.when(given).then(array)
    if by is None:
        return parts.list.drop_nulls().list.join(separator)
    filled = array.list.concat(by).list.eval(pl.element().fill_null(pl.element().last()))
    texts = pl.when(given & by.is_not_null()).then(filled)
    return texts.list.head(texts.list.len() - 1).list.join(separator)


def _grow_joined_text(bound: BoundArguments) -> PolarsForm | None:
    """Return the size of the joined texts, unless what is put between them is small."""
    texts = [literal_text(argument) for argument in bound.arguments[1:]]
    if all(text is not None and len(text.encode()) <= SMALL_FACTOR for text in texts):
        return None

    def measure(array: pl.Expr, *between: pl.Expr) -> pl.Expr:
        import polars as pl

        inside = array.list.eval(pl.element().str.len_bytes().cast(pl.Int64)).list.sum()
        added = pl.sum_horizontal(text.str.len_bytes().cast(pl.Int64) for text in between)
        return inside + array.list.len().cast(pl.Int64) * added

    return measure


_WIDEST_BYTES = 16
"""The bytes of a value that is neither a text nor bytes: a decimal has most."""


def _grow_repetition(bound: BoundArguments) -> PolarsForm | None:
    """Return the size of a repeated value, unless the number of times is small."""
    times = literal_int(bound.arguments[1])
    if times is not None and times <= SMALL_FACTOR:
        return None
    type = bound.types[0]

    def measure(value: pl.Expr, count: pl.Expr) -> pl.Expr:
        import polars as pl

        from headrace.core.expressions.value_sizes import measure_values

        size: pl.Expr = pl.lit(_WIDEST_BYTES, dtype=pl.Int64)
        if is_nested(type):
            size = size + value.map_batches(measure_values, return_dtype=pl.Int64)
        if type in (STRING, BINARY):
            size = size + value.cast(pl.Binary).bin.size().fill_null(0).cast(pl.Int64)
        return size * clip_at_zero(count.cast(pl.Int64))

    return measure


def _build_repetition(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_frame, evaluate_once

    if is_nested(bound.types[0]):
        return compute_on_frame(_repeat_nested_values, bound.result)
    return evaluate_once(lambda value, count: value.repeat_by(clip_at_zero(count)), bound.result)


def _repeat_nested_values(frame: pl.DataFrame) -> pl.Series:
    import polars as pl

    from headrace.core.expressions.flat_arrays import group_elements, number_rows

    value, count = frame.get_columns()
    times = frame.select(clip_at_zero(pl.col(count.name)).fill_null(0).cast(pl.Int64)).to_series()
    arrays = group_elements(value.gather(number_rows(times)), times)
    return pl.select(pl.when(count.is_not_null()).then(arrays)).to_series()


def _flatten(array: pl.Expr) -> pl.Expr:
    import polars as pl

    inner = pl.element()
    joined = array.list.eval(inner.filter(inner.list.len() > 0).list.explode())
    return pl.when(~array.list.eval(inner.is_null()).list.any()).then(joined)


def _check_slice(bound: BoundArguments) -> None:
    start, length = bound.arguments[1:]
    if literal_int(start) == 0:
        message = "slice counts from 1, or with -1 from the end, got 0"
        raise ExpressionError(message, start.span)
    if (literal_int(length) or 0) < 0:
        message = f"slice wants a length that is not negative, got {literal_int(length)}"
        raise ExpressionError(message, length.span)


def _slice(array: pl.Expr, start: pl.Expr, length: pl.Expr) -> pl.Expr:
    import polars as pl

    size = array.list.len().cast(pl.Int64)
    at = start.cast(pl.Int64)
    first = pl.when(at > 0).then(at - 1).otherwise(size + at)
    valid = (at != 0) & (length >= 0)
    cut = pl.when(first >= 0).then(array.list.slice(first, clip_at_zero(length)))
    return pl.when(valid).then(pl.when(first >= 0).then(cut).otherwise(array.list.head(0)))


def _spark_form_of_slice(bound: BoundArguments) -> str:
    """Return no form where a start or a length that fails in Spark may be computed."""
    constant = all(literal_int(argument) is not None for argument in bound.arguments[1:])
    return AS_WRITTEN if constant else NO_SPARK_FORM


def _build_sort(bound: BoundArguments) -> PolarsForm:
    if not is_nested(bound.type_arguments["O"]):
        return _sort
    from headrace.core.expressions.value_order import build_sort

    descending = not bound.constants.get(1, True)
    form = build_sort(bound.result, descending=descending, nulls_last=descending)
    return lambda array, *_: form(array)


def _sort(array: pl.Expr, ascending: bool = True) -> pl.Expr:
    import polars as pl

    # Polars sorts the elements of all arrays together much faster than each array by `list.sort`.
    order = pl.element().sort(descending=not ascending, nulls_last=not ascending)
    return array.list.eval(order)


_ELEMENTS: tuple[SqlFunction, ...] = (
    function(
        *("array_size", _FAMILY, "The number of elements, NULLs included; NULL for a NULL array."),
        overload(
            "array_size(array: array<T>) -> int",
            lambda array: array.list.len().cast(to_polars(INT)),
            nulls="strict",
        ),
        example=("array_size(array('a', null))", "2"),
    ),
    function(
        *("array_max", _FAMILY, "The largest element; NULLs are skipped, and NaN is above all."),
        overload("array_max(array: array<O>) -> O", build=_build_extreme(largest=True)),
        example=("array_max(array(1, 20, null, 3))", "20"),
    ),
    function(
        *("array_min", _FAMILY, "The smallest element; NULLs are skipped, and NaN is above all."),
        overload("array_min(array: array<O>) -> O", build=_build_extreme(largest=False)),
        example=("array_min(array(1, 20, null, 3))", "1"),
    ),
    function(
        *("array_join", _FAMILY, "The texts joined by a separator; NULLs are skipped or replaced."),
        overload(
            "array_join(array: array<string>, separator: exact string,"
            " [null_text: exact string]) -> string",
            build=build_evaluating_once(_join_texts),
            nulls="strict",
            growth=_grow_joined_text,
        ),
        example=("array_join(array('hello', null, 'world'), ' ')", "hello world"),
        more=(("array_join(array('hello', null, 'world'), ' ', ',')", "hello , world"),),
    ),
)

_CHANGES: tuple[SqlFunction, ...] = (
    function(
        *("array_append", _FAMILY, "The array with another element at its end."),
        overload(
            "array_append(array: array<T>, value: T) -> array<T>",
            build=_build_addition(at_end=True),
        ),
        example=("array_append(array(1, 2), 3)", "[1, 2, 3]"),
    ),
    function(
        *("array_prepend", _FAMILY, "The array with another element at its start."),
        overload(
            "array_prepend(array: array<T>, value: T) -> array<T>",
            build=_build_addition(at_end=False),
        ),
        example=("array_prepend(array(1, 2), 3)", "[3, 1, 2]"),
    ),
    function(
        *("array_compact", _FAMILY, "The array without its NULLs."),
        overload(
            "array_compact(array: array<T>) -> array<T>",
            lambda array: array.list.drop_nulls(),
            nulls="strict",
        ),
        example=("array_compact(array(1, null, 3))", "[1, 3]"),
    ),
    function(
        *("array_repeat", _FAMILY, "An array of copies of the value."),
        overload(
            "array_repeat(value: T, count: int) -> array<T>",
            build=_build_repetition,
            growth=_grow_repetition,
        ),
        example=("array_repeat('ab', 2)", "[ab, ab]"),
    ),
    function(
        *("flatten", _FAMILY, "The elements of the arrays in an array; NULL if one of them is."),
        overload(
            "flatten(arrays: array<array<T>>) -> array<T>", build=build_evaluating_once(_flatten)
        ),
        example=("flatten(array(array(1, 2), array(3)))", "[1, 2, 3]"),
    ),
    function(
        *(
            "slice",
            _FAMILY,
            "That many elements from a position on: 1 is the first, -1 the last; NULL if the"
            " position is 0 or the length negative.",
        ),
        overload(
            "slice(array: array<T>, start: int, length: int) -> array<T>",
            build=build_evaluating_once(_slice),
            check=_check_slice,
            spark=_spark_form_of_slice,
        ),
        example=("slice(array(1, 2, 3, 4), -2, 2)", "[3, 4]"),
    ),
    function(
        *(
            "sort_array",
            _FAMILY,
            "The elements in order, NULLs first; with false in descending order, NULLs last.",
        ),
        overload(
            "sort_array(array: array<O>, [ascending: constant boolean]) -> array<O>",
            build=_build_sort,
            nulls="strict",
        ),
        example=("sort_array(array('b', null, 'a'))", "[null, a, b]"),
        more=(("sort_array(array(1, 3, 2), false)", "[3, 2, 1]"),),
    ),
)

ARRAYS: tuple[SqlFunction, ...] = (*_ELEMENTS, *_CHANGES, *ARRAY_SETS)
"""The functions of whole arrays."""
