"""Descriptions of joins, of classes with two inputs and of lookups, one line a clause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.core.plan import nodes
from headrace.core.plan.formatting import (
    format_microseconds,
    format_options,
    format_signed_duration,
)
from headrace.core.plan.nodes import (
    Lookup,
    LookupColumn,
    ProcessBody,
)
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    RuleMatch,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.window_descriptions import describe_window


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
    if isinstance(join.matching, RuleMatch):
        yield f"from {join.left.name}"
        if join.left.key:
            yield f"key {', '.join(each.name for each in join.left.key)}"
        yield f"match of the rules of {join.right.name}"
        common = join.matching.match
        columns = (f"{column.name} {column.expression.type}" for column in common.emit)
        yield from (f"returns {each}" for each in filter(None, [", ".join(columns)]))
        yield from describe_match_outputs(replace(common, emit=()))
        yield from _describe_late_rows(join)
        return
    yield f"{join.type} join of {join.left.name} and {join.right.name} on {join.text}"
    if isinstance(join.matching, WindowMatch):
        yield f"window {describe_window(join.matching.window)}"
    elif matching := describe_matching(join):
        yield matching
    yield from _describe_late_rows(join)


def describe_match_outputs(match: nodes.Match) -> Iterator[str]:
    """Yield what a match emits, and its limit."""
    if match.all_rows:
        yield "emit each matched row"
    elif match.emit:
        yield f"emit {', '.join(f'{column.name} = {column.text}' for column in match.emit)}"
    if match.incomplete_to is not None:
        yield f"partial matches to {match.incomplete_to}"
    yield f"at most {match.max_runs:,} runs of a key"


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
            sides = (
                f"{join.right.name} from {format_signed_duration(least)} to "
                f"{format_signed_duration(most)} later"
            )
            return f"{sides}{clock}"
        case AsOfMatch(ttl_us, sequence):
            limit = f", none older than {format_microseconds(ttl_us)}" if ttl_us is not None else ""
            order = f", at the same time by {sequence.text}" if sequence is not None else ""
            return f"as of: the latest {join.right.name} that is not later{order}{limit}"
        case TableMatch(ttl_us):
            apart = f", at most {format_microseconds(ttl_us)} apart" if ttl_us is not None else ""
            return f"rows that are there, of both inputs{apart}"
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


def describe_process_body(body: ProcessBody, late: str) -> Iterator[str]:
    """Yield the description of a user-defined class, and of its named outputs."""
    order = "event time" if body.uses_event_time else "arrival"
    yield f"process {body.file}:{body.name}, rows in the order of {order}{late}"
    for name, schema in body.outputs:
        yield f"output {name}: {', '.join(schema.names)}"


MISS_ACTIONS = {"null": "null", "drop": "dropped", "fail": "a failure"}


def describe_lookup(lookup: Lookup) -> Iterator[str]:
    """Yield the key, the added columns, the calls and the cache of a lookup, one per line."""
    yield f"lookup in {lookup.connector} ({format_options(lookup.options)})"
    on = (f"{column.name} = {column.text or column.name}" for column in lookup.key)
    yield f"lookup on {', '.join(on)}, adds {', '.join(map(_format_added_column, lookup.columns))}"
    yield f"rows without a match: {MISS_ACTIONS.get(lookup.on_miss, f'to {lookup.miss_stream}')}"
    yield (
        f"calls: {lookup.concurrency} at a time, {_format_timeout(lookup)}, {_format_order(lookup)}"
    )
    if lookup.cache_rows:
        yield f"caches {lookup.cache_rows} keys for {format_microseconds(lookup.cache_us)}"


def _format_added_column(found: LookupColumn) -> str:
    name, type = found.field.name, found.field.type
    return f"{name} {type}" if name == found.column else f"{name} {type} from {found.column}"


def _format_timeout(lookup: Lookup) -> str:
    retries = f"{lookup.retries} retries" if lookup.retries != 1 else "1 retry"
    return f"{format_microseconds(lookup.timeout_us)} each, {retries}"


def _format_order(lookup: Lookup) -> str:
    return "in order" if lookup.keeps_order else "rows are emitted as calls return"
