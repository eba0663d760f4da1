"""The irregular forms of Spark SQL: `case`, typed text, intervals, trailing clauses.

Each function reads from the parser that it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.interval_literal import parse_interval, total
from headrace.core.expressions.keyword_calls import CALLS
from headrace.core.expressions.syntax import Call, Literal, Node, TypedText
from headrace.core.expressions.typed import ExpressionError
from headrace.core.types import BINARY, BOOLEAN, DATE, TIMESTAMP, Type

if TYPE_CHECKING:
    from headrace.core.expressions.parser import Parser


def form(parser: Parser) -> Node | None:
    """Parse the special form that starts at the current token, or return None."""
    word, ahead = parser.current.text.lower(), parser.ahead
    if ahead.text == "(" and word in CALLS:
        start = parser.take()
        parser.expect("(")
        return CALLS[word](parser, start)
    if ahead.kind == "string" and word in _TYPED_TEXT:
        return _typed_text(parser)
    if word == "interval" and parser.peek(2 if ahead.text in ("-", "+") else 1).kind in _AMOUNTS:
        return _interval(parser)
    return _case(parser) if word == "case" and ahead.text not in ("(", "end") else None


_AMOUNTS = ("string", "number")


def _case(parser: Parser) -> Node:
    start = parser.take()
    subject = [] if parser.at("when") else [parser.expression()]
    parts: list[Node] = []
    while parser.accept("when"):
        parts.append(parser.expression())
        parser.expect("then")
        parts.append(parser.expression())
    if not parts:
        raise parser.unexpected('"when"')
    if parser.accept("else"):
        parts.append(parser.expression())
    end = parser.expect("end")
    name = "case subject" if subject else "case"
    return Call(start.span.to(end.span), name, start.span, (*subject, *parts))


_TYPED_TEXT: dict[str, Type] = {"date": DATE, "timestamp": TIMESTAMP, "x": BINARY}


def _typed_text(parser: Parser) -> Node:
    word, text = parser.take(), parser.take()
    span, type = word.span.to(text.span), _TYPED_TEXT[word.text.lower()]
    if type != BINARY:
        return TypedText(span, text.value, type)
    digits = text.value if len(text.value) % 2 == 0 else f"0{text.value}"
    try:
        return Literal(span, bytes.fromhex(digits), BINARY)
    except ValueError:
        raise ExpressionError(
            f"{text.text} has characters that are not hexadecimal digits", span
        ) from None


def _interval(parser: Parser) -> Node:
    start = parser.take()
    parts = [_interval_part(parser)]
    while parser.current.kind in _AMOUNTS:
        parts.append(_interval_part(parser))
    span = start.span.to(parser.previous.span)
    try:
        type, count = total(parts)
    except ValueError as error:
        hint = "add two intervals one after the other"
        raise ExpressionError(str(error), span, hint) from None
    return Literal(span, count, type)


def _interval_part(parser: Parser) -> tuple[Type, int]:
    sign = parser.accept("-", "+")
    first = parser.current
    if first.kind not in _AMOUNTS:
        raise parser.unexpected("a number or a string")
    parser.take()
    value = ("-" if sign and sign.text == "-" else "") + first.value
    unit = parser.take() if parser.current.kind == "word" and not parser.at("and", "or") else None
    to = parser.name("a unit") if unit and parser.accept("to") else None
    span = (sign or first).span.to(parser.previous.span)
    try:
        return parse_interval(value, unit.value if unit else "", to.value if to else None)
    except ValueError as error:
        raise ExpressionError(str(error), span, "write it as interval 90 minutes") from None


def nulls_clause(parser: Parser) -> tuple[Node, ...]:
    """Parse `ignore nulls`, after or inside a call, to one more argument, true; `respect nulls`
    adds none."""
    if not (parser.at("ignore", "respect") and parser.ahead.text.lower() == "nulls"):
        return ()
    word = parser.take()
    parser.take()
    return (Literal(word.span, True, BOOLEAN),) if word.text.lower() == "ignore" else ()


def filter_clause(parser: Parser) -> Node | None:
    """Parse the condition of `filter (where condition)` after a call, if there is one."""
    if not (parser.at("filter") and parser.ahead.text == "("):
        return None
    parser.take()
    parser.expect("(")
    parser.expect("where")
    condition = parser.expression()
    parser.expect(")")
    return condition
