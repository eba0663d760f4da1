"""Hints for tokens in the wrong place: the syntax of other languages, with the equivalent here.

`foreign_characters` has the errors at characters that start no token.
"""

from __future__ import annotations

import re

from headrace.core.expressions.parsing.foreign_characters import IF_HINT
from headrace.core.expressions.parsing.syntax_tree import SyntaxNode
from headrace.core.expressions.parsing.token_stream import TokenStream
from headrace.core.expressions.typed import ExpressionError, Span

# Names that are no column here, by their meaning in other languages.
NAME_HINTS = {
    **dict.fromkeys(("none", "nil", "undefined"), "no value is null"),
    **dict.fromkeys(("now", "sysdate", "systimestamp"), "the time is current_timestamp"),
    "today": "the day is current_date",
}
_PATTERN_OPERATORS = ("like", "ilike", "rlike", "regexp")
_ASSIGNMENT_HINT = "values are not changed in place: write the new value"
_RLIKE_HINT = 'write "rlike"'
_UNQUOTED_PATTERN = re.compile(r"\s*/?([^\s()'\"/]*[%^$*.][^\s()'\"/]*)")
_DURATION = re.compile("(milli|micro)?sec(ond)?s?|min(ute)?s?|hours?|days?|weeks?|months?|years?")
_HINTS_AFTER_VALUE = {
    "as": "the name goes before the colon",
    "if": IF_HINT,
    "mod": 'write "%"',
    "xor": 'write "<>"',
    "~": _RLIKE_HINT,
    **{word: f"write {word}(text, part)" for word in ("contains", "startswith", "endswith")},
    **dict.fromkeys(("=>", "gte", "ge"), 'write ">="'),
    **dict.fromkeys(("lte", "le"), 'write "<="'),
    **dict.fromkeys(("eq", "equals"), 'write "="'),
    **{"gt": 'write ">"', "lt": 'write "<"', "ne": 'write "<>"'},
}
_HINTS_AFTER_WORD = {
    "in": "in takes its values in parentheses: in ('a', 'b')",
    "if": IF_HINT,
    "cast": "write cast(value as type)",
}
_DOUBLED_SIGN_HINTS = {"&": 'write "and"', "|": 'write "or"', "+": _ASSIGNMENT_HINT}
_COMPARISONS = {
    **{"<>=": "<>", "<=": "<=", ">=": ">=", "==": "=", "<>": "<>"},
    **{"!==": "<>", "!=": "<>", "not=": "<>"},
}
_ORDER_OPERATORS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")


def find_hint(tokens: TokenStream) -> str:
    """Return a hint for the current token, which does not fit after the previous one."""
    return next((text for rule in _HINT_RULES if (text := rule(tokens))), "")


def _sign_hint(tokens: TokenStream) -> str:
    """Return the hint for two signs, adjacent or not, that are one operator here."""
    before, word, ahead = tokens.previous_token, tokens.current_token, tokens.next_token
    if word.text.lower() in ("!", "not"):
        comparison = _COMPARISONS.get(word.text.lower() + ahead.text, "")
        return f'write "{comparison}"' if comparison else _RLIKE_HINT if ahead.text == "~" else ""
    if word.kind == "end" and before.text == "+" == tokens.peek(-2).text:
        return _ASSIGNMENT_HINT
    if word.kind != "symbol" or before.kind != "symbol":
        return _ASSIGNMENT_HINT if word.text + ahead.text == ":=" else ""
    adjacent = before.span.end == word.span.start
    if before.text == word.text and adjacent:
        return _DOUBLED_SIGN_HINTS.get(word.text, "")
    if word.text == "=" and before.text in tuple("+-*/%") and adjacent:
        return _ASSIGNMENT_HINT
    comparison = _COMPARISONS.get(before.text + word.text, "")
    return f'write "{comparison}"' if comparison else ""


def _pattern_hint(tokens: TokenStream) -> str:
    """Return the hint for a pattern without quotes: `like %a%`."""
    for back in (-1, -2, -3):
        like = tokens.peek(back)
        if like.kind == "word" and like.text.lower() in _PATTERN_OPERATORS:
            written = _UNQUOTED_PATTERN.match(
                tokens.source_text(Span(like.span.end, like.span.end + 99))
            )
            return f"put the pattern in quotes: '{written[1]}'" if written else ""
    return ""


def _operand_hint(tokens: TokenStream) -> str:
    """Return the hint for a comparison that misses an operand, or is written in another way."""
    before, word = tokens.previous_token.text.lower(), tokens.current_token
    if before in ("and", "or") and word.text in _ORDER_OPERATORS:
        return f"write a full comparison on both sides of {before}"
    if before in ("is", "not") and word.kind in ("number", "string"):
        negated = before == "not" and tokens.peek(-2).text.lower() == "is"
        return 'write "<>"' if negated else 'write "="' if before == "is" else ""
    if word.text.lower() in (",", "to") and tokens.peek(-2).text.lower() == "between":
        return "write between low and high"
    if word.text == "," and tokens.peek(-3).text.lower() in ("cast", "try_cast"):
        return _HINTS_AFTER_WORD["cast"]
    return _HINTS_AFTER_WORD.get(before, "") if word.kind != "end" else ""


def _word_hint(tokens: TokenStream) -> str:
    """Return the hint for a word or sign that is not allowed here."""
    before, word = tokens.previous_token, tokens.current_token
    text = word.text.lower()
    if text == "none":
        return "no value is null"
    if text == "[":
        return "write array(...)"
    if before.kind == "number" and word.kind == "word" and _DURATION.fullmatch(text):
        return "write a duration as interval 90 minutes"
    if word.kind == "string" and before.text == "f" and before.span.end == word.span.start:
        return "write concat(...), or join texts with ||"
    return _HINTS_AFTER_VALUE.get(text, "") if word.kind in ("word", "symbol") else ""


_HINT_RULES = (_sign_hint, _pattern_hint, _operand_hint, _word_hint)


def query_error(tokens: TokenStream) -> ExpressionError | None:
    """Return the error where a query begins, or None where none does."""
    word, ahead = tokens.current_token, tokens.next_token
    selected = ahead.kind in ("word", "quoted", "number", "string") and not _continues_expression(
        ahead.text
    )
    if not selected and not (ahead.text == "*" and tokens.peek(2).text.lower() == "from"):
        return None
    if word.text.lower() == "distinct":
        message = "distinct is allowed only inside an aggregate"
        return ExpressionError(message, word.span, "as in count(distinct id)")
    if tokens.previous_token.text == "(":
        message = "a query is not allowed inside an expression"
        return ExpressionError(message, word.span, "read that data in a step of its own")
    hint = "write only what follows select"
    return ExpressionError("an expression starts without select", word.span, hint)


def _continues_expression(text: str) -> bool:
    return text.lower() in _CONTINUING_WORDS


_CONTINUING_WORDS = frozenset(
    "and or not between in like ilike rlike regexp is escape then when else end div as from for"
    " asc desc ignore respect".split()
)


def star_error(start: Span, end: Span) -> ExpressionError:
    """Return the error about `*` or `table.*` where a value is wanted."""
    hint = "write each column by its name; * is allowed only in count(*)"
    return ExpressionError("* is not a value", start.extend_to(end), hint)


def method_call_error(tokens: TokenStream, node: SyntaxNode, name: str) -> ExpressionError:
    """Return the error about `text.upper()`, when the parser is at its parenthesis."""
    subject = tokens.source_text(node.span)
    rest = "" if tokens.next_token.text == ")" else ", ..."
    message = f"a value has no methods, got {subject}.{name}(...)"
    span = node.span.extend_to(tokens.current_token.span)
    return ExpressionError(message, span, f"write {name.lower()}({subject}{rest})")
