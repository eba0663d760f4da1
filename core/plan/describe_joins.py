"""Descriptions of joins in words, one line for each clause."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.plan import nodes
from headrace.core.plan.describe_keyed import body_lines, window_said
from headrace.core.plan.matching import AsOf, Changing, Connected, Everywhere, SameWindow, Within
from headrace.core.plan.wording import us_said


def join_lines(join: nodes.Join) -> Iterator[str]:
    """Yield the clauses of a join, one per line."""
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
    """Describe which rows with equal keys match; "" if all do."""
    match join.matching:
        case Within(least_us=None):
            return "rows are stored forever"
        case Within(least_us=int(least), most_us=int(most), processing=processing):
            clock = " by the wall clock" if processing else ""
            sides = f"{join.right.name} from {signed(least)} to {signed(most)} later"
            return f"{sides}{clock}"
        case AsOf(ttl_us):
            limit = f", none older than {us_said(ttl_us)}" if ttl_us is not None else ""
            return f"as of: the latest {join.right.name} that is not later{limit}"
        case Changing(ttl):
            expiry = ""
            if ttl is not None:
                clock = " by the wall clock" if ttl.processing else ""
                expiry = f", ttl {us_said(ttl.after_us)}{clock}"
            return f"current rows of both inputs{expiry}"
    return ""


def _holding(matching: Everywhere) -> str:
    """Describe the rows of the right input that a row is matched with."""
    which = "all"
    if matching.key is not None:
        names = ", ".join(each.text or each.name for each in matching.key)
        which = f"the latest of each {names}" if names else "the latest"
    if matching.ttl_us is not None:
        which += f", for {us_said(matching.ttl_us)}"
    return f"{which}, {'at the time of the row' if matching.in_time else 'by arrival'}"


def signed(us: int) -> str:
    """Return a duration in microseconds in its largest unit, with a minus if it is negative."""
    return f"-{us_said(-us)}" if us < 0 else us_said(us)
