"""Functions of text: its length, its case, and tests for parts of it.

Lengths count characters, which are code points as in Spark: an emoji with a skin tone has two.
Functions of positions, padding and concatenation have modules of their own.

`capitalize_words`: words with a capital first letter, by Unicode's rules for titles.

The title case of a letter is not always its upper case: `ﬁ` becomes `Fi` and not `FI`. Those
letters are listed; Python has the title case of each.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from headrace.core.expressions.function import Overload, SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import resolve_ignoring_case
from headrace.core.expressions.functions.concatenation import CONCATENATION
from headrace.core.expressions.functions.sentences import SENTENCES
from headrace.core.expressions.functions.substrings import SUBSTRINGS
from headrace.core.expressions.functions.trim_pad import TRIM_PAD
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import PolarsForm, find_inputs

if TYPE_CHECKING:
    import polars as pl


# Letters whose title case differs from their upper case: both ends of each range are included.
_TITLE_RANGES = (
    "ßß ևև \u01c4\u01cc \u01f1\u01f3 \u10d0\u10fa \u10fd\u10ff \u1f80\u1faf \u1fb2\u1fb4"
    " \u1fb7\u1fb7 \u1fbc\u1fbc \u1fc2\u1fc4 \u1fc7\u1fc7 \u1fcc\u1fcc \u1ff2\u1ff4"
    " \u1ff7\u1ff7 \u1ffc\u1ffc \ufb00\ufb06 \ufb13\ufb17"
)


@cache
def _title_letters() -> dict[str, str]:
    ranges = [range(ord(ends[0]), ord(ends[1]) + 1) for ends in _TITLE_RANGES.split()]
    return {chr(code): chr(code).title() for codes in ranges for code in codes}


def capitalize_words(text: pl.Expr) -> pl.Expr:
    """Capitalize each word (only spaces separate words), and convert the rest to lower case."""
    import polars as pl

    word = pl.element()
    first = word.str.head(1)
    capital = first.replace_strict(
        _title_letters(), default=first.str.to_uppercase(), return_dtype=pl.String
    )
    # Lower case depends on the letter before, and the first letter may become two.
    rest = word.str.to_lowercase().str.slice(first.str.to_lowercase().str.len_chars())
    return text.str.split(" ").list.eval(pl.concat_str([capital, rest])).list.join(" ")


def _count_characters(text: pl.Expr) -> pl.Expr:
    import polars as pl

    return text.str.len_chars().cast(pl.Int32)


def _count_text_bytes(text: pl.Expr) -> pl.Expr:
    import polars as pl

    return text.str.len_bytes().cast(pl.Int32)


def _count_bytes(value: pl.Expr) -> pl.Expr:
    import polars as pl

    return value.bin.size().cast(pl.Int32)


def _reverse_bytes(value: pl.Expr) -> pl.Expr:
    """Reverse the pairs of hexadecimal digits."""
    pairs = value.bin.encode("hex").str.extract_all("..")
    return pairs.list.reverse().list.join("").str.decode("hex")


def _reverse_text(text: pl.Expr) -> pl.Expr:
    """Reverse by characters: Polars' own `reverse` keeps an accent after its letter, Spark does
    not."""
    return text.str.split("").list.reverse().list.join("")


def _build_contains(bound: BoundArguments) -> PolarsForm:
    if find_inputs(bound.arguments[0]):
        return lambda text, part: text.str.contains(part, literal=True)

    def form(text: pl.Expr, part: pl.Expr) -> pl.Expr:
        """Polars does not repeat a NULL text for each part, or for none in an empty batch."""
        import polars as pl

        return pl.when(part.is_not_null()).then(text.str.contains(part, literal=True))

    return form


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
        "The characters of a text, the bytes of binary, or the elements of an array, in reverse"
        " order.",
        overload("reverse(text: string) -> string", _reverse_text, nulls="strict"),
        overload("reverse(bytes: exact binary) -> binary", _reverse_bytes, nulls="strict"),
        overload("reverse(of: array<T>) -> array<T>", lambda a: a.list.reverse(), nulls="strict"),
        example=("reverse('abc')", "cba"),
        more=(("reverse(array(1, 2))", "[2, 1]"),),
    ),
)


def _test_bytes(name: str, form: PolarsForm) -> Overload:
    text = f"{name}(bytes: binary, part: binary) -> boolean"
    return overload(text, form, nulls="strict")


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
        _test_bytes("contains", lambda value, part: value.bin.contains(part)),
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
        _test_bytes("startswith", lambda value, part: value.bin.starts_with(part)),
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
        _test_bytes("endswith", lambda value, part: value.bin.ends_with(part)),
        example=("endswith('hello', 'lo')", "true"),
    ),
)


def _quote_text(text: pl.Expr) -> pl.Expr:
    import polars as pl

    escaped = text.str.replace_all("'", "\\'", literal=True)
    return pl.concat_str(pl.lit("'"), escaped, pl.lit("'"))


_QUOTES: tuple[SqlFunction, ...] = (
    function(
        *("quote", "strings", "The text in single quotes, with a backslash before those in it."),
        overload("quote(text: string) -> string", _quote_text, nulls="strict"),
        example=(r"quote('it\'s')", r"'it\'s'"),
    ),
)

STRINGS: tuple[SqlFunction, ...] = (
    *_MEASURES,
    *_QUOTES,
    *_CASES,
    *_TESTS,
    *SUBSTRINGS,
    *SENTENCES,
    *TRIM_PAD,
    *CONCATENATION,
)
"""The functions of text, except those of `patterns`."""
