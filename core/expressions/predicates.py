"""The predicates after a value: `is`, `in`, `between`, `like`, each with its `not`.

All become plain calls, so that typing has fewer cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.syntax import Call, Node
from headrace.core.expressions.typed import ExpressionError

if TYPE_CHECKING:
    from headrace.core.expressions.lexer import Token
    from headrace.core.expressions.parser import Parser


def predicate(parser: Parser, subject: Node) -> Node:
    """Parse the `is`, `in`, `between` or `like` after the subject, if there is one."""
    negated = parser.accept("not") if parser.ahead.text.lower() in _PREDICATES else None
    word = parser.current
    if not parser.at(*_PREDICATES):
        return subject
    parser.take()
    node = _PREDICATES[word.text.lower()](parser, subject, word)
    return _not(node) if negated else node


def _between(parser: Parser, subject: Node, word: Token) -> Call:
    low = parser.value()
    parser.expect("and")
    high = parser.value()
    span = subject.span.to(high.span)
    return Call(span, "between", word.span, (subject, low, high))


def _in(parser: Parser, subject: Node, word: Token) -> Call:
    parser.expect("(")
    if parser.at(")"):
        raise parser.unexpected("at least one value")
    values = parser.arguments()
    end = parser.expect(")")
    return Call(subject.span.to(end.span), "in", word.span, (subject, *values))


def _like(parser: Parser, subject: Node, word: Token) -> Call:
    if parser.at("any", "some", "all") and parser.ahead.text == "(":
        name = f"{word.text.lower()} {parser.current.text.lower()}"
        raise ExpressionError(f"{name} is not built yet", parser.current.span, "write or / and")
    arguments = [subject, parser.value()]
    if word.text.lower() != "rlike" and parser.accept("escape"):
        arguments.append(parser.value())
    name = "rlike" if word.text.lower() == "regexp" else word.text.lower()
    span = subject.span.to(arguments[-1].span)
    return Call(span, name, word.span, tuple(arguments))


def _is(parser: Parser, subject: Node, word: Token) -> Call:
    negated = parser.accept("not")
    if parser.accept("distinct"):
        parser.expect("from")
        other = parser.value()
        same = Call(subject.span.to(other.span), "<=>", word.span, (subject, other))
        return same if negated else _not(same)
    tests = {"null": "isnull", "unknown": "isnull", "true": "is true", "false": "is false"}
    if not parser.at(*tests):
        raise parser.unexpected('"null", "true", "false" or "distinct from"')
    found = parser.take()
    name, span = tests[found.text.lower()], subject.span.to(found.span)
    if negated and name == "isnull":
        return Call(span, "isnotnull", word.span, (subject,))
    node = Call(span, name, word.span, (subject,))
    return _not(node) if negated else node


_PREDICATES: dict[str, Callable[[Parser, Node, Token], Call]] = {
    "between": _between,
    "in": _in,
    "like": _like,
    "ilike": _like,
    "rlike": _like,
    "regexp": _like,
    "is": _is,
}


def _not(node: Call) -> Call:
    return Call(node.span, "not", node.name_span, (node,))
