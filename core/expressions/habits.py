"""What people write out of habit from other languages, and what stands for it here.

The lexer asks about characters that are no word, the parser about words that do not fit.
"""

# ruff: noqa: RUF001 - the look-alikes of plain signs are what this is about
from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import ExpressionError, Span

if TYPE_CHECKING:
    from headrace.core.expressions.parser import Parser
    from headrace.core.expressions.syntax import Node

_PLAIN_QUOTES = "write plain quotes, ' or \""
_IF = "write if(condition, value, other), or case when"

# Characters that are no word, and a hint for each.
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
_WORDS = sorted(INSTEAD, key=len, reverse=True)
_DECORATED = re.compile(r"\{\{\s*(\w+)\s*\}\}|\$?\{\s*(\w+)\s*\}|[$@#](\w+)")
_CURLY = re.compile("[‘’“”]")


def no_word(text: str, at: int) -> ExpressionError:
    """The error about characters that no word of the language starts with."""
    if name := _DECORATED.match(text, at):
        message = f'"{name[0]}" means nothing here'
        hint = f"a column is its plain name: {name[name.lastindex or 0]}"
        return ExpressionError(message, Span(at, name.end()), hint)
    wrong = next((word for word in _WORDS if text.startswith(word, at)), text[at])
    hint = INSTEAD.get(wrong, "")
    return ExpressionError(f'"{wrong}" means nothing here', Span(at, at + len(wrong)), hint)


def unclosed(text: str, quote: str) -> str:
    """The hint for a quote that is opened and not closed in this text."""
    curly = _CURLY.search(text)
    return f"close it with {quote}" + (f", not with {curly[0]}" if curly else "")


_AFTER_VALUE = {
    "as": "the name goes before the colon",
    "=>": 'write ">="',
    "if": _IF,
    **{word: f"write {word}(text, part)" for word in ("contains", "startswith", "endswith")},
}
_TWICE = {"&": 'write "and"', "|": 'write "or"'}
_COMPARISONS = {"<>=": "<>", "<=": "<=", ">=": ">=", "==": "=", "<>": "<>", "!==": "<>"}


def hint(parser: Parser) -> str:
    """What to write instead of the current word, which does not fit behind the previous one."""
    before, word = parser.previous, parser.current
    pair = before.text + word.text
    if word.kind == "symbol" and before.text == word.text and before.span.end == word.span.start:
        return _TWICE.get(word.text, "")
    if word.kind == "symbol" and before.kind == "symbol" and pair in _COMPARISONS:
        return f'write "{_COMPARISONS[pair]}"'
    if before.text.lower() == "in" and word.kind != "end":
        return "in takes its values in parentheses: in ('a', 'b')"
    if before.text.lower() == "if" and word.kind != "end":
        return _IF
    if word.text.lower() == "none":
        return "no value is null"
    if word.text == "[":
        return "write array(...)"
    return _AFTER_VALUE.get(word.text.lower(), "") if word.kind in ("word", "symbol") else ""


def query(parser: Parser) -> ExpressionError | None:
    """What is wrong where a query begins, or None where no query does."""
    word, ahead = parser.current, parser.ahead
    selected = ahead.kind in ("word", "quoted", "number", "string") and not _goes_on(ahead.text)
    if not selected and not (ahead.text == "*" and parser.peek(2).text.lower() == "from"):
        return None
    if word.text.lower() == "distinct":
        message = "distinct stands only inside an aggregate"
        return ExpressionError(message, word.span, "as in count(distinct id)")
    if parser.previous.text == "(":
        message = "a query has no place inside an expression"
        return ExpressionError(message, word.span, "read that data in a step of its own")
    hint = "write only what would stand behind it"
    return ExpressionError("an expression starts without select", word.span, hint)


def _goes_on(text: str) -> bool:
    return text.lower() in _FOLLOWING


_FOLLOWING = frozenset(
    "and or not between in like ilike rlike regexp is escape then when else end div as from for"
    " asc desc ignore respect".split()
)


def star(start: Span, end: Span) -> ExpressionError:
    """What is wrong with `*` and `table.*` where a value is wanted."""
    hint = "write each column by its name; * stands only in count(*)"
    return ExpressionError("* is no value", start.to(end), hint)


def method(parser: Parser, node: Node, name: str) -> ExpressionError:
    """What is wrong with `text.upper()`, when the parser is at its parenthesis."""
    subject = parser.text_of(node.span)
    rest = "" if parser.ahead.text == ")" else ", ..."
    message = f"a value has no methods, got {subject}.{name}(...)"
    span = node.span.to(parser.current.span)
    return ExpressionError(message, span, f"write {name.lower()}({subject}{rest})")
