"""Hints for the syntax of other languages, with the equivalent here.

The lexer asks about characters that start no token, the parser about tokens that do not fit.
"""

# ruff: noqa: RUF001 - look-alikes of plain signs are the subject of this module
from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import ExpressionError, Span

if TYPE_CHECKING:
    from headrace.core.expressions.parser import Parser
    from headrace.core.expressions.syntax import Node

_PLAIN_QUOTES = "write plain quotes, ' or \""
_IF = "write if(condition, value, other), or case when"

# Characters that start no token, and a hint for each.
INSTEAD = {
    "===": 'write "="',
    "!==": 'write "<>"',
    "=!=": 'write "<>"',
    "=!": 'write "<>"',
    "=<": 'write "<="',
    "**": "write power(a, b)",
    "//": "write a div b for whole numbers; a comment starts with --",
    "?": _IF,
    ";": "an expression ends without it",
    "{": "write named_struct(...)",
    **dict.fromkeys("‘’“”„‚´«»", _PLAIN_QUOTES),
    "≤": 'write "<="',
    "≥": 'write ">="',
    "≠": 'write "<>"',
    **dict.fromkeys("−–—", 'write "-"'),
    "×": 'write "*"',
    "÷": 'write "/"',
}
# Names that are no column here, by their meaning in other languages.
NAMES = {
    **dict.fromkeys(("none", "nil", "undefined"), "no value is null"),
    **dict.fromkeys(("now", "sysdate", "systimestamp"), "the time is current_timestamp"),
    "today": "the day is current_date",
}
_WORDS = sorted(INSTEAD, key=len, reverse=True)
_DECORATED = re.compile(r"\{\{\s*(\w+)\s*\}\}|\$?\{\s*(\w+)\s*\}|[$@#](\w+)")
_CURLY = re.compile("[‘’“”]")


def no_word(text: str, at: int) -> ExpressionError:
    """Return the error about characters that start no token of the language."""
    if name := _DECORATED.match(text, at):
        message = f'"{name[0]}" means nothing here'
        hint = f"a column is its plain name: {name[name.lastindex or 0]}"
        return ExpressionError(message, Span(at, name.end()), hint)
    symbol = next((word for word in _WORDS if text.startswith(word, at)), text[at])
    hint = INSTEAD.get(symbol, "")
    return ExpressionError(f'"{symbol}" means nothing here', Span(at, at + len(symbol)), hint)


def unclosed(text: str, quote: str) -> str:
    """Return the hint for a quote that is not closed in this text."""
    curly = _CURLY.search(text)
    return f"close it with {quote}" + (f", not with {curly[0]}" if curly else "")


_LIKES = ("like", "ilike", "rlike", "regexp")
_NOT_IN_PLACE = "values are not changed in place: write the new value"
_RLIKE = 'write "rlike"'
_UNQUOTED = re.compile(r"\s*/?([^\s()'\"/]*[%^$*.][^\s()'\"/]*)")
_DURATION = re.compile("(milli|micro)?sec(ond)?s?|min(ute)?s?|hours?|days?|weeks?|months?|years?")
_AFTER_VALUE = {
    "as": "the name goes before the colon",
    "if": _IF,
    "mod": 'write "%"',
    "xor": 'write "<>"',
    "~": _RLIKE,
    **{word: f"write {word}(text, part)" for word in ("contains", "startswith", "endswith")},
    **dict.fromkeys(("=>", "gte", "ge"), 'write ">="'),
    **dict.fromkeys(("lte", "le"), 'write "<="'),
    **dict.fromkeys(("eq", "equals"), 'write "="'),
    **{"gt": 'write ">"', "lt": 'write "<"', "ne": 'write "<>"'},
}
_AFTER = {
    "in": "in takes its values in parentheses: in ('a', 'b')",
    "if": _IF,
    "cast": "write cast(value as type)",
}
_TWICE = {"&": 'write "and"', "|": 'write "or"', "+": _NOT_IN_PLACE}
_COMPARISONS = {
    **{"<>=": "<>", "<=": "<=", ">=": ">=", "==": "=", "<>": "<>"},
    **{"!==": "<>", "!=": "<>", "not=": "<>"},
}
_ORDERS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")


def hint(parser: Parser) -> str:
    """Return a hint for the current token, which does not fit after the previous one."""
    return next((text for rule in _RULES if (text := rule(parser))), "")


def _signs(parser: Parser) -> str:
    """Return the hint for two signs, adjacent or not, that are one operator here."""
    before, word, ahead = parser.previous, parser.current, parser.ahead
    if word.text.lower() in ("!", "not"):
        comparison = _COMPARISONS.get(word.text.lower() + ahead.text, "")
        return f'write "{comparison}"' if comparison else _RLIKE if ahead.text == "~" else ""
    if word.kind == "end" and before.text == "+" == parser.peek(-2).text:
        return _NOT_IN_PLACE
    if word.kind != "symbol" or before.kind != "symbol":
        return _NOT_IN_PLACE if word.text + ahead.text == ":=" else ""
    adjacent = before.span.end == word.span.start
    if before.text == word.text and adjacent:
        return _TWICE.get(word.text, "")
    if word.text == "=" and before.text in tuple("+-*/%") and adjacent:
        return _NOT_IN_PLACE
    comparison = _COMPARISONS.get(before.text + word.text, "")
    return f'write "{comparison}"' if comparison else ""


def _pattern(parser: Parser) -> str:
    """Return the hint for a pattern without quotes: `like %a%`."""
    for back in (-1, -2, -3):
        like = parser.peek(back)
        if like.kind == "word" and like.text.lower() in _LIKES:
            written = _UNQUOTED.match(parser.text_of(Span(like.span.end, like.span.end + 99)))
            return f"put the pattern in quotes: '{written[1]}'" if written else ""
    return ""


def _operand(parser: Parser) -> str:
    """Return the hint for a comparison that misses an operand, or is written in another way."""
    before, word = parser.previous.text.lower(), parser.current
    if before in ("and", "or") and word.text in _ORDERS:
        return f"write a full comparison on both sides of {before}"
    if before in ("is", "not") and word.kind in ("number", "string"):
        negated = before == "not" and parser.peek(-2).text.lower() == "is"
        return 'write "<>"' if negated else 'write "="' if before == "is" else ""
    if word.text.lower() in (",", "to") and parser.peek(-2).text.lower() == "between":
        return "write between low and high"
    if word.text == "," and parser.peek(-3).text.lower() in ("cast", "try_cast"):
        return _AFTER["cast"]
    return _AFTER.get(before, "") if word.kind != "end" else ""


def _word(parser: Parser) -> str:
    """Return the hint for a word or sign that is not allowed here."""
    before, word = parser.previous, parser.current
    text = word.text.lower()
    if text == "none":
        return "no value is null"
    if text == "[":
        return "write array(...)"
    if before.kind == "number" and word.kind == "word" and _DURATION.fullmatch(text):
        return "write a duration as interval 90 minutes"
    if word.kind == "string" and before.text == "f" and before.span.end == word.span.start:
        return "write concat(...), or join texts with ||"
    return _AFTER_VALUE.get(text, "") if word.kind in ("word", "symbol") else ""


_RULES = (_signs, _pattern, _operand, _word)


def query(parser: Parser) -> ExpressionError | None:
    """Return the error where a query begins, or None where none does."""
    word, ahead = parser.current, parser.ahead
    selected = ahead.kind in ("word", "quoted", "number", "string") and not _goes_on(ahead.text)
    if not selected and not (ahead.text == "*" and parser.peek(2).text.lower() == "from"):
        return None
    if word.text.lower() == "distinct":
        message = "distinct is allowed only inside an aggregate"
        return ExpressionError(message, word.span, "as in count(distinct id)")
    if parser.previous.text == "(":
        message = "a query is not allowed inside an expression"
        return ExpressionError(message, word.span, "read that data in a step of its own")
    hint = "write only what follows select"
    return ExpressionError("an expression starts without select", word.span, hint)


def _goes_on(text: str) -> bool:
    return text.lower() in _FOLLOWING


_FOLLOWING = frozenset(
    "and or not between in like ilike rlike regexp is escape then when else end div as from for"
    " asc desc ignore respect".split()
)


def star(start: Span, end: Span) -> ExpressionError:
    """Return the error about `*` or `table.*` where a value is wanted."""
    hint = "write each column by its name; * is allowed only in count(*)"
    return ExpressionError("* is not a value", start.to(end), hint)


def method(parser: Parser, node: Node, name: str) -> ExpressionError:
    """Return the error about `text.upper()`, when the parser is at its parenthesis."""
    subject = parser.text_of(node.span)
    rest = "" if parser.ahead.text == ")" else ", ..."
    message = f"a value has no methods, got {subject}.{name}(...)"
    span = node.span.to(parser.current.span)
    return ExpressionError(message, span, f"write {name.lower()}({subject}{rest})")
