"""Joins in words, a line for each thing they do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from headrace.core.plan import nodes
from headrace.core.plan.describe_keyed import body_lines, window_said
from headrace.core.plan.matching import AsOf, Changing, Connected, Everywhere, SameWindow, Within
from headrace.core.plan.wording import duration_said


def join_lines(join: nodes.Join) -> Iterator[str]:
    """What the join does."""
    if isinstance(join.matching, Everywhere):
        yield f"from {join.left.name}"
        yield f"broadcast of {join.right.name}, {join.type} join on {join.text}"
        yield _holding(join.matching)
        return
    if isinstance(join.matching, Connected):
        if join.matching.everywhere:
            yield f"from {join.left.name}"
            yield f"broadcast of {join.right.name}, to on_rule"
        else:
            yield f"connect {join.left.name} and {join.right.name}"
        yield f"key {', '.join(each.name for each in join.left.key)}"
        yield from body_lines(join.matching.body, "")
        yield from _late(join)
        return
    yield f"{join.type} join of {join.left.name} and {join.right.name} on {join.text}"
    if isinstance(join.matching, SameWindow):
        yield f"window {window_said(join.matching.window)}"
    elif said := matching_said(join):
        yield said
    yield from _late(join)


def _late(join: nodes.Join) -> Iterator[str]:
    for side, to in zip((join.left, join.right), join.late_to, strict=True):
        if to:
            yield f"late rows of {side.name} to {to}"


def matching_said(join: nodes.Join) -> str:
    """Which rows are looked at together, beside their keys; "" where all are."""
    match join.matching:
        case Within(least_us=None):
            return "rows are kept for ever"
        case Within(least_us=int(least), most_us=int(most), processing=processing):
            clock = " by the wall clock" if processing else ""
            sides = f"{join.right.name} from {signed(least)} to {signed(most)} later"
            return f"{sides}{clock}"
        case AsOf(ttl_us):
            forgets = f", none older than {_length(ttl_us)}" if ttl_us is not None else ""
            return f"as of: the latest {join.right.name} that is not later{forgets}"
        case Changing(ttl):
            forgets = ""
            if ttl is not None:
                clock = " by the wall clock" if ttl.processing else ""
                forgets = f", ttl {_length(ttl.after_us)}{clock}"
            return f"what is there now{forgets}"
    return ""


def _holding(matching: Everywhere) -> str:
    """Which rows of the right input a row meets."""
    which = "all"
    if matching.key is not None:
        names = ", ".join(each.text or each.name for each in matching.key)
        which = f"the latest of each {names}" if names else "the latest"
    if matching.ttl_us is not None:
        which += f", for {_length(matching.ttl_us)}"
    return f"{which}, {'at the time of the row' if matching.in_time else 'as they come'}"


def signed(us: int) -> str:
    """How much later, or with a minus how much earlier."""
    return f"-{_length(-us)}" if us < 0 else _length(us)


def _length(us: int) -> str:
    return duration_said(timedelta(microseconds=us))
