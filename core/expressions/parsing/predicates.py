"""The predicates after a value: `is`, `in`, `between`, `like`, each with its `not`.

All become plain calls, so that typing has fewer cases.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.expressions.parsing.lexer import SqlToken
from headrace.core.expressions.parsing.syntax_tree import CallNode, SyntaxNode
from headrace.core.expressions.parsing.token_stream import ExpressionParser
from headrace.core.expressions.typed import ExpressionError


def parse_predicate(parser: ExpressionParser, subject: SyntaxNode) -> SyntaxNode:
    """Parse the `is`, `in`, `between` or `like` after the subject, if there is one."""
    negated = parser.accept("not") if parser.next_token.text.lower() in _PREDICATES else None
    word = parser.current_token
    if not parser.is_at(*_PREDICATES):
        return subject
    parser.take()
    node = _PREDICATES[word.text.lower()](parser, subject, word)
    return _negate(node) if negated else node


def _parse_between(parser: ExpressionParser, subject: SyntaxNode, word: SqlToken) -> CallNode:
    low = parser.parse_value()
    parser.expect("and")
    high = parser.parse_value()
    span = subject.span.extend_to(high.span)
    return CallNode(span, "between", word.span, (subject, low, high))


def _parse_in(parser: ExpressionParser, subject: SyntaxNode, word: SqlToken) -> CallNode:
    parser.expect("(")
    if parser.is_at(")"):
        raise parser.unexpected_token_error("at least one value")
    values = parser.parse_arguments()
    end = parser.expect(")")
    return CallNode(subject.span.extend_to(end.span), "in", word.span, (subject, *values))


def _parse_like(parser: ExpressionParser, subject: SyntaxNode, word: SqlToken) -> CallNode:
    if parser.is_at("any", "some", "all") and parser.next_token.text == "(":
        name = f"{word.text.lower()} {parser.current_token.text.lower()}"
        raise ExpressionError(
            f"{name} is not built yet",
            parser.current_token.span,
            "join single conditions with or, and",
        )
    arguments = [subject, parser.parse_value()]
    if word.text.lower() != "rlike" and parser.accept("escape"):
        arguments.append(parser.parse_value())
    name = "rlike" if word.text.lower() == "regexp" else word.text.lower()
    span = subject.span.extend_to(arguments[-1].span)
    return CallNode(span, name, word.span, tuple(arguments))


def _parse_is(parser: ExpressionParser, subject: SyntaxNode, word: SqlToken) -> CallNode:
    negated = parser.accept("not")
    if parser.accept("distinct"):
        parser.expect("from")
        other = parser.parse_value()
        same = CallNode(subject.span.extend_to(other.span), "<=>", word.span, (subject, other))
        return same if negated else _negate(same)
    tests = {"null": "isnull", "unknown": "isnull", "true": "is true", "false": "is false"}
    if not parser.is_at(*tests):
        raise parser.unexpected_token_error('"null", "true", "false" or "distinct from"')
    found = parser.take()
    name, span = tests[found.text.lower()], subject.span.extend_to(found.span)
    if negated and name == "isnull":
        return CallNode(span, "isnotnull", word.span, (subject,))
    node = CallNode(span, name, word.span, (subject,))
    return _negate(node) if negated else node


_PREDICATES: dict[str, Callable[[ExpressionParser, SyntaxNode, SqlToken], CallNode]] = {
    "between": _parse_between,
    "in": _parse_in,
    "like": _parse_like,
    "ilike": _parse_like,
    "rlike": _parse_like,
    "regexp": _parse_like,
    "is": _parse_is,
}


def _negate(node: CallNode) -> CallNode:
    return CallNode(node.span, "not", node.name_span, (node,))
