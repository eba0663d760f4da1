"""Functions that concatenate and repeat texts, and replace parts of them.

`||`, `concat` and `concat_ws` convert their arguments to text, except doubles and types without a
text; `concat` joins arrays as well.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import cast
from headrace.core.expressions.coercion import coerce, common_type
from headrace.core.expressions.function import Call, Function, function, overload
from headrace.core.expressions.functions.arguments import literal_text, natural, repeating
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import Apply, Constant, ExpressionError, Form, Typed
from headrace.core.types import BINARY, BOOLEAN, INTERVALS, STRING, Array, Struct

if TYPE_CHECKING:
    import polars as pl


def _concat(call: Call) -> Typed:
    """Resolve `||` and `concat`: arrays with arrays, binaries with binaries, all else as text."""
    import polars as pl

    types = {argument.type for argument in call.arguments}
    if any(isinstance(type, Array) for type in types):
        return _concat_arrays(call)
    if types == {BINARY}:
        return _apply(call, call.arguments, lambda *b: reduce(lambda x, y: x + y, b))
    if not call.arguments:
        return Constant(STRING, False, call.span, "")
    if call.name == "||" and types == {BOOLEAN}:
        hint = 'write "or"; concat(...) joins them as text'
        raise ExpressionError("|| joins texts, got two booleans", call.span, hint)
    texts = tuple(_as_text(call, argument) for argument in call.arguments)
    return _apply(call, texts, lambda *parts: pl.concat_str(parts))


def _apply(call: Call, arguments: tuple[Typed, ...], form: Form) -> Typed:
    nullable = any(argument.nullable for argument in arguments)
    return Apply(arguments[0].type, nullable, call.span, call.name, arguments, form)


def _concat_arrays(call: Call) -> Typed:
    import polars as pl

    arrays = call.arguments
    for argument in arrays:
        if not isinstance(argument.type, Array):
            message = f"{call.name} joins arrays here, got {argument.type}"
            raise ExpressionError(message, argument.span, "array(...) makes an array of a value")
    common = arrays[0].type
    for argument in arrays[1:]:
        wider = common_type(common, argument.type)
        if wider is None:
            message = f"{call.name} wants arrays of one type, got {common} and {argument.type}"
            raise ExpressionError(message, argument.span)
        common = wider
    same = tuple(coerced for array in arrays if (coerced := coerce(array, common)))
    return _apply(call, same, lambda *parts: pl.concat_list(parts))


def _as_text(call: Call, argument: Typed) -> Typed:
    refused = isinstance(argument.type, Array | Struct) or argument.type in (BINARY, *INTERVALS)
    if refused:
        message = f"{call.name} cannot convert {argument.type} to text"
        raise ExpressionError(message, argument.span, "only texts and scalar values can be joined")
    return cast(argument, STRING, argument.span)


def _concat_ws(call: Call) -> Typed:
    """Resolve a separator, then texts and arrays of texts; NULLs are skipped."""
    from headrace.core.expressions.batches import once

    if not call.arguments:
        raise ExpressionError(f"{call.name} wants a separator and texts, got nothing", call.span)
    separator = coerce(call.arguments[0], STRING)
    if separator is None:
        first = call.arguments[0]
        message = f"{call.name} wants a text as separator, got {first.type}"
        raise ExpressionError(message, first.span, "the separator is the first argument")
    parts = tuple(_joinable(call, part) for part in call.arguments[1:])
    plain = literal_text(separator)
    if plain is not None and parts and not any(isinstance(p.type, Array) for p in parts):
        form = _joined_by(plain)
        return Apply(STRING, False, call.span, call.name, parts, form)
    arrays = [isinstance(part.type, Array) for part in parts]
    form = once(_joined(arrays), STRING)
    return Apply(STRING, separator.nullable, call.span, call.name, (separator, *parts), form)


def _joinable(call: Call, part: Typed) -> Typed:
    if isinstance(part.type, Array):
        part = coerce(part, Array(STRING)) or part
    return part if part.type == Array(STRING) else _as_text(call, part)


def _joined_by(separator: str) -> Form:
    import polars as pl

    return lambda *texts: pl.concat_str(texts, separator=separator, ignore_nulls=True)


def _joined(arrays: list[bool]) -> Form:
    """Return the form over a separator per row; an array without elements adds nothing."""

    def form(separator: pl.Expr, *parts: pl.Expr) -> pl.Expr:
        import polars as pl

        if not parts:
            return pl.when(separator.is_not_null()).then(pl.lit(""))
        texts = [
            _elements(part, separator) if array else part
            for part, array in zip(parts, arrays, strict=True)
        ]
        joinable = _along(separator, pl.concat_list(texts).list.drop_nulls())
        return joinable.list.join(separator)

    return form


def _elements(array: pl.Expr, separator: pl.Expr) -> pl.Expr:
    import polars as pl

    present = _along(separator, array.list.drop_nulls())
    return pl.when(present.list.len() > 0).then(present.list.join(separator))


def _along(column: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Repeat the value in every row of the column: Polars joins a constant list only once."""
    import polars as pl

    return pl.when(column.is_not_null()).then(value)


def _repeat(text: pl.Expr, times: pl.Expr) -> pl.Expr:
    """Repeat the text; Polars would repeat a NULL as a value, and skip it when joining."""
    import polars as pl

    return pl.when(text.is_not_null()).then(text.repeat_by(natural(times)).list.join(""))


def _replace(bound: Bound) -> Form:
    """Return the form: one Polars call for literals, otherwise a split and a join, since Polars
    wants a constant search text."""
    search, by = (*map(literal_text, bound.arguments[1:]), "")[:2]
    if search is None or by is None:
        return repeating(_replaced)(bound)
    if not search:
        return lambda text, *_: text
    return lambda text, *_: text.str.replace_all(search, by, literal=True)


def _replaced(text: pl.Expr, search: pl.Expr, by: pl.Expr | None = None) -> pl.Expr:
    import polars as pl

    other = pl.lit("") if by is None else by
    whole = _along(other, text)
    joined = whole.str.split(search).list.join(other)
    # The empty text is never found.
    return pl.when(search == "").then(whole).otherwise(joined)


def _translate(bound: Bound) -> Form:
    found, by = bound.constants[1], bound.constants[2]
    assert isinstance(found, str) and isinstance(by, str)
    pairs: dict[str, str] = {}
    for index, character in enumerate(found):
        pairs.setdefault(character, by[index : index + 1])
    if not pairs:
        return lambda text, *_: text
    return lambda text, *_: text.str.replace_many(pairs)


JOINING: tuple[Function, ...] = (
    function(
        "||",
        "strings",
        "Two values joined as text, or two arrays joined; NULL if one of them is NULL.",
        example=("'a' || 1", "a1"),
        more=(("'a' || null", "NULL"), ("array(1) || array(2)", "[1, 2]")),
        resolve=_concat,
        signatures=("left || right -> string", "array<T> || array<T> -> array<T>"),
    ),
    function(
        "concat",
        "strings",
        "Values joined as text, or arrays joined; NULL if one of them is NULL.",
        example=("concat('a', 1, true)", "a1true"),
        more=(("concat('a', null)", "NULL"),),
        resolve=_concat,
        signatures=("concat(value...) -> string", "concat(array<T>...) -> array<T>"),
    ),
    function(
        "concat_ws",
        "strings",
        "Values, and the elements of arrays of texts, joined with a separator between them; NULLs"
        " are skipped.",
        example=("concat_ws(',', 'a', null, 'b')", "a,b"),
        more=(("concat_ws('-', array('a', 'b'), 'c')", "a-b-c"),),
        resolve=_concat_ws,
        signatures=("concat_ws(separator: string, value...) -> string",),
    ),
    function(
        "repeat",
        "strings",
        "The text repeated a number of times; empty if the number is 0 or negative.",
        overload(
            "repeat(text: string, times: int) -> string", build=repeating(_repeat), nulls="strict"
        ),
        example=("repeat('ab', 2)", "abab"),
    ),
    function(
        "replace",
        "strings",
        "The text with every occurrence of a part (not a pattern) replaced, or removed.",
        overload(
            "replace(text: string, part: string, [by: string]) -> string",
            build=_replace,
            nulls="strict",
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
            build=_translate,
            nulls="strict",
        ),
        example=("translate('abc', 'ab', 'x')", "xc"),
    ),
)
"""The functions that join and replace texts."""
