"""Pattern matching: `match_like`, and the functions that take a regular expression.

Patterns are constants, so that a pattern without an exact translation is refused before anything
runs. The semantics are those of Java's engine, which Spark uses; `core.expressions.regex` explains
how they are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import SMALL_FACTOR, resolve_ignoring_case
from headrace.core.expressions.regex.errors import RegexError, ReplacementError
from headrace.core.expressions.regex.like_patterns import match_like, parse_like
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import Constant, ExpressionError, PolarsForm

if TYPE_CHECKING:
    import polars as pl

_T = TypeVar("_T")


def _attribute_errors(bound: BoundArguments, index: int, translate: Callable[[], _T]) -> _T:
    """Run a translation, and attribute its errors to the pattern or the replacement."""
    try:
        return translate()
    except RegexError as error:
        argument = bound.arguments[index + isinstance(error, ReplacementError)]
        raise ExpressionError(error.message, argument.span, error.hint) from None


def _pattern_argument(bound: BoundArguments, index: int = 1) -> str:
    pattern = bound.constants[index]
    assert isinstance(pattern, str)
    return pattern


def _check_size(bound: BoundArguments, pattern: str) -> str:
    """Return the pattern, if Rust's engine accepts it: Rust limits its size, Java does not."""
    import polars as pl

    try:
        pl.select(pl.lit("").str.contains(pattern))
    except pl.exceptions.ComputeError as error:
        reason = str(error).split("error:")[-1].strip().splitlines()[0]
        span = bound.arguments[1].span
        message = f"the pattern is too large for the engine: {reason}"
        raise ExpressionError(message, span, "use smaller numbers of repetitions") from None
    return pattern


def _check_escape(bound: BoundArguments) -> None:
    if 2 in bound.constants:
        escape = bound.constants[2]
        if not isinstance(escape, str) or len(escape) != 1 or ord(escape) > 0xFFFF:
            actual = f"'{escape}'" if isinstance(escape, str) else "NULL"
            message = f"wanted one character as escape, got {actual}"
            raise ExpressionError(message, bound.arguments[2].span, "as in escape '!'")


def _check_backslashes(bound: BoundArguments) -> None:
    r"""Refuse '\d': to Spark that string is a plain d, which is never intended in a pattern."""
    pattern = bound.arguments[1]
    if isinstance(pattern, Constant) and pattern.lost_escape:
        message = (
            f"the string loses the backslash of {pattern.lost_escape} before the pattern is read"
        )
        raise ExpressionError(message, pattern.span, r"a raw string keeps it, as in r'\d+'")


def _build_like(bound: BoundArguments) -> PolarsForm:
    escape = str(bound.constants.get(2, "\\"))
    parts = _attribute_errors(bound, 1, lambda: parse_like(_pattern_argument(bound), escape))
    return lambda text, *_: match_like(text, parts)


def _build_ilike(bound: BoundArguments) -> PolarsForm:
    """Return the form: Spark converts both sides to lower case, then parses the pattern."""
    import polars as pl

    escape = str(bound.constants.get(2, "\\"))
    small: str = pl.select(pl.lit(_pattern_argument(bound)).str.to_lowercase()).item()
    parts = _attribute_errors(bound, 1, lambda: parse_like(small, escape))
    return lambda text, *_: match_like(text.str.to_lowercase(), parts)


def _build_rlike(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.regex import rust

    pattern = _check_size(
        bound, _attribute_errors(bound, 1, lambda: rust.translate_search(_pattern_argument(bound)))
    )
    return lambda text, _: text.str.contains(pattern)


def _build_replace(bound: BoundArguments) -> PolarsForm:
    pattern, value = _translate_replacement(bound)
    return lambda text, *_: text.str.replace_all(pattern, value)


def _translate_replacement(bound: BoundArguments) -> tuple[str, str]:
    from headrace.core.expressions.regex import rust

    by = _pattern_argument(bound, 2)
    pattern, value = _attribute_errors(
        bound, 1, lambda: rust.translate_replacement(_pattern_argument(bound), by)
    )
    return _check_size(bound, pattern), value


def _grow_replace(bound: BoundArguments) -> PolarsForm | None:
    """Return the largest size of a text with replaced matches, unless each of them stays small.

    A match has at least one character, and no group is longer than its match.
    """
    by = _pattern_argument(bound, 2)
    groups, added = max(by.count("$"), 1), len(by.encode())
    if added <= SMALL_FACTOR:
        return None
    pattern, _ = _translate_replacement(bound)

    def measure(text: pl.Expr, *_: object) -> pl.Expr:
        import polars as pl

        size, found = text.str.len_bytes(), text.str.count_matches(pattern)
        return size.cast(pl.Int64) * groups + found.cast(pl.Int64) * added

    return measure


def _group_argument(bound: BoundArguments) -> int:
    group = bound.constants.get(2, 1)
    assert isinstance(group, int)
    return group


def _translate_extraction(
    bound: BoundArguments, every: bool, wanted: int | None = None
) -> tuple[str, int]:
    from headrace.core.expressions.regex import rust

    wanted = _group_argument(bound) if wanted is None else wanted
    pattern, group = _attribute_errors(
        bound, 1, lambda: rust.translate_extraction(_pattern_argument(bound), wanted, every)
    )
    return _check_size(bound, pattern), group


def _build_count(bound: BoundArguments) -> PolarsForm:
    import polars as pl

    pattern, _ = _translate_extraction(bound, every=True, wanted=0)
    return lambda text, _: text.str.count_matches(pattern).cast(pl.Int32)


def _build_first_match(bound: BoundArguments) -> PolarsForm:
    pattern, group = _translate_extraction(bound, every=False, wanted=0)
    return lambda text, _: text.str.extract(pattern, group).replace("", None)


def _build_position(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import evaluate_once

    pattern, _ = _translate_extraction(bound, every=False, wanted=0)

    def form(text: pl.Expr) -> pl.Expr:
        import polars as pl

        at = text.str.find(pattern, literal=False)
        before = text.cast(pl.Binary).bin.slice(0, at).cast(pl.String)
        position = before.str.len_chars().cast(pl.Int32) + 1
        found = pl.when(at.is_not_null()).then(position).otherwise(0)
        return pl.when(text.is_not_null()).then(found)

    position = evaluate_once(form, bound.result)
    return lambda text, _: position(text)


def _build_extract(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import evaluate_once

    pattern, group = _translate_extraction(bound, every=False)

    def form(text: pl.Expr) -> pl.Expr:
        import polars as pl

        return pl.when(text.is_not_null()).then(text.str.extract(pattern, group).fill_null(""))

    extracted = evaluate_once(form, bound.result)
    return lambda text, *_: extracted(text)


def _build_extract_all(bound: BoundArguments) -> PolarsForm:
    """Return the form: the group is searched again in each match, which is exact for a pattern
    without `^` and `$`."""
    import polars as pl

    pattern, group = _translate_extraction(bound, every=True)
    if group == 0:
        return lambda text, *_: text.str.extract_all(pattern)
    part = pl.element().str.extract(pattern, group).fill_null("")
    return lambda text, *_: text.str.extract_all(pattern).list.eval(part)


def build_split(bound: BoundArguments) -> PolarsForm:
    """Return the form of the parts of a text between the matches of a pattern."""
    from headrace.core.expressions.batch_forms import compute_on_frame
    from headrace.core.expressions.regex import rust

    limit = bound.constants.get(2, -1)
    assert isinstance(limit, int)
    separator, plain = _attribute_errors(
        bound, 1, lambda: rust.translate_separator(_pattern_argument(bound))
    )
    if not plain:
        _check_size(bound, separator)
    if separator and limit <= 0:
        return lambda text, *_: text.str.split(separator, literal=plain)
    split = partial(_split_limited, separator, plain, limit) if limit > 0 else _split_characters
    parts = compute_on_frame(split, bound.result)
    return lambda text, *_: parts(text)


def find_plain_separator(pattern: str) -> str | None:
    """Return the text that a pattern stands for; None for any other pattern."""
    from headrace.core.expressions.regex import rust

    try:
        separator, plain = rust.translate_separator(pattern)
    except RegexError:
        return None
    return separator if plain else None


def _split_characters(frame: pl.DataFrame) -> pl.Series:
    """Split a0 into characters; the empty text gives the empty text."""
    import polars as pl

    text = pl.col("a0")
    parts = pl.when(text == "").then(pl.lit([""])).otherwise(text.str.split(""))
    return frame.select(parts).to_series()


def _split_limited(separator: str, plain: bool, limit: int, frame: pl.DataFrame) -> pl.Series:
    """Split a0 into at most `limit` parts, the last of them with the rest."""
    import polars as pl

    text, parts = pl.col("a0"), pl.col("parts")
    if separator:
        frame = frame.with_columns(parts=text.str.split(separator, literal=plain))
    else:
        frame = frame.with_columns(_split_characters(frame).alias("parts"))
    rest = parts.list.slice(limit - 1).list.join(separator)
    if not plain:
        between = text.str.extract_all(separator).list.head(limit - 1)
        before = (between.list.join("") + parts.list.head(limit - 1).list.join("")).str.len_bytes()
        rest = text.cast(pl.Binary).bin.slice(before, None).cast(pl.String)
    cut = parts.list.head(limit - 1).list.concat(rest)
    return frame.select(pl.when(parts.list.len() > limit).then(cut).otherwise(parts)).to_series()


_ILIKE = overload(
    "ilike(text: string, pattern: constant string, [escape: constant string]) -> boolean",
    build=_build_ilike,
    check=_check_escape,
    nulls="strict",
)

PATTERNS: tuple[SqlFunction, ...] = (
    function(
        "like",
        "patterns",
        "Whether the whole text matches a pattern: % is any text, _ any character.",
        overload(
            "like(text: string, pattern: constant string, [escape: constant string]) -> boolean",
            build=_build_like,
            check=_check_escape,
            nulls="strict",
        ),
        example=("'a_b' like 'a!_%' escape '!'", "true"),
        more=(("'abc' like 'A%'", "false"), (r"'50%' like '50\%'", "true")),
    ),
    function(
        "ilike",
        "patterns",
        "The same as like, ignoring case.",
        _ILIKE,
        resolve=resolve_ignoring_case(_ILIKE),
        example=("'Abc' ilike 'aB%'", "true"),
    ),
    function(
        "rlike",
        "patterns",
        "Whether a part of the text matches a regular expression of Java. In r'...' a backslash is"
        " written once; in '...' it is written twice.",
        overload(
            "rlike(text: string, pattern: constant string) -> boolean",
            build=_build_rlike,
            check=_check_backslashes,
            nulls="strict",
        ),
        example=(r"'order-12' rlike r'-\d+$'", "true"),
        more=(("'abc' rlike '^b'", "false"),),
        aliases=("regexp_like", "regexp"),
    ),
    function(
        "regexp_replace",
        "patterns",
        "The text with every match of a regular expression replaced; $1 is the text of group 1.",
        overload(
            "regexp_replace(text: string, pattern: constant string, by: constant string) -> string",
            build=_build_replace,
            check=_check_backslashes,
            nulls="strict",
            growth=_grow_replace,
        ),
        example=(r"regexp_replace('a1b22', r'(\d+)', '<$1>')", "a<1>b<22>"),
    ),
    function(
        "regexp_extract",
        "patterns",
        "Group 1, or another, of the first match; empty if there is none. Group 0 is the whole"
        " match.",
        overload(
            "regexp_extract(text: string, pattern: constant string, [group: constant int])"
            " -> string",
            build=_build_extract,
            check=_check_backslashes,
            nulls="strict",
        ),
        example=(r"regexp_extract('foo-12', r'(\w+)-(\d+)', 2)", "12"),
        more=(("regexp_extract('foo', '([0-9]+)')", ""),),
    ),
    function(
        "regexp_extract_all",
        "patterns",
        "Group 1, or another, of every match, in order. Group 0 is the whole match.",
        overload(
            "regexp_extract_all(text: string, pattern: constant string, [group: constant int])"
            " -> array<string>",
            build=_build_extract_all,
            check=_check_backslashes,
            nulls="strict",
        ),
        example=("regexp_extract_all('a1b22', '([0-9]+)')", "[1, 22]"),
    ),
    function(
        "regexp_count",
        "patterns",
        "The number of matches of a regular expression.",
        overload(
            "regexp_count(text: string, pattern: constant string) -> int",
            build=_build_count,
            check=_check_backslashes,
            nulls="strict",
        ),
        example=("regexp_count('a1b22', '[0-9]+')", "2"),
    ),
    function(
        "regexp_instr",
        "patterns",
        "The position of the first match of a regular expression, from 1; 0 if there is none.",
        overload(
            "regexp_instr(text: string, pattern: constant string) -> int",
            build=_build_position,
            check=_check_backslashes,
            nulls="strict",
        ),
        example=("regexp_instr('user@spark.apache.org', '@[^.]*')", "5"),
    ),
    function(
        "regexp_substr",
        "patterns",
        "The first match of a regular expression; NULL if there is none, or if it is empty.",
        overload(
            "regexp_substr(text: string, pattern: constant string) -> string",
            build=_build_first_match,
            check=_check_backslashes,
        ),
        example=("regexp_substr('a1b22', '[0-9]+')", "1"),
        more=(("regexp_substr('ab', '[0-9]+')", "NULL"),),
    ),
    function(
        "split",
        "patterns",
        "The parts of a text between the matches of a regular expression, empty ones included; at"
        " most `limit` parts if the limit is above 0.",
        overload(
            "split(text: string, separator: constant string, [limit: constant int])"
            " -> array<string>",
            build=build_split,
            check=_check_backslashes,
            nulls="strict",
        ),
        example=("split('a1b2c', '[0-9]')", "[a, b, c]"),
        more=(("split('a,b,c', ',', 2)", "[a, b,c]"), ("split('a,b,,', ',')", "[a, b, , ]")),
    ),
)
"""The functions that take a pattern."""
