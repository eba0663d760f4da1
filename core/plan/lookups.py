"""The clause `lookup` as an operation: its typed key, and the columns that it adds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.typed import TypedExpression, reference_field
from headrace.core.pipeline.clauses.lookup import Lookup
from headrace.core.pipeline.fields import Assignment
from headrace.core.plan import nodes
from headrace.core.plan.columns import KnownColumns, PlanProblems, type_column
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    INTEGER_TYPES,
    STRING,
    TIMESTAMP,
    Decimal,
    Field,
    Schema,
    Type,
)

KEY_TYPES = (*INTEGER_TYPES, BOOLEAN, DATE, TIMESTAMP, STRING)
"""The types that a key may have, besides decimals: all systems agree on their equality."""


class LookupBuilder:
    """The builder of a lookup; `known` has the columns of the rows, after `build` the output's."""

    def __init__(self, clause: Lookup, known: KnownColumns, report: PlanProblems) -> None:
        self.clause = clause
        self.known_columns = known
        self.report = report

    def build(self) -> Iterator[nodes.Lookup]:
        """Yield the operation, if it is valid, and report its errors."""
        on = [self._type_key(each) for each in self.clause.on]
        add = self._build_added_columns()
        sound = [key for key in on if key is not None]
        if len(sound) == len(on):
            lookup = self._build_operation(tuple(sound), add)
            self._check_connector(lookup)
            yield lookup

    def _build_operation(
        self, on: tuple[nodes.ComputedColumn, ...], add: tuple[nodes.LookupColumn, ...]
    ) -> nodes.Lookup:
        clause, cache = self.clause, self.clause.cache
        return nodes.Lookup(
            connector=clause.connector.name,
            options=clause.options,
            key=on,
            columns=add,
            on_miss=clause.on_miss.action,
            miss_stream=str(clause.on_miss.to or ""),
            timeout_us=_to_microseconds(clause.timeout),
            retries=clause.retries,
            concurrency=clause.concurrency,
            keeps_order=clause.ordered,
            cache_rows=cache.rows if cache else 0,
            cache_us=_to_microseconds(cache.ttl) if cache else 0,
            name=clause.name,
        )

    def _type_key(self, assignment: Assignment) -> nodes.ComputedColumn | None:
        text = assignment.expression
        value = (
            self._find_column(assignment)
            if text is None
            else type_column(text, self.known_columns, self.report)
        )
        if value is None:
            return None
        at = assignment.name if text is None else text
        if value.type not in KEY_TYPES and not isinstance(value.type, Decimal):
            message = f'on: "{assignment.name}" is {value.type}, which cannot be a key'
            self.report.add(message, at.locate(), _suggest_cast(value.type, at))
            return None
        return nodes.ComputedColumn(
            str(assignment.name), value, "" if text is None else text.printable
        )

    def _find_column(self, assignment: Assignment) -> TypedExpression | None:
        name = assignment.name
        field = self.known_columns.schema.get(name)
        if field is not None:
            return reference_field(field)
        if not self.known_columns.may_have(name):
            names = self.known_columns.schema.names
            hint = suggest_name(name, names) or f"the columns are {', '.join(names)}"
            self.report.add(f'unknown column "{name}"', name.locate(), hint)
        return None

    def _build_added_columns(self) -> tuple[nodes.LookupColumn, ...]:
        """Return the added columns, and add them to `known`."""
        nulls = self.clause.on_miss.action == "null"
        columns: list[nodes.LookupColumn] = []
        for each in self.clause.add:
            if each.name in self.known_columns.schema:
                hint = f"give it another name: add: {{new_name: {{column: {each.column}}}}}"
                message = f'there is a column "{each.name}" already'
                self.report.add(message, each.name.locate(), hint)
                continue
            field = Field(str(each.name), each.type, each.nullable)
            columns.append(nodes.LookupColumn(field, str(each.column)))
        added = (Field(f.field.name, f.field.type, nulls or f.field.nullable) for f in columns)
        schema = Schema((*self.known_columns.schema, *added))
        self.known_columns = KnownColumns(
            schema, self.known_columns.broken_names, self.known_columns.is_open
        )
        return tuple(columns)

    def _check_connector(self, lookup: nodes.Lookup) -> None:
        """Report the columns that the connector does not support."""
        side = self.clause.connector.lookup
        assert side is not None, lookup.connector
        columns = Schema(tuple(_get_table_field(found) for found in lookup.columns))
        for misfit in side.find_mismatches(lookup.options, lookup.key_schema, columns):
            at = misfit.text or self.clause.keys_at[lookup.connector]
            self.report.add(misfit.message, at.locate(), misfit.hint)


def _get_table_field(found: nodes.LookupColumn) -> Field:
    """Return the column under its name in the table."""
    return Field(found.column, found.field.type, found.field.nullable)


def _suggest_cast(type: Type, written: str) -> str:
    if type == BINARY:
        return f"convert it to text: hex({written})"
    return f"cast it, as in cast({written} as bigint): one number may have several texts"


def _to_microseconds(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
