"""The rows of a source, from its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headrace.core.plan import nodes
from headrace.core.testing.reference.rows import Rows, TimedRow, Value, convert_time, evaluate
from headrace.core.types.change_columns import CHANGE
from headrace.core.types.elements import DELETE
from headrace.core.types.elements import SEQUENCE as TABLE_SEQUENCE


def read_source(
    source: nodes.Source,
    number: int,
    splits: Sequence[Sequence[Mapping[str, Value]]],
    arrivals: Sequence[Sequence[int]] = (),
) -> Rows:
    """Return the rows of the source that is the part of this number, without bad records."""
    found: Rows = []
    for split, records in enumerate(splits):
        clocks = arrivals[split] if arrivals else [0] * len(records)
        rows = [
            TimedRow(dict(values), None, (0, number, split, at), clock_us)
            for at, (values, clock_us) in enumerate(zip(records, clocks, strict=True))
        ]
        found += _set_times(source, rows)
    return sorted(found, key=lambda row: row.clock_us)


def _set_times(source: nodes.Source, rows: Rows) -> Iterator[TimedRow]:
    """Yield the rows of a split with their event times, without bad records."""
    times = {column.name: evaluate(column.value, rows) for column in source.times}
    condition = source.time_condition
    has_time = [True] * len(rows) if condition is None else evaluate(condition, rows)
    for at, row in enumerate(rows):
        values = {**row.values, **{name: computed[at] for name, computed in times.items()}}
        event_time = values[source.event_time] if source.event_time else None
        if source.event_time and source.times and has_time[at] and event_time is None:
            continue
        time = None if event_time is None else convert_time(event_time)
        if source.table is None:
            shown = {name: value for name, value in values.items() if name in source.schema}
            yield TimedRow(shown, time, (time or 0, *row.order[1:]), row.clock_us)
            continue
        change = _build_change(source.table, values)
        # The row before an update has the time of that row, not one of its own.
        is_old = source.table.has_versions and values.get(CHANGE) == "update_before"
        if change is None or (source.table.has_versions and not is_old and time is None):
            continue
        time = None if is_old else time
        yield TimedRow(change, time, (time or 0, *row.order[1:]), row.clock_us)


def _build_change(table: nodes.SourceTable, values: Mapping[str, Value]) -> dict[str, Value] | None:
    """Return a change of a table: its columns, and whether it deletes; None for a bad record."""
    needed = [*table.key, *([TABLE_SEQUENCE] if table.sequence else [])]
    if any(values[name] is None for name in needed):
        return None
    deletes = values.get(CHANGE) in ("delete", "update_before") or values.get(DELETE)
    shown = {n: value for n, value in values.items() if n not in nodes.CHANGE_COLUMNS}
    return {**shown, DELETE: bool(deletes)}
