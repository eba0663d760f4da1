"""The description of a lookup in words."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.plan.nodes import Found, Lookup
from headrace.core.plan.wording import said, us_said

FATES = {"null": "null", "drop": "dropped", "fail": "a failure"}


def lookup_lines(lookup: Lookup) -> Iterator[str]:
    """Yield the key, the added columns, the calls and the cache of a lookup, one per line."""
    yield f"lookup in {lookup.connector} ({said(lookup.options)})"
    on = (f"{column.name} = {column.text or column.name}" for column in lookup.on)
    yield f"lookup on {', '.join(on)}, adds {', '.join(map(_added, lookup.add))}"
    yield f"rows without a match: {FATES.get(lookup.on_miss, f'to {lookup.missed}')}"
    yield f"calls: {lookup.concurrency} at a time, {_patience(lookup)}, {_order(lookup)}"
    if lookup.cache_rows:
        yield f"caches {lookup.cache_rows} keys for {us_said(lookup.cache_us)}"


def _added(found: Found) -> str:
    name, type = found.field.name, found.field.type
    return f"{name} {type}" if name == found.column else f"{name} {type} from {found.column}"


def _patience(lookup: Lookup) -> str:
    retries = f"{lookup.retries} retries" if lookup.retries != 1 else "1 retry"
    return f"{us_said(lookup.timeout_us)} each, {retries}"


def _order(lookup: Lookup) -> str:
    return "in order" if lookup.ordered else "rows are emitted as calls return"
