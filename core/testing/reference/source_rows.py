"""The rows of a source, from its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.plan import nodes
from headrace.core.testing.reference.rows import Rows, TimedRow, Value, convert_time, evaluate
from headrace.core.types.change_columns import CHANGE
from headrace.core.types.elements import DELETE
from headrace.core.types.elements import SEQUENCE as TABLE_SEQUENCE


def read_source(
    source: nodes.Source,
    number: int,
    splits: Sequence[Sequence[Mapping[str, Value]]],
    arrivals: Sequence[Sequence[int]],
) -> Rows:
    found = []
    for split, rows in enumerate(splits):
        for at, values in enumerate(rows):
            clock_us = arrivals[split][at] if arrivals else 0
            row = TimedRow(dict(values), None, (0,), clock_us)
            if source.times:
                times = {c.name: evaluate(c.value, [row])[0] for c in source.times}
                values = {**values, **times}
                condition = source.time_condition
                passes = condition is None or evaluate(condition, [row])[0]
                if passes and source.event_time and values[source.event_time] is None:
                    continue  # a bad record
            at_time = values[source.event_time] if source.event_time else None
            time = None if at_time is None else convert_time(at_time)
            if source.table is not None:
                change = _build_change(source.table, values)
                if source.table.has_versions:
                    # The row before an update has the time of that row, not one of its own.
                    is_old = values.get(CHANGE) == "update_before"
                    if not is_old and time is None:
                        continue  # a bad record
                    time = None if is_old else time
                if change is None:
                    continue  # a bad record
                found.append(TimedRow(change, time, (time or 0, number, split, at), clock_us))
                continue
            values = {name: value for name, value in values.items() if name in source.schema}
            found.append(TimedRow(dict(values), time, (time or 0, number, split, at), clock_us))
    return sorted(found, key=lambda row: row.clock_us)


def _build_change(table: nodes.SourceTable, values: Mapping[str, Value]) -> dict[str, Value] | None:
    """Return a change of a table: its columns, and whether it deletes; None for a bad record."""
    needed = [*table.key, *([TABLE_SEQUENCE] if table.sequence else [])]
    if any(values[name] is None for name in needed):
        return None
    deletes = values.get(CHANGE) in ("delete", "update_before") or values.get(DELETE)
    shown = {n: value for n, value in values.items() if n not in nodes.CHANGE_COLUMNS}
    return {**shown, DELETE: bool(deletes)}
