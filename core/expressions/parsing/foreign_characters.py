"""Errors at characters of other languages, which start no token of this one.

`foreign_syntax` has the hints for tokens in the wrong place.
"""

# ruff: noqa: RUF001 - look-alikes of plain signs are the subject of this module
from __future__ import annotations

from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types.lazy_pattern import compile_pattern

_QUOTES_HINT = "write plain quotes, ' or \""
PARAMETER_HINT = "there are no parameters: write the value itself"
IF_HINT = "as in if(condition, value, other), or case when"

# Characters that start no token, and a hint for each.
CHARACTER_HINTS = {
    "===": 'write "="',
    "!==": 'write "<>"',
    "=!=": 'write "<>"',
    "=!": 'write "<>"',
    "=<": 'write "<="',
    "**": "as in power(a, b)",
    "//": "as in a div b, for whole numbers; a comment starts with --",
    "?": IF_HINT,
    "#": "a comment starts with --",
    ";": "an expression ends without it",
    "{": "as in named_struct('a', 1)",
    **dict.fromkeys("‘’“”„‚´«»", _QUOTES_HINT),
    "≤": 'write "<="',
    "≥": 'write ">="',
    "≠": 'write "<>"',
    **dict.fromkeys("−–—", 'write "-"'),
    "×": 'write "*"',
    "÷": 'write "/"',
}
_FOREIGN_SYMBOLS = sorted(CHARACTER_HINTS, key=len, reverse=True)
_DECORATED_NAME = compile_pattern(r"\{\{\s*(\w+)\s*\}\}|\$?\{\s*(\w+)\s*\}|[$@#](\w+)")
_CURLY_QUOTE = compile_pattern("[‘’“”]")


def unknown_character_error(text: str, at: int) -> ExpressionError:
    """Return the error about characters that start no token of the language."""
    if name := _DECORATED_NAME.match(text, at):
        message = f'"{name[0]}" means nothing here'
        if name[0].removeprefix("$").isdecimal():
            return ExpressionError(message, Span(at, name.end()), PARAMETER_HINT)
        hint = f"a column is its plain name: {name[name.lastindex or 0]}"
        return ExpressionError(message, Span(at, name.end()), hint)
    symbol = next((word for word in _FOREIGN_SYMBOLS if text.startswith(word, at)), text[at])
    hint = CHARACTER_HINTS.get(symbol, "")
    if symbol == "?" and text[:at].rstrip()[-1:] in ("=", "<", ">", "(", ","):
        hint = PARAMETER_HINT
    return ExpressionError(f'"{symbol}" means nothing here', Span(at, at + len(symbol)), hint)


def unclosed_quote_hint(text: str, quote: str) -> str:
    """Return the hint for a quote that is not closed in this text."""
    curly = _CURLY_QUOTE.search(text)
    return f"close it with {quote}" + (f", not with {curly[0]}" if curly else "")
