"""Functions that concatenate and repeat texts, and replace parts of them.

`||`, `concat` and `concat_ws` convert their arguments to text; `concat` joins arrays as well.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.coercion import coerce_argument, convert_implicitly, wider_type
from headrace.core.expressions.function import (
    SqlFunction,
    TypedCall,
    function,
    overload,
    with_growth,
)
from headrace.core.expressions.functions.arguments import (
    SMALL_FACTOR,
    SMALL_SIZE,
    build_evaluating_once,
    clip_at_zero,
    literal_int,
    literal_text,
    repeat_text,
)
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    Constant,
    ExpressionError,
    ExpressionWarning,
    FunctionCall,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    INT,
    STRING,
    Array,
    is_nested,
)

if TYPE_CHECKING:
    import polars as pl


def _resolve_concat(call: TypedCall) -> TypedExpression:
    """Resolve `||` and `concat`: arrays with arrays, binaries with binaries, all else as text."""
    import polars as pl

    types = {argument.type for argument in call.arguments}
    if any(isinstance(type, Array) for type in types):
        return _resolve_array_concat(call)
    if types == {BINARY}:
        return _build_call(call, call.arguments, lambda *b: reduce(lambda x, y: x + y, b))
    if not call.arguments:
        return Constant(STRING, False, call.span, "")
    texts = tuple(_cast_to_text(call, argument) for argument in call.arguments)
    joined = _build_call(call, texts, lambda *parts: pl.concat_str(parts))
    if call.name == "||" and types == {BOOLEAN}:
        hint = "as in first or second; concat(...) joins them as text"
        warning = ExpressionWarning("|| joins texts, got two booleans", call.span, hint)
        return replace(joined, warning=warning)
    return joined


def _build_call(
    call: TypedCall, arguments: tuple[TypedExpression, ...], form: PolarsForm
) -> FunctionCall:
    nullable = any(argument.nullable for argument in arguments)
    return FunctionCall(arguments[0].type, nullable, call.span, call.name, arguments, form)


def _resolve_array_concat(call: TypedCall) -> TypedExpression:
    import polars as pl

    arrays = call.arguments
    for argument in arrays:
        if not isinstance(argument.type, Array):
            message = f"{call.name} joins arrays here, got {argument.type}"
            raise ExpressionError(message, argument.span, "array(...) makes an array of a value")
    common = arrays[0].type
    for argument in arrays[1:]:
        wider = wider_type(common, argument.type)
        if wider is None:
            message = f"{call.name} wants arrays of one type, got {common} and {argument.type}"
            raise ExpressionError(message, argument.span)
        common = wider
    same = tuple(convert_implicitly(array, common) for array in arrays)
    return _build_call(call, same, lambda *parts: pl.concat_list(parts))


def _cast_to_text(call: TypedCall, argument: TypedExpression) -> TypedExpression:
    if is_nested(argument.type):
        message = f"{call.name} cannot convert {argument.type} to text"
        raise ExpressionError(message, argument.span, "only texts and scalar values can be joined")
    return build_cast(argument, STRING, argument.span)


def _resolve_elt(call: TypedCall) -> TypedExpression:
    """Resolve the choice of one of several values by its number."""
    if len(call.arguments) < 2:
        message = f"elt takes at least 2 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, "write elt(number, first, second, ...)")
    number = coerce_argument(call.arguments[0], INT)
    if number is None:
        message = f"elt wants an int as number, got {call.arguments[0].type}"
        raise ExpressionError(message, call.arguments[0].span, "the number is the first argument")
    values = call.arguments[1:]
    of_bytes = all(argument.type == BINARY for argument in values)
    if not of_bytes:
        values = tuple(_cast_to_text(call, argument) for argument in values)
    type = BINARY if of_bytes else STRING
    return FunctionCall(type, True, call.span, call.name, (number, *values), _choose_value)


def _choose_value(number: pl.Expr, *values: pl.Expr) -> pl.Expr:
    import polars as pl

    chosen: pl.Expr = pl.lit(None)
    for at, value in enumerate(values, 1):
        chosen = pl.when(number == at).then(value).otherwise(chosen)
    return chosen


def _grow_space(bound: BoundArguments) -> PolarsForm | None:
    """Return the size of the spaces, unless they are few."""
    import polars as pl

    count = literal_int(bound.arguments[0])
    small = count is not None and count <= SMALL_SIZE
    return None if small else lambda count: clip_at_zero(count.cast(pl.Int64))


def _make_spaces(count: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.lit(" ").repeat_by(clip_at_zero(count)).list.join("")


def _resolve_concat_ws(call: TypedCall) -> TypedExpression:
    """Resolve a separator, then texts and arrays of texts; NULLs are skipped."""
    from headrace.core.expressions.batch_forms import evaluate_once

    if not call.arguments:
        raise ExpressionError(f"{call.name} wants a separator and texts, got nothing", call.span)
    separator = coerce_argument(call.arguments[0], STRING)
    if separator is None:
        first = call.arguments[0]
        message = f"{call.name} wants a text as separator, got {first.type}"
        raise ExpressionError(message, first.span, "the separator is the first argument")
    parts = tuple(_cast_to_joinable(call, part) for part in call.arguments[1:])
    plain = literal_text(separator)
    if plain is not None and parts and not any(isinstance(p.type, Array) for p in parts):
        form = _build_plain_join(plain)
        return FunctionCall(STRING, False, call.span, call.name, parts, form)
    arrays = [isinstance(part.type, Array) for part in parts]
    form = evaluate_once(_build_join(arrays), STRING)
    typed = FunctionCall(
        STRING, separator.nullable, call.span, call.name, (separator, *parts), form
    )
    small = plain is not None and len(plain.encode()) <= SMALL_SIZE
    return typed if small or not any(arrays) else with_growth(typed, _build_join_size(arrays))


def _build_join_size(arrays: list[bool]) -> PolarsForm:
    """Return the size of texts joined by a separator per row."""

    def measure(separator: pl.Expr, *parts: pl.Expr) -> pl.Expr:
        import polars as pl

        texts: list[pl.Expr] = []
        counts: list[pl.Expr] = []
        for part, array in zip(parts, arrays, strict=True):
            size = part.list.eval(_count_bytes(pl.element())).list.sum() if array else None
            texts.append(_count_bytes(part) if size is None else size)
            number = part.list.drop_nulls().list.len() if array else part.is_not_null()
            counts.append(number.cast(pl.Int64))
        gaps = (pl.sum_horizontal(counts) - 1).clip(0)
        return pl.sum_horizontal(texts) + gaps * _count_bytes(separator)

    return measure


def _cast_to_joinable(call: TypedCall, part: TypedExpression) -> TypedExpression:
    if isinstance(part.type, Array):
        part = coerce_argument(part, Array(STRING)) or part
    return part if part.type == Array(STRING) else _cast_to_text(call, part)


def _build_plain_join(separator: str) -> PolarsForm:
    import polars as pl

    return lambda *texts: pl.concat_str(texts, separator=separator, ignore_nulls=True)


def _build_join(arrays: list[bool]) -> PolarsForm:
    """Return the form over a separator per row; an array without elements adds nothing."""

    def form(separator: pl.Expr, *parts: pl.Expr) -> pl.Expr:
        import polars as pl

        if not parts:
            return pl.when(separator.is_not_null()).then(pl.lit(""))
        texts = [
            _join_elements(part, separator) if array else part
            for part, array in zip(parts, arrays, strict=True)
        ]
        joinable = _repeat_over_rows(separator, pl.concat_list(texts).list.drop_nulls())
        return joinable.list.join(separator)

    return form


def _join_elements(array: pl.Expr, separator: pl.Expr) -> pl.Expr:
    import polars as pl

    present = _repeat_over_rows(separator, array.list.drop_nulls())
    return pl.when(present.list.len() > 0).then(present.list.join(separator))


def _repeat_over_rows(column: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Repeat the value in every row of the column: Polars joins a constant list only once."""
    import polars as pl

    return pl.when(column.is_not_null()).then(value)


def _grow_repeat(bound: BoundArguments) -> PolarsForm | None:
    """Return the size of a repeated text, unless the number of times is small."""
    text, times = literal_text(bound.arguments[0]), literal_int(bound.arguments[1])
    if times is not None:
        size = len((text or "").encode()) * times
        if times <= SMALL_FACTOR or (text is not None and size <= SMALL_SIZE):
            return None
    return lambda text, times: _count_bytes(text) * clip_at_zero(times)


def _count_bytes(text: pl.Expr) -> pl.Expr:
    import polars as pl

    return text.str.len_bytes().cast(pl.Int64)


def _build_replace(bound: BoundArguments) -> PolarsForm:
    """Return the form: one Polars call for literals, otherwise a split and a join, since Polars
    wants a constant search text."""
    search, by = (*map(literal_text, bound.arguments[1:]), "")[:2]
    if search is None or by is None:
        return build_evaluating_once(_replace_by_splitting)(bound)
    if not search:
        return lambda text, *_: text
    return lambda text, *_: text.str.replace_all(search, by, literal=True)


def _grow_replace(bound: BoundArguments) -> PolarsForm | None:
    """Return the size of a text with replaced parts, unless each grows by a small factor."""
    search, by = (*map(literal_text, bound.arguments[1:]), "")[:2]
    if by is not None and len(by.encode()) <= SMALL_FACTOR * len((search or ".").encode()):
        return None

    def measure(text: pl.Expr, search: pl.Expr, by: pl.Expr) -> pl.Expr:
        import polars as pl

        found = text.str.count_matches(search, literal=True).cast(pl.Int64)
        found = pl.when(search == "").then(0).otherwise(found)
        return _count_bytes(text) + found * (_count_bytes(by) - _count_bytes(search))

    return measure


def _replace_by_splitting(text: pl.Expr, search: pl.Expr, by: pl.Expr | None = None) -> pl.Expr:
    import polars as pl

    other = pl.lit("") if by is None else by
    whole = _repeat_over_rows(other, text)
    joined = whole.str.split(search).list.join(other)
    # The empty text is never found.
    return pl.when(search == "").then(whole).otherwise(joined)


def _build_translate(bound: BoundArguments) -> PolarsForm:
    found, by = bound.constants[1], bound.constants[2]
    assert isinstance(found, str) and isinstance(by, str)
    pairs: dict[str, str] = {}
    for index, character in enumerate(found):
        pairs.setdefault(character, by[index : index + 1])
    if not pairs:
        return lambda text, *_: text
    return lambda text, *_: text.str.replace_many(pairs)


CONCATENATION: tuple[SqlFunction, ...] = (
    function(
        "||",
        "strings",
        "Two values joined as text, or two arrays joined; NULL if one of them is NULL.",
        example=("'a' || 1", "a1"),
        more=(("'a' || null", "NULL"), ("array(1) || array(2)", "[1, 2]")),
        resolve=_resolve_concat,
        signatures=("left || right -> string", "array<T> || array<T> -> array<T>"),
    ),
    function(
        "concat",
        "strings",
        "Values joined as text, or arrays joined; NULL if one of them is NULL.",
        example=("concat('a', 1, true)", "a1true"),
        more=(("concat('a', null)", "NULL"),),
        resolve=_resolve_concat,
        signatures=("concat(value...) -> string", "concat(array<T>...) -> array<T>"),
    ),
    function(
        "concat_ws",
        "strings",
        "Values, and the elements of arrays of texts, joined with a separator between them; NULLs"
        " are skipped.",
        example=("concat_ws(',', 'a', null, 'b')", "a,b"),
        more=(("concat_ws('-', array('a', 'b'), 'c')", "a-b-c"),),
        resolve=_resolve_concat_ws,
        signatures=("concat_ws(separator: string, value...) -> string",),
    ),
    function(
        "repeat",
        "strings",
        "The text repeated a number of times; empty if the number is 0 or negative.",
        overload(
            "repeat(text: string, times: int) -> string",
            build=build_evaluating_once(repeat_text),
            nulls="strict",
            growth=_grow_repeat,
        ),
        example=("repeat('ab', 2)", "abab"),
    ),
    function(
        "space",
        "strings",
        "A text of that many spaces; empty if the number is 0 or negative.",
        overload("space(count: int) -> string", _make_spaces, nulls="strict", growth=_grow_space),
        example=("concat(space(2), '1')", "  1"),
    ),
    function(
        "elt",
        "strings",
        "The value of that number as text, counted from 1; NULL if there is none.",
        example=("elt(2, 'scala', 'java')", "java"),
        more=(("elt(3, 'scala', 'java')", "NULL"),),
        resolve=_resolve_elt,
        signatures=("elt(number: int, value...) -> string",),
    ),
    function(
        "replace",
        "strings",
        "The text with every occurrence of a part (not a pattern) replaced, or removed.",
        overload(
            "replace(text: string, part: string, [by: string]) -> string",
            build=_build_replace,
            nulls="strict",
            growth=_grow_replace,
        ),
        example=("replace('a.b.c', '.', '-')", "a-b-c"),
        more=(("replace('a.b.c', '.')", "abc"),),
    ),
    function(
        "translate",
        "strings",
        "The text with each character of the second argument replaced by the one at the same"
        " position in the third, or removed if the third is shorter.",
        overload(
            "translate(text: string, characters: constant string, by: constant string) -> string",
            build=_build_translate,
            nulls="strict",
        ),
        example=("translate('abc', 'ab', 'x')", "xc"),
    ),
)
"""The functions that join and replace texts."""
