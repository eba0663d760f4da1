"""Lookups, row by row, in a table that is a constant list of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.core.plan import nodes
from headrace.core.testing.reference.rows import TimedRow, Value, evaluate


def look_up_rows(
    lookup: nodes.Lookup, rows: list[TimedRow], table: Sequence[Mapping[str, Value]]
) -> tuple[list[TimedRow], list[TimedRow], list[TimedRow]]:
    """Return the output rows, the rows without a match, and those with several, which fail."""
    key = {column.name: evaluate(column.value, rows) for column in lookup.key}
    found, missed, failed = list[TimedRow](), list[TimedRow](), list[TimedRow]()
    for at, row in enumerate(rows):
        wanted = {name: values[at] for name, values in key.items()}
        matches = [each for each in table if _equals(each, wanted)]
        if len(matches) > 1:
            failed.append(row)
            continue
        known = matches[0] if matches else None
        if known is not None or lookup.on_miss == "null":
            added = {a.field.name: (known or {}).get(a.column) for a in lookup.columns}
            found.append(replace(row, values={**row.values, **added}))
        if known is None:
            missed.append(row.as_fact())
    return found, missed, failed


def _equals(row: Mapping[str, Value], wanted: dict[str, Value]) -> bool:
    return all(value is not None and row[name] == value for name, value in wanted.items())
