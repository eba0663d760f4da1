"""The irregular forms of Spark SQL: `case`, typed text, intervals, trailing clauses.

Each function reads from the parser that it is given.
"""

from __future__ import annotations

from headrace.core.expressions.parsing.keyword_calls import KEYWORD_CALLS
from headrace.core.expressions.parsing.literals import parse_interval, sum_interval_parts
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Literal,
    SortItem,
    SyntaxNode,
    TypedText,
)
from headrace.core.expressions.parsing.token_stream import ExpressionParser
from headrace.core.expressions.typed import ExpressionError
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Interval,
    Type,
)


def parse_special_form(parser: ExpressionParser) -> SyntaxNode | None:
    """Parse the special form that starts at the current token, or return None."""
    word, ahead = parser.current_token.text.lower(), parser.next_token
    if ahead.text == "(" and word in KEYWORD_CALLS:
        start = parser.take()
        parser.expect("(")
        return KEYWORD_CALLS[word](parser, start)
    if ahead.kind == "string" and word in _TYPED_TEXT:
        return _parse_typed_text(parser)
    if (
        word == "interval"
        and parser.peek(2 if ahead.text in ("-", "+") else 1).kind in _AMOUNT_KINDS
    ):
        return _parse_interval(parser)
    return _parse_case(parser) if word == "case" and ahead.text not in ("(", "end") else None


_AMOUNT_KINDS = ("string", "number")


def _parse_case(parser: ExpressionParser) -> SyntaxNode:
    start = parser.take()
    subject = [] if parser.is_at("when") else [parser.parse_expression()]
    parts: list[SyntaxNode] = []
    while parser.accept("when"):
        parts.append(parser.parse_expression())
        parser.expect("then")
        parts.append(parser.parse_expression())
    if not parts:
        raise parser.unexpected_token_error('"when"')
    if parser.accept("else"):
        parts.append(parser.parse_expression())
    end = parser.expect("end")
    name = "case subject" if subject else "case"
    return CallNode(start.span.extend_to(end.span), name, start.span, (*subject, *parts))


_TYPED_TEXT: dict[str, Type] = {
    **{"date": DATE, "timestamp": TIMESTAMP, "timestamp_ltz": TIMESTAMP},
    **{"timestamp_ntz": TIMESTAMP_NTZ, "time": TIME, "x": BINARY},
}


def _parse_typed_text(parser: ExpressionParser) -> SyntaxNode:
    word, text = parser.take(), parser.take()
    span, type = word.span.extend_to(text.span), _TYPED_TEXT[word.text.lower()]
    if type != BINARY:
        return TypedText(span, text.value, type)
    digits = text.value if len(text.value) % 2 == 0 else f"0{text.value}"
    try:
        return Literal(span, bytes.fromhex(digits), BINARY)
    except ValueError:
        raise ExpressionError(
            f"{text.text} has characters that are not hexadecimal digits", span
        ) from None


def _parse_interval(parser: ExpressionParser) -> SyntaxNode:
    start = parser.take()
    parts = [_parse_interval_part(parser)]
    while parser.current_token.kind in _AMOUNT_KINDS:
        parts.append(_parse_interval_part(parser))
    span = start.span.extend_to(parser.previous_token.span)
    try:
        type, count = sum_interval_parts(parts)
    except ValueError as error:
        hint = "add two intervals one after the other"
        raise ExpressionError(str(error), span, hint) from None
    return Literal(span, count, type)


def _parse_interval_part(parser: ExpressionParser) -> tuple[Interval, int]:
    sign = parser.accept("-", "+")
    first = parser.current_token
    if first.kind not in _AMOUNT_KINDS:
        raise parser.unexpected_token_error("a number or a string")
    parser.take()
    value = ("-" if sign and sign.text == "-" else "") + first.value
    unit = (
        parser.take()
        if parser.current_token.kind == "word" and not parser.is_at("and", "or")
        else None
    )
    to = parser.parse_name("a unit") if unit and parser.accept("to") else None
    span = (sign or first).span.extend_to(parser.previous_token.span)
    try:
        return parse_interval(value, unit.value if unit else "", to.value if to else None)
    except ValueError as error:
        raise ExpressionError(str(error), span, "as in interval 90 minutes") from None


def parse_nulls_clause(parser: ExpressionParser) -> tuple[SyntaxNode, ...]:
    """Parse `ignore nulls`, after or inside a call, to one more argument, true; `respect nulls`
    adds none."""
    if not (parser.is_at("ignore", "respect") and parser.next_token.text.lower() == "nulls"):
        return ()
    word = parser.take()
    parser.take()
    return (Literal(word.span, True, BOOLEAN),) if word.text.lower() == "ignore" else ()


def parse_within_group_clause(parser: ExpressionParser) -> tuple[SortItem, ...]:
    """Parse `within group (order by ...)` after a call, if it is there."""
    if not (parser.is_at("within") and parser.next_token.text.lower() == "group"):
        return ()
    parser.take()
    parser.take()
    parser.expect("(")
    parser.expect("order")
    parser.expect("by")
    items = parse_sort_items(parser)
    parser.expect(")")
    return items


def parse_sort_items(parser: ExpressionParser) -> tuple[SortItem, ...]:
    """Parse what follows `order by`."""
    items = [_parse_sort_item(parser)]
    while parser.accept(","):
        items.append(_parse_sort_item(parser))
    return tuple(items)


def _parse_sort_item(parser: ExpressionParser) -> SortItem:
    expression = parser.parse_expression()
    word = parser.accept("asc", "desc")
    is_descending = word is not None and word.text.lower() == "desc"
    if not parser.accept("nulls"):
        return SortItem(expression, is_descending, nulls_last=is_descending)
    place = parser.accept("first", "last")
    if place is None:
        raise parser.unexpected_token_error('"first" or "last"')
    return SortItem(expression, is_descending, nulls_last=place.text.lower() == "last")


def parse_filter_clause(parser: ExpressionParser) -> SyntaxNode | None:
    """Parse the condition of `filter (where condition)` after a call, if there is one."""
    if not (parser.is_at("filter") and parser.next_token.text == "("):
        return None
    parser.take()
    parser.expect("(")
    parser.expect("where")
    condition = parser.parse_expression()
    parser.expect(")")
    return condition
