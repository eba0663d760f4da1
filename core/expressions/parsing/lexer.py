"""The tokens of an expression, split as by Spark's lexer, each with its span in the text.

The lexer and the parser are our own and not sqlglot's: docs/decisions/ has the measurements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from headrace.core.expressions.parsing.foreign_characters import (
    unclosed_quote_hint,
    unknown_character_error,
)
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

TokenKind: TypeAlias = Literal["word", "quoted", "number", "string", "symbol", "pattern", "end"]


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A token: `text` as written, and `value`, the content of a string or a bare name.

    The pattern of `match_recognize`, which has signs of its own, is one token.
    """

    kind: TokenKind
    text: str
    value: str
    span: Span
    keyword: str = ""
    """A word in lower case, or a symbol."""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f'"{self.text}"'


_TOKEN = compile_pattern(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:BD|bd|Bd|bD|[LlSsYyFfDd])?(?!\w))
    | (?P<string>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<foreign>===|!==|=!=?|=<|\*\*|//(?!\*))  # habits of other languages
    | (?P<word>\w+)  # letters beyond ASCII, to refuse them as one word
    | (?P<symbol>(?!/\*)(?:<=>|>>>|<>|!=|<=|>=|==|\|\||<<|>>|->|=>|::|[-+*/%&|^~!=<>()\[\].,:]))
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW_STRING = compile_pattern(r"""[rR]('[^']*'|"[^"]*")""")

_UNCLOSED = {"'": "a string", '"': "a string", "`": "a quoted name"}


def tokenize(text: str) -> list[SqlToken]:
    """Split a text into tokens, `end` last; ExpressionError at characters that start no token.

    >>> [token.text for token in tokenize("price*2 >= 1.5e3D")]
    ['price', '*', '2', '>=', '1.5e3D', '']
    """
    tokens: list[SqlToken] = []
    at = 0
    while at < len(text):
        raw = _RAW_STRING.match(text, at)
        match = raw or _TOKEN.match(text, at)
        if match is None or match.lastgroup == "foreign":
            raise _unknown_token_error(text, at)
        kind = "string" if raw else match.lastgroup
        if kind != "space":
            tokens.append(_build_token(kind, match[0], Span(at, match.end())))
        at = match.end()
        if match[0] == "(" and _is_before_pattern(tokens):
            end = _find_closing_parenthesis(text, at)
            tokens.append(SqlToken("pattern", text[at:end], text[at:end], Span(at, end)))
            at = end
    tokens.append(SqlToken("end", "", "", Span(len(text), len(text))))
    return tokens


def _is_before_pattern(tokens: list[SqlToken]) -> bool:
    """Whether the last token opens the pattern of `match_recognize`."""
    return (
        len(tokens) > 1
        and tokens[-2].keyword == "pattern"
        and any(token.keyword == "match_recognize" for token in tokens)
    )


def _find_closing_parenthesis(text: str, at: int) -> int:
    """Return the place of the parenthesis that closes what is open at a place, or of the end."""
    depth = 1
    for found in re.finditer(r"[()]", text[at:]):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return at + found.start()
    return len(text)


def find_optimizer_hints(text: str) -> Iterator[Span]:
    """Yield the comments of a text that are hints to an optimizer, such as `/*+ BROADCAST(t) */`.

    >>> [(span.start, span.end) for span in find_optimizer_hints("select /*+ x */ '/*+ y */'")]
    [(7, 15)]
    """
    at = 0
    while match := _RAW_STRING.match(text, at) or _TOKEN.match(text, at):
        if match[0].startswith("/*+"):
            yield Span(at, match.end())
        at = match.end()


def _build_token(kind: str | None, text: str, span: Span) -> SqlToken:
    match kind:
        case "string":
            return SqlToken("string", text, _join_surrogates(_unescape_string(text), span), span)
        case "quoted":
            return SqlToken("quoted", text, text[1:-1].replace("``", "`"), span)
        case "word" if text[0].isdigit() or not text.isascii():
            raise ExpressionError(
                f'"{text}" is neither a number nor a plain name',
                span,
                f"quote a name with characters other than ASCII letters, digits and _: `{text}`",
            )
        case "word" | "number":
            is_word = kind == "word"
            return SqlToken(
                "word" if is_word else "number", text, text, span, text.lower() if is_word else ""
            )
    return SqlToken("symbol", text, text, span, text)


def _unknown_token_error(text: str, at: int) -> ExpressionError:
    if text[at] in _UNCLOSED:
        return ExpressionError(
            f"{_UNCLOSED[text[at]]} starts here and does not end",
            Span(at, len(text)),
            unclosed_quote_hint(text[at:], text[at]),
        )
    if text.startswith("/*", at):
        return ExpressionError("a comment starts here and does not end", Span(at, len(text)))
    return unknown_character_error(text, at)


_ESCAPE = compile_pattern(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPE_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}


def _unescape_string(text: str) -> str:
    """Return the content of a string literal: Spark's escapes, doubled quotes, raw strings
    `r'...'`."""
    if text[0] in "rR":
        return text[2:-1]
    quote, inner = text[0], text[1:-1]
    if "\\" not in inner:
        return inner.replace(quote * 2, quote)
    # A doubled quote is one quote, but not the quote of an escape.
    parts = re.split(r"(\\.|" + quote * 2 + ")", inner, flags=re.DOTALL)
    joined = "".join("\\" + quote if part == quote * 2 else part for part in parts)
    return _ESCAPE.sub(_replace_escape, joined)


_LOST_ESCAPE = compile_pattern(
    r"\\(?:[ntr0Z\\'\"%_]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})|(\\.)"
)


def find_lost_escape(text: str) -> str:
    r"""Return the first escape of a string that only a pattern knows, like `\d`, or "".

    >>> find_lost_escape(r"'a\\b\n\d'"), find_lost_escape(r"r'\d'"), find_lost_escape("'d'")
    ('\\d', '', '')
    """
    if text[0] in "rR":
        return ""
    return next((found[1] for found in _LOST_ESCAPE.finditer(text[1:-1]) if found[1]), "")


def _join_surrogates(text: str, span: Span) -> str:
    """Join surrogate pairs (from two escapes) into characters; half a pair is an error."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        message = "this string holds half a surrogate pair"
        raise ExpressionError(message, span, "write the whole character") from None


def _replace_escape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        number = int(code[1:], 16) if code[0] in "uU" else int(code, 8)
        return chr(number) if number <= 0x10FFFF else match[0]
    # The wildcards of `like` keep their backslash, so that '50\%' escapes one.
    return match[0] if code in "%_" else _ESCAPE_LETTERS.get(code, code)
