"""Pattern matching: `like`, and the functions that take a regular expression.

Patterns are constants, so that a pattern without an exact translation is refused before anything
runs. The semantics are those of Java's engine, which Spark uses; `core.expressions.regex` explains
how they are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.core.expressions.function import Function, function, overload
from headrace.core.expressions.functions.arguments import of_any_case
from headrace.core.expressions.regex.errors import PatternError, ReplacementError
from headrace.core.expressions.regex.like import like, pieces
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import Constant, ExpressionError, Form

if TYPE_CHECKING:
    import polars as pl

_T = TypeVar("_T")


def _said(bound: Bound, index: int, translate: Callable[[], _T]) -> _T:
    """Run a translation, and attribute its errors to the pattern or the replacement."""
    try:
        return translate()
    except PatternError as error:
        argument = bound.arguments[index + isinstance(error, ReplacementError)]
        raise ExpressionError(error.message, argument.span, error.hint) from None


def _pattern(bound: Bound, index: int = 1) -> str:
    pattern = bound.constants[index]
    assert isinstance(pattern, str)
    return pattern


def _checked(bound: Bound, pattern: str) -> str:
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


def _check_escape(bound: Bound) -> None:
    if 2 in bound.constants:
        escape = bound.constants[2]
        if not isinstance(escape, str) or len(escape) != 1 or ord(escape) > 0xFFFF:
            came = f"'{escape}'" if isinstance(escape, str) else "NULL"
            message = f"wanted one character as escape, got {came}"
            raise ExpressionError(message, bound.arguments[2].span, "as in escape '!'")


def _check_written(bound: Bound) -> None:
    r"""Refuse '\d': to Spark that string is a plain d, which is never intended in a pattern."""
    pattern = bound.arguments[1]
    if isinstance(pattern, Constant) and pattern.lost:
        message = f"the string loses the backslash of {pattern.lost} before the pattern is read"
        raise ExpressionError(message, pattern.span, r"write r'...', as in r'\d+'")


def _like(bound: Bound) -> Form:
    escape = str(bound.constants.get(2, "\\"))
    parts = _said(bound, 1, lambda: pieces(_pattern(bound), escape))
    return lambda text, *_: like(text, parts)


def _ilike(bound: Bound) -> Form:
    """Return the form: Spark converts both sides to lower case, then parses the pattern."""
    import polars as pl

    escape = str(bound.constants.get(2, "\\"))
    small: str = pl.select(pl.lit(_pattern(bound)).str.to_lowercase()).item()
    parts = _said(bound, 1, lambda: pieces(small, escape))
    return lambda text, *_: like(text.str.to_lowercase(), parts)


def _rlike(bound: Bound) -> Form:
    from headrace.core.expressions.regex import rust

    pattern = _checked(bound, _said(bound, 1, lambda: rust.search(_pattern(bound))))
    return lambda text, _: text.str.contains(pattern)


def _replace(bound: Bound) -> Form:
    from headrace.core.expressions.regex import rust

    by = _pattern(bound, 2)
    pattern, value = _said(bound, 1, lambda: rust.replacement(_pattern(bound), by))
    _checked(bound, pattern)
    return lambda text, *_: text.str.replace_all(pattern, value)


def _group(bound: Bound) -> int:
    group = bound.constants.get(2, 1)
    assert isinstance(group, int)
    return group


def _extraction(bound: Bound, every: bool) -> tuple[str, int]:
    from headrace.core.expressions.regex import rust

    wanted = _group(bound)
    pattern, group = _said(bound, 1, lambda: rust.extraction(_pattern(bound), wanted, every))
    return _checked(bound, pattern), group


def _extract(bound: Bound) -> Form:
    from headrace.core.expressions.batches import once

    pattern, group = _extraction(bound, every=False)

    def form(text: pl.Expr) -> pl.Expr:
        import polars as pl

        return pl.when(text.is_not_null()).then(text.str.extract(pattern, group).fill_null(""))

    extracted = once(form, bound.result)
    return lambda text, *_: extracted(text)


def _extract_all(bound: Bound) -> Form:
    """Return the form: the group is searched again in each match, which is exact for a pattern
    without `^` and `$`."""
    import polars as pl

    pattern, group = _extraction(bound, every=True)
    if group == 0:
        return lambda text, *_: text.str.extract_all(pattern)
    part = pl.element().str.extract(pattern, group).fill_null("")
    return lambda text, *_: text.str.extract_all(pattern).list.eval(part)


def _split(bound: Bound) -> Form:
    from headrace.core.expressions.batches import staged
    from headrace.core.expressions.regex import rust

    limit = bound.constants.get(2, -1)
    assert isinstance(limit, int)
    separator, plain = _said(bound, 1, lambda: rust.separator(_pattern(bound)))
    if limit > 0 and not (plain and separator):
        message = "split with a limit wants plain text as separator"
        hint = r"plain text is ',' or '\\.'; without a limit any pattern is accepted"
        raise ExpressionError(message, bound.arguments[1].span, hint)
    if not plain:
        _checked(bound, separator)
    if separator and limit <= 0:
        return lambda text, *_: text.str.split(separator, literal=plain)
    parts = staged(partial(_limited, separator, limit) if separator else _characters, bound.result)
    return lambda text, *_: parts(text)


def _characters(frame: pl.DataFrame) -> pl.Series:
    """Split a0 into characters; the empty text gives the empty text."""
    import polars as pl

    text = pl.col("a0")
    parts = pl.when(text == "").then(pl.lit([""])).otherwise(text.str.split(""))
    return frame.select(parts).to_series()


def _limited(separator: str, limit: int, frame: pl.DataFrame) -> pl.Series:
    """Split a0 into at most `limit` parts, the last of them with the rest."""
    import polars as pl

    parts = pl.col("parts")
    rest = parts.list.slice(limit - 1).list.join(separator)
    cut = parts.list.head(limit - 1).list.concat(rest)
    split = frame.select(parts=pl.col("a0").str.split(separator))
    return split.select(pl.when(parts.list.len() > limit).then(cut).otherwise(parts)).to_series()


_ILIKE = overload(
    "ilike(text: string, pattern: constant string, [escape: constant string]) -> boolean",
    build=_ilike,
    check=_check_escape,
    nulls="strict",
)

PATTERNS: tuple[Function, ...] = (
    function(
        "like",
        "patterns",
        "Whether the whole text matches a pattern: % is any text, _ any character.",
        overload(
            "like(text: string, pattern: constant string, [escape: constant string]) -> boolean",
            build=_like,
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
        resolve=of_any_case(_ILIKE),
        example=("'Abc' ilike 'aB%'", "true"),
    ),
    function(
        "rlike",
        "patterns",
        "Whether a part of the text matches a regular expression of Java. In r'...' a backslash is"
        " written once; in '...' it is written twice.",
        overload(
            "rlike(text: string, pattern: constant string) -> boolean",
            build=_rlike,
            check=_check_written,
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
            build=_replace,
            check=_check_written,
            nulls="strict",
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
            build=_extract,
            check=_check_written,
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
            build=_extract_all,
            check=_check_written,
            nulls="strict",
        ),
        example=("regexp_extract_all('a1b22', '([0-9]+)')", "[1, 22]"),
    ),
    function(
        "split",
        "patterns",
        "The parts of a text between the matches of a regular expression, empty ones included; at"
        " most `limit` parts if the limit is above 0.",
        overload(
            "split(text: string, separator: constant string, [limit: constant int])"
            " -> array<string>",
            build=_split,
            check=_check_written,
            nulls="strict",
        ),
        example=("split('a1b2c', '[0-9]')", "[a, b, c]"),
        more=(("split('a,b,c', ',', 2)", "[a, b,c]"), ("split('a,b,,', ',')", "[a, b, , ]")),
    ),
)
"""The functions that take a pattern."""
