"""The parser of expressions over the rows of a key: calls may have `over (frame)`.

    sum(price) over (rows between 4 preceding and current row)
    sum(price) over (range interval 1 hour preceding)

The groups and the order of the rows are those of the step, so only a frame is written here.
"""

from __future__ import annotations

from typing import Literal as OneOf

from headrace.core.expressions.parsing.parser import RecursiveDescentParser, parse_whole
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    FramedCall,
    Literal,
    RowFrame,
    SyntaxNode,
)
from headrace.core.expressions.parsing.token_stream import ExpressionParser
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types.data_types import Interval

FRAME_EXAMPLE = "as in over (rows 4 preceding), or over (range interval 1 hour preceding)"


def parse_framed_expression(text: str) -> SyntaxNode:
    """Return the syntax tree of an expression whose calls may have frames.

    >>> parse_framed_expression("sum(a) over (rows 4 preceding)").frame
    RowFrame(unit='rows', start=-4, end=0)
    """
    return parse_whole(FrameParser(text))


class FrameParser(RecursiveDescentParser):
    """A parser of expressions whose calls may have `over (frame)`."""

    def parse_window(self, call: CallNode) -> SyntaxNode:
        """Parse `over (frame)` after a call."""
        self.expect("over")
        self.expect("(")
        for word, hint in _GROUP_AND_ORDER.items():
            if self.is_at(word):
                message = f"over (...) has only a frame here, got {word} by"
                raise ExpressionError(message, self.current_token.span, hint)
        frame = None if self.is_at(")") else parse_frame(self)
        end = self.expect(")")
        return FramedCall(call.span.extend_to(end.span), call, frame)


_GROUP_AND_ORDER = {
    "partition": "key of the step says which rows belong together",
    "order": "the rows of a key are in the order of event time",
}


def parse_frame_text(text: str) -> RowFrame:
    """Return the frame that a text says. Raises ExpressionError.

    >>> print(parse_frame_text("rows 4 preceding"))
    rows between 4 preceding and current row
    """
    parser = FrameParser(text)
    frame = parse_frame(parser)
    if not parser.is_at_end:
        raise parser.unexpected_token_error("the end of the frame")
    return frame


def parse_frame(parser: ExpressionParser) -> RowFrame:
    """Parse a frame: `rows` or `range`, then one bound, or two with `between`."""
    start_token = parser.current_token
    if parser.is_at("groups"):
        raise ExpressionError("a frame of groups is not supported", start_token.span, FRAME_EXAMPLE)
    unit: OneOf["rows", "range"]
    if parser.accept("rows"):
        unit = "rows"
    elif parser.accept("range"):
        unit = "range"
    else:
        raise parser.unexpected_token_error('"rows" or "range"')
    between = parser.accept("between")
    start, end = _parse_bound(parser, unit, is_start=True), 0
    if between:
        parser.expect("and")
        end = _parse_bound(parser, unit, is_start=False) or 0
    if start is not None and start > end:
        span = start_token.span.extend_to(parser.previous_token.span)
        raise ExpressionError("a frame ends before it starts", span, FRAME_EXAMPLE)
    return RowFrame(unit, start, end)


def _parse_bound(
    parser: ExpressionParser, unit: OneOf["rows", "range"], *, is_start: bool
) -> int | None:
    """Return a bound relative to the current row; None for an unbounded start."""
    first = parser.current_token
    if parser.accept("current"):
        parser.expect("row")
        return 0
    if parser.accept("unbounded"):
        if is_start and parser.accept("preceding"):
            return None
        word = parser.accept("preceding", "following")
        if word is None:
            raise parser.unexpected_token_error('"preceding" or "following"')
        span = first.span.extend_to(word.span)
        if word.text.lower() == "preceding":
            raise ExpressionError("a frame ends before it starts", span, FRAME_EXAMPLE)
        message = "a frame to unbounded following is known only after the last row"
        hint = "say how far it goes: 5 following, or interval 1 minute following"
        raise ExpressionError(message, span, hint)
    size = _parse_size(parser, unit)
    word = parser.accept("preceding", "following")
    if word is None:
        raise parser.unexpected_token_error('"preceding" or "following"')
    return -size if word.text.lower() == "preceding" else size


def _parse_size(parser: ExpressionParser, unit: OneOf["rows", "range"]) -> int:
    value = parser.parse_value()
    if isinstance(value, Literal) and isinstance(value.value, int) and value.value is not None:
        is_interval = isinstance(value.type, Interval)
        if unit == "rows" and not is_interval and not isinstance(value.value, bool):
            return _check_size(value.value, value.span)
        if unit == "range" and isinstance(value.type, Interval) and not value.type.is_months:
            return _check_size(value.value, value.span)
    wanted = (
        "a number of rows, as in 4 preceding"
        if unit == "rows"
        else "an interval of days and time, as in interval 1 hour preceding"
    )
    raise ExpressionError(f"wanted {wanted}", value.span)


def _check_size(size: int, span: Span) -> int:
    if size < 0:
        raise ExpressionError("wanted a size of at least 0", span, FRAME_EXAMPLE)
    return size
