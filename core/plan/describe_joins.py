"""Descriptions of joins in words, one line for each clause."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.plan import nodes
from headrace.core.plan.describe_keyed import describe_process_body, describe_window
from headrace.core.plan.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    WindowMatch,
)
from headrace.core.plan.wording import format_microseconds


def describe_join(join: nodes.Join) -> Iterator[str]:
    """Yield the clauses of a join, one per line."""
    if isinstance(join.matching, BroadcastMatch):
        yield f"from {join.left.name}"
        yield f"broadcast of {join.right.name}, {join.type} join on {join.text}"
        yield _describe_broadcast(join.matching)
        return
    if isinstance(join.matching, ConnectedMatch):
        if join.matching.is_broadcast:
            yield f"from {join.left.name}"
            yield f"broadcast of {join.right.name}, to on_rule"
        else:
            yield f"connect {join.left.name} and {join.right.name}"
        yield f"key {', '.join(each.name for each in join.left.key)}"
        yield from describe_process_body(join.matching.body, "")
        yield from _describe_late_rows(join)
        return
    yield f"{join.type} join of {join.left.name} and {join.right.name} on {join.text}"
    if isinstance(join.matching, WindowMatch):
        yield f"window {describe_window(join.matching.window)}"
    elif said := describe_matching(join):
        yield said
    yield from _describe_late_rows(join)


def _describe_late_rows(join: nodes.Join) -> Iterator[str]:
    for side, to in zip((join.left, join.right), join.late_to, strict=True):
        if to:
            yield f"late rows of {side.name} to {to}"


def describe_matching(join: nodes.Join) -> str:
    """Describe which rows with equal keys match; "" if all do."""
    match join.matching:
        case IntervalMatch(least_us=None):
            return "rows are stored forever"
        case IntervalMatch(least_us=int(least), most_us=int(most), uses_processing_time=processing):
            clock = " by the wall clock" if processing else ""
            sides = f"{join.right.name} from {format_signed_duration(least)} to {format_signed_duration(most)} later"
            return f"{sides}{clock}"
        case AsOfMatch(ttl_us):
            limit = f", none older than {format_microseconds(ttl_us)}" if ttl_us is not None else ""
            return f"as of: the latest {join.right.name} that is not later{limit}"
        case ChangelogMatch(ttl):
            expiry = ""
            if ttl is not None:
                clock = " by the wall clock" if ttl.uses_processing_time else ""
                expiry = f", ttl {format_microseconds(ttl.after_us)}{clock}"
            return f"current rows of both inputs{expiry}"
    return ""


def _describe_broadcast(matching: BroadcastMatch) -> str:
    """Describe the rows of the right input that a row is matched with."""
    which = "all"
    if matching.key is not None:
        names = ", ".join(each.text or each.name for each in matching.key)
        which = f"the latest of each {names}" if names else "the latest"
    if matching.ttl_us is not None:
        which += f", for {format_microseconds(matching.ttl_us)}"
    return f"{which}, {'at the time of the row' if matching.uses_event_time else 'by arrival'}"


def format_signed_duration(us: int) -> str:
    """Return a duration in microseconds in its largest unit, with a minus if it is negative."""
    return f"-{format_microseconds(-us)}" if us < 0 else format_microseconds(us)
