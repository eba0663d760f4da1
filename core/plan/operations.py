"""The clauses of a step as operations: each reads the output columns of the one before it.

The order is that of the document: explode, where, map, with, lookup, the keyed operation, extend,
select, drop, route.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.typed import TypedExpression, reference_field
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.error_context import SELECT_ALL_HINT
from headrace.core.plan.columns import (
    KnownColumns,
    PlanProblems,
    add_change_column,
    make_known_columns,
    type_column,
    type_condition,
)
from headrace.core.plan.explodes import build_explode
from headrace.core.plan.formatting import format_value
from headrace.core.plan.keyed_operations import KeyedInput, KeyedOperationBuilder
from headrace.core.plan.lookups import LookupBuilder
from headrace.core.plan.nodes import (
    ChangeColumn,
    ComputedColumn,
    Filter,
    Map,
    Match,
    Operation,
    Process,
    Project,
    Route,
)
from headrace.core.plan.window_clauses import keeps_event_time
from headrace.core.types.data_types import TIMESTAMP


class OperationsBuilder:
    """The builder of one step's operations; `known` has the columns of the rows so far."""

    def __init__(
        self,
        step: Step,
        known: KnownColumns,
        timed: bool,
        report: PlanProblems,
        begins: tuple[Operation, ...] = (),
    ) -> None:
        """Start with the operation that combines the inputs, `begins`, if they are not a union."""
        self.step = step
        self._input_operations = begins
        self.known_columns = known
        self.has_event_time = timed
        """Whether the rows have an event time."""
        self.report = report

    def build(self) -> tuple[Operation, ...]:
        """Return the valid operations, and report the others."""
        before = (
            *self._input_operations,
            *self._build_explode(),
            *self._build_filter(),
            *self._build_map(),
            *self._build_added("with", self.step.with_),
        )
        keyed = self._build_keyed(before)
        return (
            *(*before, *self._build_lookup(), *keyed),
            *(
                *self._build_added("extend", self.step.extend),
                *self._build_select(),
                *self._build_drop(),
                *self._build_route(),
            ),
        )

    def _build_lookup(self) -> Iterator[Operation]:
        if self.step.lookup is None:
            return
        has_row_place = self.known_columns.has_row_place
        # The key is computed for requests, and not for each row.
        known = replace(self.known_columns, has_row_place=False)
        lookup = LookupBuilder(self.step.lookup, known, self.report)
        yield from lookup.build()
        self.known_columns = replace(lookup.known_columns, has_row_place=has_row_place)

    def _build_keyed(self, before: tuple[Operation, ...]) -> Iterator[Operation]:
        clauses = KeyedOperationBuilder(
            self.step, KeyedInput(self.known_columns, self.has_event_time, before), self.report
        )
        operation = clauses.build()
        if isinstance(operation, Process) and operation.reads_changes:
            yield from self._build_changes("process")
            operation = replace(operation, columns=self.known_columns.schema)
        if operation is not None:
            yield operation
        if self.step.match is not None and self.step.match.rules is not None:
            yield from filter(None, [clauses.build_having()])
        if operation is not None:
            if isinstance(operation, Match) and (having := clauses.build_having()):
                yield having
            self.known_columns = replace(clauses.known_columns, has_row_place=False)
            self.has_event_time = keeps_event_time(operation, self.has_event_time)

    def _build_explode(self) -> Iterator[Operation]:
        explode = self.step.explode
        if explode is None:
            return
        operation = build_explode(explode, self.known_columns, self.report)
        if operation is None:
            unknown = [str(explode.name)] if explode.name else []
            self._set_columns([*self._list_columns(unknown), *((name, None) for name in unknown)])
            if not unknown:
                self.known_columns = replace(self.known_columns, is_open=True)
            return
        yield operation
        added = [(f.name, reference_field(f)) for f in operation.added_columns]
        self._set_columns([*self._list_columns(name for name, _ in added), *added])

    def _list_columns(self, without: Iterable[str]) -> list[tuple[str, TypedExpression | None]]:
        """Return the columns so far without those of some names."""
        left_out = set(without)
        fields = (field for field in self.known_columns.schema if field.name not in left_out)
        return [(field.name, reference_field(field)) for field in fields]

    def _build_filter(self) -> Iterator[Operation]:
        text = self.step.where
        if text is None:
            return
        typed = type_condition(text, self.known_columns, self.report)
        if typed:
            yield Filter(typed, text.printable)

    def _build_map(self) -> Iterator[Operation]:
        written = self.step.map
        if written is None:
            return
        if written.changes:
            yield from self._build_changes("map")
        schema = written.returns.schema
        at = written.event_time
        if at is not None:
            field = schema.get(at)
            if field is None:
                hint = suggest_name(at, schema.names) or f"it returns {', '.join(schema.names)}"
                self.report.add(f'event_time: map returns no column "{at}"', at.locate(), hint)
            elif field.type != TIMESTAMP:
                message = f'event_time: wanted a timestamp, got "{at}" of type {field.type}'
                self.report.add(message, at.locate())
        function = written.python
        yield Map(function.file, function.name, written.mode, schema, at and str(at))
        # A function of batches may return other rows than it gets.
        has_row_place = self.known_columns.has_row_place and written.mode == "row"
        self.known_columns = KnownColumns(schema, has_row_place=has_row_place)

    def _build_changes(self, clause: str) -> Iterator[Operation]:
        """Build the operation that makes facts of changes."""
        self.known_columns = add_change_column(
            self.known_columns, self.step.keys_at[clause].locate(), self.report
        )
        yield ChangeColumn()

    def _build_added(
        self, clause: Literal["with", "extend"], assignments: tuple[Assignment, ...] | None
    ) -> Iterator[Operation]:
        """Build the projection that adds columns."""
        if assignments is None:
            return
        added = {str(a.name): self._type_assignment(a) for a in assignments}
        columns: dict[str, TypedExpression | None] = {
            f.name: reference_field(f) for f in self.known_columns.schema
        }
        yield from self._build_projection(clause, [*(columns | added).items()], assignments)

    def _build_select(self) -> Iterator[Operation]:
        if self.step.select is None:
            return
        columns = [(self._get_output_name(a), self._type_assignment(a)) for a in self.step.select]
        names = Counter(name for name, _ in columns)
        for each, (name, _) in zip(self.step.select, columns, strict=True):
            if names[name] > 1 and each.name != name:
                hint = f"give it a name of its own: {{..., other_{name}: {each.name}}}"
                self.report.add(f'two columns would be called "{name}"', each.name.locate(), hint)
        yield from self._build_projection("select", columns, self.step.select, replaces=True)

    def _build_drop(self) -> Iterator[Operation]:
        names = self.step.drop
        if names is None:
            return
        dropped = {str(name) for name in names if self._find_column(name)}
        fields = [f for f in self.known_columns.schema if f.name not in dropped]
        if not fields and self.known_columns.is_complete:
            self.report.add("drop leaves no column", self.step.keys_at["drop"].locate())
            return
        written = tuple(Assignment(name, None) for name in names)
        yield from self._build_projection(
            "drop", [(f.name, reference_field(f)) for f in fields], written
        )

    def _build_route(self) -> Iterator[Operation]:
        if self.step.route is None:
            return
        branches = []
        for branch in self.step.route:
            assert branch.expression is not None, "a route has conditions"
            typed = type_condition(branch.expression, self.known_columns, self.report)
            if typed:
                branches.append((str(branch.name), typed, branch.expression.printable))
        yield Route(tuple(branches))

    def _get_output_name(self, assignment: Assignment) -> str:
        """Return the output name of a column; in a list, that of `a.id` is `id`."""
        table, _, column = assignment.name.partition(".")
        of_table = assignment.expression is None and column in self.known_columns.tables.get(
            table, ()
        )
        return column if of_table else str(assignment.name)

    def _type_assignment(self, assignment: Assignment) -> TypedExpression | None:
        if assignment.expression is None and self.known_columns.tables:
            return type_column(assignment.name, self.known_columns, self.report)
        if assignment.expression is None:
            return self._find_column(assignment.name)
        return type_column(assignment.expression, self.known_columns, self.report)

    def _find_column(self, name: Text) -> TypedExpression | None:
        """Return an existing column by its plain name; report an unknown one."""
        field = self.known_columns.schema.get(name)
        if field is not None:
            return reference_field(field)
        if not self.known_columns.may_have(name):
            self.report.add(f'unknown column "{name}"', name.locate(), self._suggest_column(name))
        return None

    def _suggest_column(self, name: str) -> str:
        if name == "*":
            return SELECT_ALL_HINT
        if not name.isidentifier():
            return "a list has columns; an expression needs a name: {name: expression}"
        near = suggest_name(name, self.known_columns.schema.names)
        return near or f"the columns are {', '.join(self.known_columns.schema.names)}"

    def _build_projection(
        self,
        clause: Literal["select", "with", "extend", "drop"],
        columns: list[tuple[str, TypedExpression | None]],
        written: tuple[Assignment, ...],
        *,
        replaces: bool = False,
    ) -> Iterator[Operation]:
        text = ", ".join(map(format_value, written))
        texts = {str(each.name): each.expression.printable for each in written if each.expression}
        computed = (ComputedColumn(n, c, texts.get(n, "")) for n, c in columns if c is not None)
        yield Project(clause, tuple(computed), text)
        self._set_columns(columns, replaces=replaces)

    def _set_columns(
        self, columns: list[tuple[str, TypedExpression | None]], *, replaces: bool = False
    ) -> None:
        """Set `known` to these columns; unknown columns stay unknown unless `replaces` is set."""
        known = make_known_columns(columns)
        if not replaces:
            broken_names = self.known_columns.broken_names - {
                name for name, column in columns if column
            }
            tables = self.known_columns.tables
            known = KnownColumns(
                known.schema, known.broken_names | broken_names, self.known_columns.is_open, tables
            )
        self.known_columns = replace(known, has_row_place=self.known_columns.has_row_place)
