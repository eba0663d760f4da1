"""The predicates after a value: `is`, `in`, `between`, `like`, each with its `not`.

All become plain calls, so that typing has fewer cases.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.expressions.parsing.lexer import SqlToken
from headrace.core.expressions.parsing.syntax_tree import CallNode, SyntaxNode
from headrace.core.expressions.parsing.token_stream import ExpressionParser


def parse_predicate(parser: ExpressionParser, subject: SyntaxNode) -> SyntaxNode:
    """Parse the `is`, `in`, `between` or `like` after the subject, if there is one."""
    negated = parser.accept("not") if parser.next_token.text.lower() in _PREDICATES else None
    word = parser.current_token
    if not parser.is_at(*_PREDICATES):
        return subject
    parser.take()
    is_quantified = parser.is_at(*_QUANTIFIERS) and parser.next_token.text == "("
    if is_quantified and word.text.lower() in ("like", "ilike"):
        return _parse_quantified_like(parser, subject, word, negated=bool(negated))
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
    arguments = [subject, parser.parse_value()]
    if word.text.lower() != "rlike" and parser.accept("escape"):
        arguments.append(parser.parse_value())
    name = "rlike" if word.text.lower() == "regexp" else word.text.lower()
    span = subject.span.extend_to(arguments[-1].span)
    return CallNode(span, name, word.span, tuple(arguments))


_QUANTIFIERS = {"any": "or", "some": "or", "all": "and"}


def _parse_quantified_like(
    parser: ExpressionParser, subject: SyntaxNode, word: SqlToken, *, negated: bool
) -> SyntaxNode:
    """Parse `like any (a, b)` as `like a or like b`; `not` is that of each."""
    operator = _QUANTIFIERS[parser.take().text.lower()]
    parser.expect("(")
    if parser.is_at(")"):
        raise parser.unexpected_token_error("at least one pattern")
    patterns = parser.parse_arguments()
    span = subject.span.extend_to(parser.expect(")").span)
    calls = [CallNode(span, word.text.lower(), word.span, (subject, each)) for each in patterns]
    return _join([_negate(each) for each in calls] if negated else calls, operator)


def _join(nodes: list[CallNode], operator: str) -> CallNode:
    """Join conditions in a tree of little depth."""
    if len(nodes) == 1:
        return nodes[0]
    half = len(nodes) // 2
    parts = _join(nodes[:half], operator), _join(nodes[half:], operator)
    return CallNode(nodes[0].span, operator, nodes[0].name_span, parts)


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
