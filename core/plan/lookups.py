"""The clause `lookup` as an operation: its typed key, and the columns that it adds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from headrace.core.expressions.typed import Column, Span, Typed
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.lookup import Lookup
from headrace.core.plan import nodes
from headrace.core.plan.columns import Known, Report, output
from headrace.core.problems import did_you_mean
from headrace.core.types import (
    BINARY,
    BOOLEAN,
    DATE,
    INTEGERS,
    STRING,
    TIMESTAMP,
    Decimal,
    Field,
    Schema,
    Type,
)

KEYS = (*INTEGERS, BOOLEAN, DATE, TIMESTAMP, STRING)
"""The types that a key may have, besides decimals: all systems agree on their equality."""


class LookupClause:
    """The builder of a lookup; `known` has the columns of the rows, after `build` the output's."""

    def __init__(self, clause: Lookup, known: Known, report: Report) -> None:
        self.clause = clause
        self.known = known
        self.report = report

    def build(self) -> Iterator[nodes.Lookup]:
        """Yield the operation, if it is valid, and report its errors."""
        on = [self._key(each) for each in self.clause.on]
        add = self._added()
        sound = [key for key in on if key is not None]
        if len(sound) == len(on):
            lookup = self._operation(tuple(sound), add)
            self._fits(lookup)
            yield lookup

    def _operation(
        self, on: tuple[nodes.Computed, ...], add: tuple[nodes.Found, ...]
    ) -> nodes.Lookup:
        clause, cache = self.clause, self.clause.cache
        return nodes.Lookup(
            connector=clause.connector.name,
            options=clause.options,
            on=on,
            add=add,
            on_miss=clause.on_miss.action,
            missed=str(clause.on_miss.to or ""),
            timeout_us=_us(clause.timeout),
            retries=clause.retries,
            concurrency=clause.concurrency,
            ordered=clause.ordered,
            cache_rows=cache.rows if cache else 0,
            cache_us=_us(cache.ttl) if cache else 0,
        )

    def _key(self, assignment: Assignment) -> nodes.Computed | None:
        text = assignment.expression
        value = self._column(assignment) if text is None else output(text, self.known, self.report)
        if value is None:
            return None
        at = assignment.name if text is None else text
        if value.type not in KEYS and not isinstance(value.type, Decimal):
            message = f'on: "{assignment.name}" is {value.type}, which cannot be a key'
            self.report.add(message, at.locate(), _instead(value.type, at))
            return None
        return nodes.Computed(str(assignment.name), value, "" if text is None else text.shown)

    def _column(self, assignment: Assignment) -> Typed | None:
        name = assignment.name
        field = self.known.schema.get(name)
        if field is not None:
            return Column(field.type, field.nullable, Span(0, 0), field.name)
        if not self.known.may_have(name):
            names = self.known.schema.names
            hint = did_you_mean(name, names) or f"the columns are {', '.join(names)}"
            self.report.add(f'unknown column "{name}"', name.locate(), hint)
        return None

    def _added(self) -> tuple[nodes.Found, ...]:
        """Return the added columns, and add them to `known`."""
        nulls = self.clause.on_miss.action == "null"
        found: list[nodes.Found] = []
        for each in self.clause.add:
            if each.name in self.known.schema:
                hint = f"give it another name: add: {{new_name: {{column: {each.column}}}}}"
                message = f'there is a column "{each.name}" already'
                self.report.add(message, each.name.locate(), hint)
                continue
            field = Field(str(each.name), each.type, each.nullable)
            found.append(nodes.Found(field, str(each.column)))
        added = (Field(f.field.name, f.field.type, nulls or f.field.nullable) for f in found)
        schema = Schema((*self.known.schema, *added))
        self.known = Known(schema, self.known.broken, self.known.open)
        return tuple(found)

    def _fits(self, lookup: nodes.Lookup) -> None:
        """Report the columns that the connector does not support."""
        side = self.clause.connector.lookup
        assert side is not None, lookup.connector
        columns = Schema(tuple(_renamed(found) for found in lookup.add))
        for misfit in side.fits(lookup.options, lookup.keys, columns):
            at = misfit.at or self.clause.keys_at[lookup.connector]
            self.report.add(misfit.message, at.locate(), misfit.hint)


def _renamed(found: nodes.Found) -> Field:
    """Return the column under its name in the table."""
    return Field(found.column, found.field.type, found.field.nullable)


def _instead(type: Type, written: str) -> str:
    if type == BINARY:
        return f"convert it to text: hex({written})"
    return f"cast it, as in cast({written} as bigint): one number may have several texts"


def _us(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
