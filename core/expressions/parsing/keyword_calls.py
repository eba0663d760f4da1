"""Calls with keywords between their arguments: `cast(x as t)`, `extract(f from x)`, `trim(both
...)`.

Each function reads from the parser, after the opening parenthesis; forms that have an equivalent
plain call become one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.core.expressions.parsing.lexer import SqlToken
from headrace.core.expressions.parsing.syntax_tree import CallNode, Cast, Literal, Name, SyntaxNode
from headrace.core.expressions.parsing.token_stream import ExpressionParser
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types.data_types import MONTH_FIELDS, STRING, TIME_FIELDS, Type
from headrace.core.types.type_parser import TypeTextError, parse_type


def _parse_cast(parser: ExpressionParser, start: SqlToken) -> SyntaxNode:
    operand = parser.parse_expression()
    parser.expect("as")
    type = parse_type_name(parser)
    end = parser.expect(")")
    attempt = start.text.lower() == "try_cast"
    return Cast(start.span.extend_to(end.span), operand, type, attempt)


def _parse_extract(parser: ExpressionParser, start: SqlToken) -> SyntaxNode:
    field = parser.parse_name("a field such as year or hour")
    parser.expect("from")
    source = parser.parse_expression()
    end = parser.expect(")")
    name = Literal(field.span, field.value, STRING)
    return CallNode(start.span.extend_to(end.span), "date_part", start.span, (name, source))


def _parse_position(parser: ExpressionParser, start: SqlToken) -> SyntaxNode:
    part = parser.parse_value()
    if not parser.accept("in"):
        return _parse_plain_call(parser, start, part)
    text = parser.parse_value()
    end = parser.expect(")")
    return CallNode(start.span.extend_to(end.span), "instr", start.span, (text, part))


def _parse_substring(parser: ExpressionParser, start: SqlToken) -> SyntaxNode:
    arguments = [parser.parse_expression()]
    if not parser.accept("from"):
        return _parse_plain_call(parser, start, arguments[0])
    arguments.append(parser.parse_expression())
    if parser.accept("for"):
        arguments.append(parser.parse_expression())
    end = parser.expect(")")
    return CallNode(start.span.extend_to(end.span), "substring", start.span, tuple(arguments))


def _parse_overlay(parser: ExpressionParser, start: SqlToken) -> SyntaxNode:
    arguments = [parser.parse_expression()]
    if not parser.accept("placing"):
        return _parse_plain_call(parser, start, arguments[0])
    arguments.append(parser.parse_expression())
    parser.expect("from")
    arguments.append(parser.parse_expression())
    if parser.accept("for"):
        arguments.append(parser.parse_expression())
    end = parser.expect(")")
    return CallNode(start.span.extend_to(end.span), "overlay", start.span, tuple(arguments))


def _parse_trim(parser: ExpressionParser, start: SqlToken) -> SyntaxNode:
    sides = {"both": "trim", "leading": "ltrim", "trailing": "rtrim"}
    side = (
        parser.take() if parser.is_at(*sides) and parser.next_token.text not in (")", ",") else None
    )
    characters = None if side and parser.is_at("from") else parser.parse_expression()
    if not parser.accept("from"):
        if side or characters is None:
            raise parser.unexpected_token_error('"from"')
        return _parse_plain_call(parser, start, characters)
    text = parser.parse_expression()
    end = parser.expect(")")
    name = sides[side.text.lower()] if side else "trim"
    arguments: tuple[SyntaxNode, ...] = (characters, text) if characters else (text,)
    return CallNode(start.span.extend_to(end.span), name, start.span, arguments)


def _parse_unit_call(parser: ExpressionParser, start: SqlToken) -> SyntaxNode:
    """Parse `timestampdiff(MINUTE, a, b)`: the unit is a bare word, and the first of three
    arguments; in `datediff(day, at)` it is a column."""
    unit, always = parser.current_token, start.text.lower() in ("timestampdiff", "timestampadd")
    if unit.kind == "string" and unit.value.lower() in _UNIT_NAMES:
        raise ExpressionError("a unit has no quotes here", unit.span, f"write {unit.value.upper()}")
    if not (
        unit.text.lower() in _UNIT_NAMES and unit.kind == "word" and parser.next_token.text == ","
    ):
        if always:
            raise parser.unexpected_token_error("a unit such as day")
        return _parse_plain_call(parser, start)
    parser.take()
    node = _parse_plain_call(parser, start, Name(unit.span, unit.value))
    if len(node.arguments) != 3 and not always:
        return node
    word = Literal(unit.span, unit.text.upper(), STRING)
    difference = start.text.lower() in ("timestampdiff", "datediff", "date_diff")
    name = "timestampdiff" if difference else "timestampadd"
    return replace(node, name=name, arguments=(word, *node.arguments[1:]))


_UNIT_NAMES = frozenset(
    "year quarter month week day dayofyear hour minute second millisecond microsecond".split()
)


def _parse_plain_call(parser: ExpressionParser, start: SqlToken, *first: SyntaxNode) -> CallNode:
    """Parse the rest of a plain call whose first arguments have been read."""
    more = parser.accept(",") if first else not parser.is_at(")")
    arguments = (*first, *(parser.parse_arguments() if more else ()))
    end = parser.expect(")")
    return CallNode(start.span.extend_to(end.span), start.text.lower(), start.span, arguments)


KEYWORD_CALLS: dict[str, Callable[[ExpressionParser, SqlToken], SyntaxNode]] = {
    "cast": _parse_cast,
    "try_cast": _parse_cast,
    "extract": _parse_extract,
    "position": _parse_position,
    "substring": _parse_substring,
    "substr": _parse_substring,
    "overlay": _parse_overlay,
    "trim": _parse_trim,
    **dict.fromkeys(
        ("timestampdiff", "timestampadd", "datediff", "date_diff", "dateadd", "date_add"),
        _parse_unit_call,
    ),
}


def parse_type_name(parser: ExpressionParser) -> Type:
    """Parse the name of a type, with its parameters."""
    first = parser.parse_name("a type")
    closing = {"(": 0, "<": 0}
    while parser.is_at("(", "<") or any(closing.values()):
        word = parser.take()
        if word.kind == "end":
            raise parser.unexpected_token_error('")" or ">"')
        for bracket, ends in (("(", ")"), ("<", ">")):
            closing[bracket] += word.text.count(bracket) - word.text.count(ends)
    if first.text.lower() == "interval":
        if not parser.is_at(*MONTH_FIELDS, *TIME_FIELDS):
            message = f"wanted a unit after interval, got {parser.current_token}"
            raise ExpressionError(message, first.span, "as in interval 1 day, without a cast")
        parser.take()
        if parser.accept("to"):
            parser.parse_name("a unit")
    if first.text.lower() == "double":
        parser.accept("precision")
    if first.text.lower() == "timestamp" and parser.is_at("with", "without"):
        written = "timestamp" if parser.is_at("with") else "timestamp_ntz"
        after = parser.current_token.text.lower()
        message = f"wanted the name of a type, got timestamp {after} ..."
        raise ExpressionError(message, first.span, f"write {written} alone")
    span = first.span.extend_to(parser.previous_token.span)
    try:
        type, nullable = parse_type(parser.source_text(span))
    except TypeTextError as error:
        at = Span(span.start + error.start, span.start + error.end)
        raise ExpressionError(error.message, at, error.hint) from None
    assert nullable, "the parser stops before a `not`"
    return type
