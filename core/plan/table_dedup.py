"""The `dedup` of rows that may be removed: the first row by event time, of those that are there.

Which row of a key is the first or the last is a ranking of rows, as in `top`, so these operations
are made of that. Rows with equal times are ranked by their values: the order in which changes
arrive means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.expressions.typed import reference_field
from headrace.core.plan.changelog import ChangelogNotSupported, check_own_times, describe_kind
from headrace.core.plan.nodes import (
    ComputedColumn,
    Dedup,
    Operation,
    Project,
    Ranking,
    Retract,
    Top,
)
from headrace.core.plan.row_expressions import EVENT_TIME_REFERENCE
from headrace.core.types.data_types import TIMESTAMP, Field, is_nested, quote_name


def build_table_dedup(dedup: Dedup, kind: Retract) -> tuple[Operation, ...]:
    """Return the operations of a dedup over such rows. Raises ChangelogNotSupported."""
    described = describe_kind(kind)
    if not dedup.uses_event_time:
        message = f"dedup by arrival does not take {described}"
        hint = "add order: event_time, as changes arrive in any order"
        raise ChangelogNotSupported(message, hint, "dedup")
    if dedup.ttl is not None or dedup.late_to is not None:
        clause = "late_to" if dedup.ttl is None else "ttl"
        why = "no row is late" if dedup.ttl is None else "a row stays until a change deletes it"
        message = f"dedup: {clause} does not go with {described}: {why}"
        raise ChangelogNotSupported(message, "leave it out", "dedup")
    check_own_times(kind, "dedup")
    time = "event_time"
    while time in dedup.row:
        time += "_"
    kept = [ComputedColumn(field.name, reference_field(field)) for field in dedup.row]
    timed = ComputedColumn(time, EVENT_TIME_REFERENCE)
    top = Top(
        dedup.key,
        None,
        1,
        tuple(_rank_by_time(dedup, time)),
        time_column=time,
    )
    return (
        Project("with", (*kept, timed), f"{time} = event time"),
        top,
        Project("drop", tuple(kept), time),
    )


def _rank_by_time(dedup: Dedup, time: str) -> Iterator[Ranking]:
    """Yield the rankings: by event time, then by the values of a row."""
    latest = dedup.keep == "last"
    for field in (Field(time, TIMESTAMP), *dedup.row):
        if not is_nested(field.type):
            descending = latest and field.name == time
            text = f"{quote_name(field.name)} {'desc' if descending else 'asc'}"
            yield Ranking(reference_field(field), descending, descending, text)
