"""A lookup in words, for `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from headrace.core.plan.nodes import Found, Lookup
from headrace.core.plan.wording import duration_said, said

FATES = {"null": "null", "drop": "dropped", "fail": "a failure"}


def lookup_lines(lookup: Lookup) -> Iterator[str]:
    """What it asks, what it adds, and how it waits."""
    yield f"lookup in {lookup.connector} ({said(lookup.options)})"
    on = (f"{column.name} = {column.text or column.name}" for column in lookup.on)
    yield f"lookup on {', '.join(on)}, adds {', '.join(map(_added, lookup.add))}"
    yield f"rows without a match: {FATES.get(lookup.on_miss, f'to {lookup.missed}')}"
    yield f"calls: {lookup.concurrency} at a time, {_patience(lookup)}, {_order(lookup)}"
    if lookup.cache_rows:
        yield f"remembers {lookup.cache_rows} keys for {_length(lookup.cache_us)}"


def _added(found: Found) -> str:
    name, type = found.field.name, found.field.type
    return f"{name} {type}" if name == found.column else f"{name} {type} from {found.column}"


def _patience(lookup: Lookup) -> str:
    again = f"{lookup.retries} retries" if lookup.retries != 1 else "1 retry"
    return f"{_length(lookup.timeout_us)} each, {again}"


def _order(lookup: Lookup) -> str:
    return "in order" if lookup.ordered else "rows go on as they are answered"


def _length(us: int) -> str:
    return duration_said(timedelta(microseconds=us))
