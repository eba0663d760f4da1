"""Functions of text: its length, its case, and tests for parts of it.

Lengths count characters, which are code points as in Spark: an emoji with a skin tone has two.
Functions of positions, padding and concatenation have modules of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import resolve_ignoring_case
from headrace.core.expressions.functions.capitals import capitalize_words
from headrace.core.expressions.functions.edges import TRIM_PAD
from headrace.core.expressions.functions.joining import CONCATENATION
from headrace.core.expressions.functions.positions import SUBSTRINGS
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import Constant, PolarsForm

if TYPE_CHECKING:
    import polars as pl


def _count_characters(text: pl.Expr) -> pl.Expr:
    import polars as pl

    return text.str.len_chars().cast(pl.Int32)


def _count_text_bytes(text: pl.Expr) -> pl.Expr:
    import polars as pl

    return text.str.len_bytes().cast(pl.Int32)


def _count_bytes(value: pl.Expr) -> pl.Expr:
    import polars as pl

    return value.bin.size().cast(pl.Int32)


def _reverse_text(text: pl.Expr) -> pl.Expr:
    """Reverse by characters: Polars' own `reverse` keeps an accent after its letter, Spark does
    not."""
    return text.str.split("").list.reverse().list.join("")


def _build_contains(bound: BoundArguments) -> PolarsForm:
    text = bound.arguments[0]
    if isinstance(text, Constant) and text.value is None:
        # Polars does not repeat a NULL text for each part; with the operands swapped it does.
        return lambda text, part: part.str.contains(text, literal=True)
    return lambda text, part: text.str.contains(part, literal=True)


_MEASURES: tuple[SqlFunction, ...] = (
    function(
        "length",
        "strings",
        "The number of characters of a text, or of bytes of a binary.",
        overload("length(text: string) -> int", _count_characters, nulls="strict"),
        overload("length(bytes: binary) -> int", _count_bytes, nulls="strict"),
        example=("length('héllo😀')", "6"),
        aliases=("char_length", "character_length", "len"),
    ),
    function(
        "octet_length",
        "strings",
        "The number of bytes of a text in UTF-8, or of a binary.",
        overload("octet_length(text: string) -> int", _count_text_bytes, nulls="strict"),
        overload("octet_length(bytes: binary) -> int", _count_bytes, nulls="strict"),
        example=("octet_length('héllo')", "6"),
    ),
    function(
        "bit_length",
        "strings",
        "The number of bits: eight times octet_length.",
        overload(
            "bit_length(text: string) -> int",
            lambda text: _count_text_bytes(text) * 8,
            nulls="strict",
        ),
        overload("bit_length(bytes: binary) -> int", lambda b: _count_bytes(b) * 8, nulls="strict"),
        example=("bit_length('a')", "8"),
    ),
)

_LOWER = overload("lower(text: string) -> string", lambda t: t.str.to_lowercase(), nulls="strict")
_UPPER = overload("upper(text: string) -> string", lambda t: t.str.to_uppercase(), nulls="strict")

_CASES: tuple[SqlFunction, ...] = (
    function(
        "lower",
        "strings",
        "The text in lower case.",
        _LOWER,
        resolve=resolve_ignoring_case(_LOWER),
        example=("lower('ÀÉ')", "àé"),
        aliases=("lcase",),
    ),
    function(
        "upper",
        "strings",
        "The text in upper case.",
        _UPPER,
        resolve=resolve_ignoring_case(_UPPER),
        example=("upper('straße')", "STRASSE"),
        aliases=("ucase",),
    ),
    function(
        "initcap",
        "strings",
        "The text with the first letter of each word in upper case, the others in lower case; only"
        " spaces separate words.",
        overload("initcap(text: string) -> string", capitalize_words, nulls="strict"),
        example=("initcap('hello wORLD')", "Hello World"),
    ),
    function(
        "reverse",
        "strings",
        "The characters of a text, or the elements of an array, in reverse order.",
        overload("reverse(text: string) -> string", _reverse_text, nulls="strict"),
        overload("reverse(of: array<T>) -> array<T>", lambda a: a.list.reverse(), nulls="strict"),
        example=("reverse('abc')", "cba"),
        more=(("reverse(array(1, 2))", "[2, 1]"),),
    ),
)

_TESTS: tuple[SqlFunction, ...] = (
    function(
        "contains",
        "strings",
        "Whether the text contains the part; every text contains the empty part.",
        overload(
            "contains(text: string, part: string) -> boolean",
            build=_build_contains,
            nulls="strict",
        ),
        example=("contains('hello', 'ell')", "true"),
    ),
    function(
        "startswith",
        "strings",
        "Whether the text starts with the part.",
        overload(
            "startswith(text: string, part: string) -> boolean",
            lambda text, part: text.str.starts_with(part),
            nulls="strict",
        ),
        example=("startswith('hello', 'he')", "true"),
    ),
    function(
        "endswith",
        "strings",
        "Whether the text ends with the part.",
        overload(
            "endswith(text: string, part: string) -> boolean",
            lambda text, part: text.str.ends_with(part),
            nulls="strict",
        ),
        example=("endswith('hello', 'lo')", "true"),
    ),
)

STRINGS: tuple[SqlFunction, ...] = (
    *_MEASURES,
    *_CASES,
    *_TESTS,
    *SUBSTRINGS,
    *TRIM_PAD,
    *CONCATENATION,
)
"""The functions of text, except those of `patterns`."""
