"""Calls with keywords between their arguments: `cast(x as t)`, `extract(f from x)`, `trim(both
...)`.

Each function reads from the parser, after the opening parenthesis; forms that have an equivalent
plain call become one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.syntax import Call, Cast, Literal, Name, Node
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.type_parser import TypeTextError, parse_type
from headrace.core.types import STRING, Type

if TYPE_CHECKING:
    from headrace.core.expressions.lexer import Token
    from headrace.core.expressions.parser import Parser


def _cast(parser: Parser, start: Token) -> Node:
    operand = parser.expression()
    parser.expect("as")
    type = type_name(parser)
    end = parser.expect(")")
    attempt = start.text.lower() == "try_cast"
    return Cast(start.span.to(end.span), operand, type, attempt)


def _extract(parser: Parser, start: Token) -> Node:
    field = parser.name("a field such as year or hour")
    parser.expect("from")
    source = parser.expression()
    end = parser.expect(")")
    name = Literal(field.span, field.value, STRING)
    return Call(start.span.to(end.span), "date_part", start.span, (name, source))


def _position(parser: Parser, start: Token) -> Node:
    part = parser.value()
    if not parser.accept("in"):
        return _rest(parser, start, part)
    text = parser.value()
    end = parser.expect(")")
    return Call(start.span.to(end.span), "instr", start.span, (text, part))


def _substring(parser: Parser, start: Token) -> Node:
    arguments = [parser.expression()]
    if not parser.accept("from"):
        return _rest(parser, start, arguments[0])
    arguments.append(parser.expression())
    if parser.accept("for"):
        arguments.append(parser.expression())
    end = parser.expect(")")
    return Call(start.span.to(end.span), "substring", start.span, tuple(arguments))


def _trim(parser: Parser, start: Token) -> Node:
    sides = {"both": "trim", "leading": "ltrim", "trailing": "rtrim"}
    side = parser.take() if parser.at(*sides) and parser.ahead.text not in (")", ",") else None
    characters = None if side and parser.at("from") else parser.expression()
    if not parser.accept("from"):
        if side or characters is None:
            raise parser.unexpected('"from"')
        return _rest(parser, start, characters)
    text = parser.expression()
    end = parser.expect(")")
    name = sides[side.text.lower()] if side else "trim"
    arguments: tuple[Node, ...] = (characters, text) if characters else (text,)
    return Call(start.span.to(end.span), name, start.span, arguments)


def _unit_first(parser: Parser, start: Token) -> Node:
    """Parse `timestampdiff(MINUTE, a, b)`: the unit is a bare word, and the first of three
    arguments; in `datediff(day, at)` it is a column."""
    unit, always = parser.current, start.text.lower() in ("timestampdiff", "timestampadd")
    if not (unit.text.lower() in _UNITS and unit.kind == "word" and parser.ahead.text == ","):
        if always:
            raise parser.unexpected("a unit such as day, without quotes,")
        return _rest(parser, start)
    parser.take()
    node = _rest(parser, start, Name(unit.span, unit.value))
    if len(node.arguments) != 3 and not always:
        return node
    word = Literal(unit.span, unit.text.upper(), STRING)
    difference = start.text.lower() in ("timestampdiff", "datediff", "date_diff")
    name = "timestampdiff" if difference else "timestampadd"
    return replace(node, name=name, arguments=(word, *node.arguments[1:]))


_UNITS = frozenset(
    "year quarter month week day dayofyear hour minute second millisecond microsecond".split()
)


def _rest(parser: Parser, start: Token, *first: Node) -> Call:
    """Parse the rest of a plain call whose first arguments have been read."""
    more = parser.accept(",") if first else not parser.at(")")
    arguments = (*first, *(parser.arguments() if more else ()))
    end = parser.expect(")")
    return Call(start.span.to(end.span), start.text.lower(), start.span, arguments)


CALLS: dict[str, Callable[[Parser, Token], Node]] = {
    "cast": _cast,
    "try_cast": _cast,
    "extract": _extract,
    "position": _position,
    "substring": _substring,
    "substr": _substring,
    "trim": _trim,
    **dict.fromkeys(
        ("timestampdiff", "timestampadd", "datediff", "date_diff", "dateadd", "date_add"),
        _unit_first,
    ),
}


def type_name(parser: Parser) -> Type:
    """Parse the name of a type, with its parameters."""
    first = parser.name("a type")
    closing = {"(": 0, "<": 0}
    while parser.at("(", "<") or any(closing.values()):
        word = parser.take()
        if word.kind == "end":
            raise parser.unexpected('")" or ">"')
        for bracket, ends in (("(", ")"), ("<", ">")):
            closing[bracket] += word.text.count(bracket) - word.text.count(ends)
    span = first.span.to(parser.previous.span)
    try:
        type, nullable = parse_type(parser.text_of(span))
    except TypeTextError as error:
        at = Span(span.start + error.start, span.start + error.end)
        raise ExpressionError(error.message, at, error.hint) from None
    assert nullable, "the parser stops before a `not`"
    return type
