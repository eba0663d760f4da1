"""Frames of functions over rows, and what is refused in them."""

from __future__ import annotations

import pytest

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.expressions.parsing.frame_parser import parse_framed_expression
from headrace.core.expressions.typed import ExpressionError


@pytest.mark.parametrize(
    ("frame", "canonical"),
    [
        ("", ""),
        ("rows 4 preceding", "rows between 4 preceding and current row"),
        ("ROWS UNBOUNDED PRECEDING", "rows between unbounded preceding and current row"),
        ("rows between 1 following and 2 following", "rows between 1 following and 2 following"),
        (
            "range between interval 1 hour preceding and interval '1.5' seconds following",
            "range between interval 3600 seconds preceding and interval 1.5 seconds following",
        ),
    ],
)
def test_a_frame_is_read(frame: str, canonical: str) -> None:
    tree = parse_framed_expression(f"a - sum(b) over ({frame}) * 2")
    assert canonical_text(tree) == f"(a - (sum(b) over ({canonical}) * 2))"


@pytest.mark.parametrize(
    ("frame", "message", "hint"),
    [
        ("partition by k", "has only a frame here, got partition by", "key of the step"),
        ("order by a", "has only a frame here, got order by", "the order of event time"),
        ("groups 1 preceding", "a frame of groups is not supported", "rows 4 preceding"),
        ("rows between 1 following and 1 preceding", "ends before it starts", "as in over"),
        ("rows between current row and unbounded following", "only after the last row", "5 follow"),
        ("rows unbounded following", "only after the last row", "say how far"),
        ("rows between 1 preceding and unbounded preceding", "ends before it starts", ""),
        ("rows interval 1 hour preceding", "wanted a number of rows", ""),
        ("range 10 preceding", "wanted an interval of days and time", ""),
        ("range interval 1 month preceding", "wanted an interval of days and time", ""),
        ("rows -1 preceding", "wanted a size of at least 0", "as in over"),
        ("4 preceding", 'wanted "rows" or "range", got "4"', ""),
        ("rows 4", 'wanted "preceding" or "following", got ")"', ""),
    ],
)
def test_another_frame_is_refused_by_name(frame: str, message: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        parse_framed_expression(f"sum(b) over ({frame})")
    assert message in str(refused.value)
    assert hint in refused.value.hint
