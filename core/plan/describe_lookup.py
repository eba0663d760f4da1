"""The description of a lookup in words."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.plan.nodes import Lookup, LookupColumn
from headrace.core.plan.wording import format_microseconds, format_options

MISS_ACTIONS = {"null": "null", "drop": "dropped", "fail": "a failure"}


def describe_lookup(lookup: Lookup) -> Iterator[str]:
    """Yield the key, the added columns, the calls and the cache of a lookup, one per line."""
    yield f"lookup in {lookup.connector} ({format_options(lookup.options)})"
    on = (f"{column.name} = {column.text or column.name}" for column in lookup.key)
    yield f"lookup on {', '.join(on)}, adds {', '.join(map(_format_added_column, lookup.columns))}"
    yield f"rows without a match: {MISS_ACTIONS.get(lookup.on_miss, f'to {lookup.miss_stream}')}"
    yield f"calls: {lookup.concurrency} at a time, {_format_timeout(lookup)}, {_format_order(lookup)}"
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
