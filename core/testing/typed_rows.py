"""Rows of tests as written, with the types of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import TypeAlias

from headrace.core.errors.problems import Location, suggest_name
from headrace.core.pipeline.pipeline_tests.model import GivenRow, StreamExpectation
from headrace.core.pipeline.text import NOTHING, Text
from headrace.core.plan import nodes
from headrace.core.testing.written_values import ValueConverter, WrongValue
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

Row: TypeAlias = "dict[str, object]"


def get_lookup(step: nodes.PlanPart) -> nodes.Lookup | None:
    """Return the lookup of a step, if it has one."""
    operations = step.operations if isinstance(step, nodes.Step) else ()
    return next((each for each in operations if isinstance(each, nodes.Lookup)), None)


def name_lookup_table(step: nodes.PlanPart) -> str:
    """Return the name by which tests give the table of a lookup: that in a query, or the step's."""
    lookup = get_lookup(step)
    return step.name if lookup is None else lookup.name or step.name


def list_record_columns(source: nodes.Source) -> Schema:
    """Return the columns of a source's records; those of a table say what they do to it.

    Columns that the plan does not read may be null, and those of a deletion outside of its key.
    """
    required = source.decoded_columns if source.table is None else source.table.key
    fields = [Field(f.name, f.type, f.nullable or f.name not in required) for f in source.schema]
    if source.table is not None:
        fields += (Field(n, t) for n, t in nodes.CHANGE_COLUMNS.items() if n not in source.schema)
    return Schema(tuple(fields))


def list_table_columns(lookup: nodes.Lookup) -> Schema:
    """Return the columns of a lookup table that a step needs."""
    keys = lookup.key_schema
    added = {
        c.column: Field(c.column, c.field.type, c.field.nullable)
        for c in lookup.columns
        if c.column not in keys
    }
    return Schema((*keys, *added.values()))


@dataclass(frozen=True, slots=True)
class RowTyper:
    """Types the rows of one test, whose times without a day are of `day`; reports mistakes."""

    day: date | None
    report: Callable[[str, Location, str], None]

    def type_expected(
        self, rows: Iterable[GivenRow], schema: Schema, written: StreamExpectation
    ) -> tuple[Row, ...]:
        """Return expected rows; unless a part of the columns is compared, all are written."""
        rows = tuple(rows)
        for row in rows:
            missing = [n for n in schema.names if n not in row.values and n != DELETE]
            if missing and not written.is_subset:
                hint = f"write {missing[0]}: ... (null is a value too), or add match: subset"
                names = ", ".join(f'"{name}"' for name in missing)
                self.report(f"the expected row has no {names}", row.location, hint)
        return self.type_rows(rows, schema, is_whole=False)

    def type_rows(
        self, rows: Iterable[GivenRow], schema: Schema, *, is_whole: bool = True
    ) -> tuple[Row, ...]:
        return tuple(self._type_row(row, schema, is_whole=is_whole) for row in rows)

    def _type_row(self, row: GivenRow, schema: Schema, *, is_whole: bool) -> Row:
        """Return the values of a row; of a whole row also those that are not written: null."""
        typed: Row = {}
        for name, value in row.values.items():
            column = schema.get(name)
            if column is None:
                hint = suggest_name(name, schema.names)
                hint = hint or f"the columns are {', '.join(schema.names)}"
                self.report(f'there is no column "{name}"', name.locate(), hint)
                continue
            try:
                typed[column.name] = ValueConverter(self.day).convert(value, column.type)
            except WrongValue as wrong:
                place = (wrong.text or _find_text(value) or name).locate()
                self.report(f"{name}: {wrong.message}", place, wrong.hint)
        if is_whole:
            self._check_nulls(row, schema)
            return dict.fromkeys(schema.names) | typed
        return typed

    def _check_nulls(self, row: GivenRow, schema: Schema) -> None:
        """Report the columns of a row that may not be null, and are."""
        written = {str(name) for name, value in row.values.items() if value is not NOTHING}
        missing = [f'"{f.name}"' for f in schema if not f.nullable and f.name not in written]
        if missing:
            message = f"the row has no value of {', '.join(missing)}, which cannot be null"
            self.report(message, row.location, "")


def _find_text(value: object) -> Text | None:
    """Return the first text inside of a value."""
    match value:
        case Text():
            return value
        case dict():
            return next(iter(value), None)
        case list():
            return next(filter(None, map(_find_text, value)), None)
    return None
