"""The clauses of a step as operations: each reads the output columns of the one before it.

The order is that of the document: explode, where, map, with, lookup, the keyed operation, select,
drop, route.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from headrace.core.expressions.typed import Column, Span, Typed
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.text import Text
from headrace.core.plan.columns import Known, Report, condition, known_of, output
from headrace.core.plan.keyed import KeyedClauses, Rows
from headrace.core.plan.lookups import LookupClause
from headrace.core.plan.nodes import Computed, Explode, Filter, Map, Operation, Project, Route
from headrace.core.plan.windowing import still_timed
from headrace.core.plan.wording import value_said
from headrace.core.problems import did_you_mean
from headrace.core.types import TIMESTAMP, Array, Field

NOWHERE = Span(0, 0)


class Operations:
    """The builder of one step's operations; `known` has the columns of the rows so far."""

    def __init__(
        self,
        step: Step,
        known: Known,
        timed: bool,
        report: Report,
        begins: tuple[Operation, ...] = (),
    ) -> None:
        """Start with the operation that combines the inputs, `begins`, if they are not a union."""
        self.step = step
        self._begins = begins
        self.known = known
        self.timed = timed
        """Whether the rows have an event time."""
        self.report = report

    def build(self) -> tuple[Operation, ...]:
        """Return the valid operations, and report the others."""
        before = (*self._begins, *self._explode(), *self._where(), *self._map(), *self._with())
        keyed = self._keyed(before)
        return (
            *(*before, *self._lookup(), *keyed),
            *(*self._select(), *self._drop(), *self._route()),
        )

    def _lookup(self) -> Iterator[Operation]:
        if self.step.lookup is None:
            return
        lookup = LookupClause(self.step.lookup, self.known, self.report)
        yield from lookup.build()
        self.known = lookup.known

    def _keyed(self, before: tuple[Operation, ...]) -> Iterator[Operation]:
        clauses = KeyedClauses(self.step, Rows(self.known, self.timed, before), self.report)
        operation = clauses.build()
        if operation is not None:
            yield operation
            self.known = clauses.known
            self.timed = still_timed(operation, self.timed)

    def _explode(self) -> Iterator[Operation]:
        explode = self.step.explode
        if explode is None:
            return
        name, array = str(explode.name), self._column(explode.array)
        if name in self.known.schema and name != explode.array:
            hint = "give the elements another name"
            self.report.add(f'there is a column "{name}" already', explode.name.locate(), hint)
        columns = {field.name: as_it_is(field) for field in self.known.schema}
        element: Typed | None = None
        if array and not isinstance(array.type, Array):
            message = f'wanted an array to explode, got "{explode.array}" of type {array.type}'
            self.report.add(message, explode.array.locate())
        elif array and isinstance(array.type, Array):
            element = Column(array.type.element, True, NOWHERE, name)
            yield Explode(name, array, explode.outer)
        self._becomes([*((n, c) for n, c in columns.items() if n != name), (name, element)])

    def _where(self) -> Iterator[Operation]:
        text = self.step.where
        if text is None:
            return
        typed = condition(text, self.known, self.report)
        if typed:
            yield Filter(typed, text.shown)

    def _map(self) -> Iterator[Operation]:
        written = self.step.map
        if written is None:
            return
        schema = written.returns.schema
        at = written.event_time
        if at is not None:
            field = schema.get(at)
            if field is None:
                hint = did_you_mean(at, schema.names) or f"it returns {', '.join(schema.names)}"
                self.report.add(f'event_time: map returns no column "{at}"', at.locate(), hint)
            elif field.type != TIMESTAMP:
                message = f'event_time: wanted a timestamp, got "{at}" of type {field.type}'
                self.report.add(message, at.locate())
        function = written.python
        yield Map(function.file, function.name, written.mode, schema, at and str(at))
        self.known = Known(schema)

    def _with(self) -> Iterator[Operation]:
        if self.step.with_ is None:
            return
        added = {str(a.name): self._computed(a) for a in self.step.with_}
        columns: dict[str, Typed | None] = {f.name: as_it_is(f) for f in self.known.schema}
        yield from self._project("with", [*(columns | added).items()], self.step.with_)

    def _select(self) -> Iterator[Operation]:
        if self.step.select is None:
            return
        columns = [(self._plain(a), self._computed(a)) for a in self.step.select]
        names = Counter(name for name, _ in columns)
        for each, (name, _) in zip(self.step.select, columns, strict=True):
            if names[name] > 1 and each.name != name:
                hint = f"give it a name of its own: {{..., other_{name}: {each.name}}}"
                self.report.add(f'two columns would be called "{name}"', each.name.locate(), hint)
        yield from self._project("select", columns, self.step.select, replaces=True)

    def _drop(self) -> Iterator[Operation]:
        names = self.step.drop
        if names is None:
            return
        dropped = {str(name) for name in names if self._column(name)}
        left = [f for f in self.known.schema if f.name not in dropped]
        if not left and self.known.whole:
            self.report.add("drop leaves no column", self.step.keys_at["drop"].locate())
            return
        written = tuple(Assignment(name, None) for name in names)
        yield from self._project("drop", [(f.name, as_it_is(f)) for f in left], written)

    def _route(self) -> Iterator[Operation]:
        if self.step.route is None:
            return
        branches = []
        for branch in self.step.route:
            assert branch.expression is not None, "a route has conditions"
            typed = condition(branch.expression, self.known, self.report)
            if typed:
                branches.append((str(branch.name), typed, branch.expression.shown))
        yield Route(tuple(branches))

    def _plain(self, assignment: Assignment) -> str:
        """Return the output name of a column; in a list, that of `a.id` is `id`."""
        table, _, column = assignment.name.partition(".")
        of_table = assignment.expression is None and column in self.known.tables.get(table, ())
        return column if of_table else str(assignment.name)

    def _computed(self, assignment: Assignment) -> Typed | None:
        if assignment.expression is None and self.known.tables:
            return output(assignment.name, self.known, self.report)
        if assignment.expression is None:
            return self._column(assignment.name)
        return output(assignment.expression, self.known, self.report)

    def _column(self, name: Text) -> Typed | None:
        """Return an existing column by its plain name; report an unknown one."""
        field = self.known.schema.get(name)
        if field is not None:
            return as_it_is(field)
        if not self.known.may_have(name):
            self.report.add(f'unknown column "{name}"', name.locate(), self._instead(name))
        return None

    def _instead(self, name: str) -> str:
        if not name.isidentifier():
            return "a list has columns; an expression needs a name: {name: expression}"
        near = did_you_mean(name, self.known.schema.names)
        return near or f"the columns are {', '.join(self.known.schema.names)}"

    def _project(
        self,
        clause: Literal["select", "with", "drop"],
        columns: list[tuple[str, Typed | None]],
        written: tuple[Assignment, ...],
        *,
        replaces: bool = False,
    ) -> Iterator[Operation]:
        said = ", ".join(map(value_said, written))
        texts = {str(each.name): each.expression.shown for each in written if each.expression}
        made = (Computed(n, c, texts.get(n, "")) for n, c in columns if c is not None)
        yield Project(clause, tuple(made), said)
        self._becomes(columns, replaces=replaces)

    def _becomes(self, columns: list[tuple[str, Typed | None]], *, replaces: bool = False) -> None:
        """Set `known` to these columns; unknown columns stay unknown unless `replaces` is set."""
        known = known_of(columns)
        if not replaces:
            left = self.known.broken - {name for name, column in columns if column}
            tables = self.known.tables
            known = Known(known.schema, known.broken | left, self.known.open, tables)
        self.known = known


def as_it_is(field: Field) -> Column:
    """Return a column unchanged."""
    return Column(field.type, field.nullable, NOWHERE, field.name)
