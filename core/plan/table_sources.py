"""Sources that are tables: the key and the sequence of their changes, and the step after them.

The step `NAME@table` passes on the newest change of each key. It stores the key only where changes
may arrive in another order than they were made: with a `sequence`, or if the changes of a key may
be in several splits.
"""

from __future__ import annotations

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.typed import ProcessingTime, find_columns, reference_field, walk
from headrace.core.pipeline.clauses.keyed import Ttl
from headrace.core.pipeline.model import Source, TableChanges
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.columns import (
    KnownColumns,
    PlanProblems,
    suggest_single_value,
    type_column,
)
from headrace.core.plan.nodes.windows import Ttl as PlanTtl
from headrace.core.plan.window_clauses import to_microseconds
from headrace.core.types.data_types import BOOLEAN, Interval, is_nested
from headrace.core.types.elements import SEQUENCE
from headrace.core.types.row_order import SEQUENCE_TYPES

CHANGE_HINT = "it says what a record does: see docs/tables.md"


def build_source_table(
    source: Source, rows: KnownColumns, known: KnownColumns, report: PlanProblems
) -> nodes.SourceTable | None:
    """Return the table whose changes a source reads, and report errors in it.

    `rows` are the columns of its rows, `known` those of its records.
    """
    table = source.table
    if table is None:
        return None
    _check_change_columns(source, known, report)
    for name in table.key:
        _check_key_column(name, rows, report)
    _check_ttl(source, table, report)
    sequence = None if table.sequence is None else _type_sequence(table.sequence, known, report)
    key = tuple(str(name) for name in table.key if name in rows.schema)
    added = {name for name in known.schema.names if name not in rows.schema}
    return nodes.SourceTable(key, sequence, frozenset({*nodes.CHANGE_COLUMNS, *added}))


def _check_change_columns(source: Source, known: KnownColumns, report: PlanProblems) -> None:
    """Check the types of the columns that say what a record does, if they are declared."""
    for name, type in nodes.CHANGE_COLUMNS.items():
        field = known.schema.get(name)
        if field is not None and field.type != type:
            message = f'table: the column "{name}" is {type} there, got {field.type}'
            report.add(message, source.keys_at["table"].locate(), CHANGE_HINT)


def _check_key_column(name: Text, known: KnownColumns, report: PlanProblems) -> None:
    field = known.schema.get(name)
    if name in nodes.CHANGE_COLUMNS:
        report.add(f'table.key: "{name}" is no column of a row', name.locate(), CHANGE_HINT)
    elif field is not None and is_nested(field.type):
        message = f"table.key: wanted a column of a single value, got {field.type}"
        report.add(message, name.locate(), suggest_single_value(field.type))
    elif field is None and not known.may_have(name):
        near = suggest_name(name, known.schema.names)
        hint = near or f"the columns are {', '.join(known.schema.names)}"
        report.add(f'table.key: unknown column "{name}"', name.locate(), hint)


def _check_ttl(source: Source, table: TableChanges, report: PlanProblems) -> None:
    if table.ttl is None:
        return
    place = source.keys_at["table"].locate()
    if table.sequence is None:
        message = 'table: "ttl" needs "sequence"'
        report.add(message, place, "it is the time for which deletions are remembered")
    elif table.ttl.time == "event" and source.event_time is None:
        message = "table: ttl goes by event time, but the source has none"
        hint = "set event_time, or ttl: {after: ..., time: processing}"
        report.add(message, place, hint)


def _type_sequence(
    text: Text, known: KnownColumns, report: PlanProblems
) -> nodes.ComputedColumn | None:
    """Return the sequence of a change; None if it is invalid, which is reported."""
    typed = type_column(text, known, report)
    if typed is None:
        return None
    if is_nested(typed.type) or typed.type == BOOLEAN or isinstance(typed.type, Interval):
        message = f"table.sequence: wanted a number, a time or text, got {typed.type}"
        report.add(message, text.locate(), suggest_single_value(typed.type))
        return None
    if any(isinstance(node, ProcessingTime) for node in walk(typed)):
        message = "table.sequence: the time at which a row is read does not order changes"
        report.add(message, text.locate(), "use a column that the writer sets")
        return None
    if not find_columns(typed):
        message = "table.sequence: the same value for all rows does not order changes"
        report.add(message, text.locate(), "use a column, such as that of event_time")
        return None
    return nodes.ComputedColumn(SEQUENCE, typed, text.printable)


def build_table_step(
    source: nodes.Source, written: TableChanges, *, keeps_order: bool, orders_rows: bool
) -> nodes.Step:
    """Return the step that passes on the newest changes of a source.

    `keeps_order`: all changes of a key are in one split, in the order in which they count.
    `orders_rows`: the rows have the order of their sequence, where its type allows it.
    """
    table, rows = source.table, source.outputs[0]
    assert table is not None, "it is a table"
    fields = {field.name: field for field in rows.schema}
    key = tuple(nodes.ComputedColumn(each, reference_field(fields[each])) for each in table.key)
    if table.sequence is not None:
        orders_rows = orders_rows and table.sequence.value.type in SEQUENCE_TYPES
        order = nodes.ChangeOrder("sequence", table.sequence, orders_rows)
    else:
        order = nodes.ChangeOrder("arrival" if keeps_order else "place")
    operation = nodes.Dedup(key, "last", _build_ttl(written.ttl), changes=order)
    name = f"{source.name}@table"
    out = nodes.Stream(name, rows.schema, rows.kind, rows.has_event_time)
    return nodes.Step(
        name, (source.name,), (operation,), "fail", (out,), source.parallelism, slot=source.slot
    )


def _build_ttl(written: Ttl | None) -> PlanTtl | None:
    if written is None:
        return None
    return PlanTtl(to_microseconds(written.after), written.time == "processing")
