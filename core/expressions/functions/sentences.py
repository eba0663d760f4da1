"""`sentences`: the words of the sentences of a text, in Python at a microsecond a character."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.function import (
    SqlFunction,
    TypedCall,
    choose_signature,
    function,
)
from headrace.core.expressions.signature import parse_signature
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    ExpressionError,
    FunctionCall,
    TypedExpression,
)
from headrace.core.types.data_types import STRING, Array

if TYPE_CHECKING:
    import polars as pl

_SIGNATURE = (
    "sentences(text: string, [language: constant string], [country: constant string])"
    " -> array<array<string>>"
)
_SLICE = 4096
"""The rows whose lists exist as Python objects at a time: more make its garbage collector slow."""


def _split(texts: pl.Series) -> pl.Series:
    import polars as pl

    from headrace.core.expressions.text_breaks import split_sentences

    type = pl.List(pl.List(pl.String))
    found = pl.Series(texts.name, [], dtype=type)
    for part in texts.to_frame().iter_slices(_SLICE):
        rows = part.to_series().to_list()
        found.append(
            pl.Series([None if r is None else split_sentences(r) for r in rows], dtype=type)
        )
    return found.rechunk()


def _resolve(call: TypedCall) -> TypedExpression:
    """Resolve the call; a language or a country of NULL is as if there were none."""
    from headrace.core.expressions.batch_forms import compute_on_column

    _, bound = choose_signature(call, [parse_signature(_SIGNATURE)])
    if str(bound.constants.get(1)).lower() == "th":
        message = "sentences has no dictionary of Thai, by which Spark finds its words"
        hint = "a Python function can compute it: map: {python: FILE.py:NAME, returns: {...}}"
        raise ExpressionError(message, bound.arguments[1].span, hint)
    text = bound.arguments[0]
    type = Array(Array(STRING))
    form = compute_on_column(_split, type)
    # Java knows the letters of the Unicode version of its release only.
    return FunctionCall(type, text.nullable, call.span, call.name, (text,), form, NO_SPARK_FORM)


SENTENCES: tuple[SqlFunction, ...] = (
    function(
        "sentences",
        "strings",
        "The words of each sentence of a text, without punctuation. The rules are the same for all"
        " languages but Thai, which is refused.",
        example=("sentences('Hi there! It is 3.5.')", "[[Hi, there], [It, is, 3.5]]"),
        resolve=_resolve,
        signatures=(_SIGNATURE,),
    ),
)
"""The function of sentences."""
