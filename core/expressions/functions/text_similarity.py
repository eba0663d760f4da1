"""Functions that compare texts by their characters or their sound.

`levenshtein` compares each pair of texts in the library RapidFuzz.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import build_mapping
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM, PolarsForm

if TYPE_CHECKING:
    import polars as pl

_SOUNDS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))
_SILENT = "7"
"""The code of H and W, between which two letters count as neighbours."""


def _measure_distance(left: str, right: str, limit: int | None = None) -> int:
    """Return the number of edits from one text to the other; -1 if it is above the limit."""
    from rapidfuzz.distance import Levenshtein

    if limit is None:
        return Levenshtein.distance(left, right)
    if limit < 0:
        return -1
    found = Levenshtein.distance(left, right, score_cutoff=limit)
    return found if found <= limit else -1


def _spark_form_of_levenshtein(bound: BoundArguments) -> str:
    """Return no form for a limit that may be NULL: the value depends on how Spark runs it."""
    return NO_SPARK_FORM if any(limit.nullable for limit in bound.arguments[2:]) else AS_WRITTEN


def _form_soundex(text: pl.Expr) -> pl.Expr:
    """Return the first letter and the codes of three sounds.

    A sound that repeats the one before counts once, also with H or W between.
    """
    import polars as pl

    letters = text.str.replace_all("[^A-Za-z]", "0").str.to_uppercase()
    codes = letters.str.replace_many(_SOUNDS)
    sounds = codes.str.replace_all(_SILENT, "", literal=True)
    for code in "0123456":
        sounds = sounds.str.replace_all(f"{code}+", code)
    # The first code is that of the first letter, unless that one has none.
    has_code = codes.str.slice(0, 1) != _SILENT
    rest = pl.when(has_code).then(sounds.str.slice(1)).otherwise(sounds)
    known = rest.str.replace_all("0", "", literal=True).str.head(3).str.pad_end(3, "0")
    is_letter = text.str.contains("^[A-Za-z]")
    return pl.when(is_letter).then(letters.str.head(1) + known).otherwise(text)


def _build_similarity(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_frame
    from headrace.core.expressions.functions.jaro_winkler import measure_similarities

    return compute_on_frame(measure_similarities, bound.result)


def _build_soundex(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import evaluate_once

    return evaluate_once(_form_soundex, bound.result)


TEXT_SIMILARITY: tuple[SqlFunction, ...] = (
    function(
        "levenshtein",
        "strings",
        "The number of characters to insert, remove or replace to make one text of the other; with"
        " a limit, -1 if there are more.",
        overload(
            "levenshtein(text: string, other: string, [limit: int]) -> int",
            build=build_mapping(_measure_distance),
            nulls="strict",
            spark=_spark_form_of_levenshtein,
        ),
        example=("levenshtein('kitten', 'sitting')", "3"),
        more=(("levenshtein('kitten', 'sitting', 2)", "-1"),),
    ),
    function(
        "jaro_winkler_similarity",
        "strings",
        "How similar two texts are by Jaro and Winkler, from 0 to 1. It takes some 2 us a row for"
        " texts of 20 characters, 8 for twice as many, as all characters of both are compared.",
        overload(
            "jaro_winkler_similarity(text: string, other: string) -> double",
            build=_build_similarity,
            nulls="strict",
        ),
        example=("jaro_winkler_similarity('ABC', 'XYZ')", "0.0"),
    ),
    function(
        "soundex",
        "strings",
        "The first letter of a text and the codes of three sounds after it, in English; a text that"
        " begins with no letter from A to Z stays as it is. It takes some 3 us a row, of a dozen"
        " steps.",
        overload("soundex(text: string) -> string", build=_build_soundex, nulls="strict"),
        example=("soundex('Miller')", "M460"),
    ),
)
"""The functions of similar texts."""
