"""The keyed operation of a step: its key, window, aggregates and rankings, typed over its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.typed import (
    ColumnReference,
    ProcessingTime,
    TypedExpression,
    reference_field,
    substitute_columns,
    walk,
)
from headrace.core.pipeline.clauses import keyed as document
from headrace.core.pipeline.clauses import match as document_match
from headrace.core.pipeline.clauses import process as document_process
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.stream_names import has_two_inputs
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.error_context import format_flow_scalar
from headrace.core.plan.columns import (
    KnownColumns,
    PlanProblems,
    suggest_single_value,
    type_aggregate,
    type_column,
    type_condition,
    type_over_column,
)
from headrace.core.plan.nodes import (
    RANK_COLUMN,
    WINDOW_BOUNDS,
    Aggregate,
    AggregatedColumn,
    Apply,
    ComputedColumn,
    Dedup,
    Filter,
    KeyedOperation,
    Match,
    Operation,
    Over,
    OverColumn,
    Process,
    Project,
    Ranking,
    Top,
    windows,
)
from headrace.core.plan.processes import build_process_body
from headrace.core.plan.rankings import find_ranking_error, parse_ordering
from headrace.core.plan.window_clauses import (
    add_user_code,
    build_user_aggregate,
    build_window,
    find_event_time_use,
    get_passed_columns,
    make_user_code,
    to_microseconds,
)
from headrace.core.types.data_types import INT, TIMESTAMP, Field, Schema, is_nested
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression
    from headrace.core.aggregates.over_calls import OverExpression

CLOCK_NOT_ALLOWED = "the processing time cannot be used in"
EARLIER_STEP_HINT = "compute it using `with` in an earlier step"


@dataclass(frozen=True, slots=True)
class KeyedInput:
    """The input of a keyed operation: its columns, whether it is timed, and earlier operations."""

    known_columns: KnownColumns
    has_event_time: bool
    earlier_operations: tuple[Operation, ...]


class KeyedOperationBuilder:
    """Builds a step's keyed operation; `known_columns` are its output columns after `build`."""

    def __init__(self, step: Step, rows: KeyedInput, report: PlanProblems) -> None:
        self.step = step
        self.rows = rows
        self.known_columns = rows.known_columns
        self.report = report

    def build(self) -> KeyedOperation | None:
        """Return the operation, if any, and set `known_columns` to its output columns."""
        if self.step.aggregate is not None:
            return self._build_aggregate(self.step.aggregate)
        if self.step.apply is not None:
            return self._build_apply(self.step.apply)
        if self.step.top is not None:
            return self._build_top(self.step.top)
        if self.step.over is not None:
            return self._build_over(self.step.over)
        if self.step.dedup is not None:
            return self._build_dedup(self.step.dedup)
        if self.step.process is not None and not has_two_inputs(self.step):
            return self._build_process(self.step.process)
        if self.step.match is not None and self.step.match.rules is None:
            return self._build_match(self.step.match)
        return None

    def build_step_key(self) -> tuple[ComputedColumn, ...]:
        """Return the key of the step, over its rows."""
        return self.build_key(self.step.key or ())

    def _build_process(self, written: document_process.Process) -> Process:
        key = self.build_step_key()
        body = build_process_body(
            self.step, written, "" if self.rows.has_event_time else "its input", self.report
        )
        late_to = None if written.late_to is None else str(written.late_to)
        if written.changes and body.uses_event_time:
            message = "process: changes come in the order of arrival"
            place = self.step.keys_at["process"].locate()
            self.report.add(message, place, "add order: arrival")
        columns, self.known_columns = self.known_columns.schema, KnownColumns(body.returns)
        timed = self.rows.has_event_time
        return Process(key, columns, timed, body, late_to, reads_changes=written.changes)

    def _build_match(self, written: document_match.MatchClause) -> Match | None:
        # Loading all aggregates takes time, which a pipeline without aggregates need not spend.
        from headrace.core.plan.matches import MatchBuilder

        place = self.step.keys_at["match"].locate()
        if not self.rows.has_event_time:
            message = "match goes by event time, but its input has none"
            self.report.add(message, place, "set event_time in the source")
        if self.step.key is None:
            message = "match without key: all rows are one group, in one subtask"
            self.report.warn(message, place, "as in key: user")
        builder = MatchBuilder(written, self.build_step_key(), self.known_columns, self.report)
        match = builder.build()
        self.known_columns = builder.known_columns
        return match

    def _build_aggregate(self, written: tuple[Assignment, ...]) -> Aggregate:
        key, window = [*self._type_key(self.step.key)], self._build_window()
        keys = KnownColumns(
            _make_schema((name, typed) for name, typed in key if typed),
            frozenset(name for name, typed in key if typed is None),
            self.known_columns.is_open,
        )
        fields, broken = [*keys.schema], {*keys.broken_names}
        bounds = WINDOW_BOUNDS if window and window.has_bounds else ()
        fields += [Field(name, TIMESTAMP, nullable=False) for name in bounds]
        self._check_bounds(bounds)
        columns = []
        for each in written:
            self._check_name(each.name, [name for name, _ in key], bounds)
            made = self._build_aggregated_column(each, keys)
            if made is None:
                broken.add(str(each.name))
                continue
            typed = made.expression
            columns.append(made)
            fields.append(Field(str(each.name), typed.type, typed.finish.nullable))
        self.known_columns = KnownColumns(
            Schema(tuple(_drop_duplicates(fields))), frozenset(broken), self.known_columns.is_open
        )
        having = self.build_having()
        return Aggregate(
            _make_computed_columns(key, self.step.key),
            window,
            tuple(columns),
            having,
            self._build_ttl(self.step.ttl),
            emits_empty=self.step.emit_empty,
            has_event_time=self.step.emit_empty and self.rows.has_event_time,
        )

    def _build_apply(self, written: document.Apply) -> Apply | None:
        key, window = [*self._type_key(self.step.key)], self._build_window()
        of = get_passed_columns(written.of, self.known_columns, self.report)
        bounds = WINDOW_BOUNDS if window and window.has_bounds else ()
        self._check_bounds(bounds)
        for name in written.returns.names:
            self._check_name(name, [name for name, _ in key], bounds, "returned column")
        fields = [
            *_make_schema((name, typed) for name, typed in key if typed),
            *(Field(name, TIMESTAMP, nullable=False) for name in bounds),
            *written.returns.schema,
        ]
        broken = {name for name, typed in key if typed is None} | written.returns.broken_names
        self.known_columns = KnownColumns(
            Schema(tuple(_drop_duplicates(fields))), frozenset(broken), self.known_columns.is_open
        )
        if window is None or of is None:
            return None
        code = make_user_code(written.python, self.report.folder)
        return Apply(
            _make_computed_columns(key, self.step.key), window, code, of, written.returns.schema
        )

    def _build_aggregated_column(
        self, written: Assignment, keys: KnownColumns
    ) -> AggregatedColumn | None:
        """Return a column of the result; None if it is invalid."""
        if isinstance(written, document.UserAssignment):
            found = build_user_aggregate(written.python, self.known_columns, self.report)
            typed, text = found or (None, "")
            place = written.python.of[0]
        else:
            assert written.expression is not None, "an aggregate is an expression"
            place, text = written.expression, written.expression.printable
            typed = type_aggregate(written.expression, self.known_columns, keys, self.report)
        if typed is None:
            return None
        if _aggregate_reads_clock(typed):
            hint = "with and select may read it"
            self.report.add(f"{CLOCK_NOT_ALLOWED} an aggregate", place.locate(), hint)
        return AggregatedColumn(str(written.name), typed, text)

    def build_having(self) -> Filter | None:
        text = self.step.having
        typed = type_condition(text, self.known_columns, self.report) if text is not None else None
        if text is None or typed is None:
            return None
        if _reads_clock(typed):
            self.report.add(
                f"{CLOCK_NOT_ALLOWED} having", text.locate(), "where in a later step may read it"
            )
        return Filter(typed, text.printable)

    def _check_bounds(self, bounds: Iterable[str]) -> None:
        for each in self.step.key or ():
            if each.name in bounds:
                message = f'"{each.name}" is a column of the window'
                self.report.add(message, each.name.locate(), "give the key another name")

    def _check_name(
        self, name: Text, key: list[str], bounds: Iterable[str], of: str = "aggregate"
    ) -> None:
        if name in key or name in bounds:
            what = "the key" if name in key else "the window"
            hint = f"give the {of} another name"
            self.report.add(f'"{name}" is a column of {what}', name.locate(), hint)

    def _build_top(self, written: document.Top) -> Top:
        window = self._build_window()
        key = [*self._type_key(self.step.key)]
        if window is None:
            self._check_changelog_key(self.step.key or (), "top", key)
        by = tuple(filter(None, map(self._build_ranking, written.by)))
        if RANK_COLUMN in self.known_columns.schema:
            message = f'there is a column "{RANK_COLUMN}" already'
            place = self.step.keys_at["top"].locate()
            self.report.add(message, place, "rename it in an earlier step")
        rank = Field(RANK_COLUMN, INT, nullable=False)
        schema = Schema((*(f for f in self.known_columns.schema if f.name != RANK_COLUMN), rank))
        self.known_columns = KnownColumns(
            schema, self.known_columns.broken_names - {RANK_COLUMN}, self.known_columns.is_open
        )
        return Top(
            _make_computed_columns(key, self.step.key),
            window,
            written.n,
            by,
            self._build_ttl(self.step.ttl),
            ties=written.ties,
        )

    def _build_ranking(self, text: Text) -> Ranking | None:
        end, descending, nulls_last = parse_ordering(text.reveal())
        if problem := find_ranking_error(text.reveal()[:end]):
            self.report.add(problem[0], text.locate(), problem[1])
            return None
        typed = type_column(text, self.known_columns, self.report, end)
        if typed is None:
            return None
        if is_nested(typed.type):
            message = f"wanted a value that has an order, got {typed.type}"
            self.report.add(message, text.locate(0, end), suggest_single_value(typed.type))
            return None
        if _reads_clock(typed):
            self.report.add(f"{CLOCK_NOT_ALLOWED} top", text.locate(), EARLIER_STEP_HINT)
        return Ranking(typed, descending, nulls_last, text.printable)

    def _build_over(self, written: tuple[Assignment, ...]) -> Over:
        place = self.step.keys_at["over"].locate()
        if not self.rows.has_event_time:
            message = "over goes by event time, but its input has none"
            self.report.add(message, place, "set event_time in the source")
        ttl = self.step.ttl
        if ttl is not None and ttl.time == "processing":
            message = "over goes by event time, and so does its ttl"
            self.report.add(message, self.step.keys_at["ttl"].locate(), "leave out time")
        key = self.build_step_key()
        row, columns, added, broken = self.known_columns, [], [], set[str]()
        for each in written:
            assert each.expression is not None, "a column over rows is an expression"
            if each.name in row.schema:
                message = f'there is a column "{each.name}" already'
                self.report.add(message, each.name.locate(), "give the new one another name")
            typed = type_over_column(each.expression, row, self.report)
            if typed is None:
                broken.add(str(each.name))
                continue
            if _over_reads_clock(typed):
                hint = "with and select may read it"
                message = f"{CLOCK_NOT_ALLOWED} over"
                self.report.add(message, each.expression.locate(), hint)
            columns.append(OverColumn(str(each.name), typed, each.expression.printable))
            added.append(Field(str(each.name), typed.type, typed.finish.nullable))
        self.known_columns = KnownColumns(
            Schema(tuple(_drop_duplicates([*row.schema, *added]))),
            row.broken_names | broken,
            row.is_open,
        )
        return Over(
            key,
            tuple(columns),
            row.schema,
            _build_event_time_ttl(ttl),
            None if self.step.late_to is None else str(self.step.late_to),
        )

    def _build_dedup(self, written: document.Dedup) -> Dedup:
        key = [*self._type_key(written.key)]
        if written.keep == "last":
            self._check_changelog_key(written.key, "dedup: keep: last", key)
        ttl = None
        if written.ttl is not None:
            ttl = document.Ttl.model_construct(after=written.ttl, time=written.time)
        in_time = written.order == "event_time"
        if in_time and not self.rows.has_event_time:
            message = "dedup: order: event_time needs an event time, but its input has none"
            at = self.step.keys_at["dedup"].locate()
            self.report.add(message, at, "set event_time in the source, or leave out order")
        late_to = str(written.late_to) if written.late_to is not None else None
        ttls = _build_event_time_ttl(ttl) if in_time else self._build_ttl(ttl, "dedup")
        by, row = _make_computed_columns(key, written.key), self.known_columns.schema
        return Dedup(by, written.keep, ttls, in_time, late_to, row)

    def _check_changelog_key(
        self,
        written: Iterable[Assignment],
        what: str,
        key: list[tuple[str, TypedExpression | None]],
    ) -> None:
        """Check that the key of emitted changes is among the output columns."""
        for each, (name, typed) in zip(written, key, strict=True):
            if typed and not (isinstance(typed, ColumnReference) and typed.name == name):
                message = f'{what} emits changes by key, but "{name}" is not a column of its rows'
                value = format_flow_scalar((each.expression or each.name).printable)
                hint = f"add it: with: {{{name}: {value}}}, and key: {name}"
                self.report.add(message, each.name.locate(), hint)

    def build_key(self, written: Iterable[Assignment]) -> tuple[ComputedColumn, ...]:
        """Return a key over the rows."""
        written = tuple(written)
        return _make_computed_columns(self._type_key(written), written)

    def _type_key(
        self, written: Iterable[Assignment] | None
    ) -> Iterator[tuple[str, TypedExpression | None]]:
        for each in written or ():
            text = each.expression if each.expression is not None else each.name
            typed = self._type_key_column(each, text)
            if typed and is_nested(typed.type):
                message = f"wanted a key of a single value, got {typed.type}"
                self.report.add(message, text.locate(), suggest_single_value(typed.type))
            elif typed and self._depends_on_clock(typed):
                message = f"{CLOCK_NOT_ALLOWED} a key: a row would change its group"
                self.report.add(message, text.locate(), EARLIER_STEP_HINT)
            yield str(each.name), typed

    def _type_key_column(self, each: Assignment, text: Text) -> TypedExpression | None:
        if each.expression is not None:
            return type_column(each.expression, self.known_columns, self.report)
        field = self.known_columns.schema.get(text)
        if field is not None:
            return reference_field(field)
        if not self.known_columns.may_have(text):
            near = suggest_name(text, self.known_columns.schema.names)
            hint = near or f"the columns are {', '.join(self.known_columns.schema.names)}"
            if not text.isidentifier():
                hint = "an expression needs a name: key: {name: expression}"
            self.report.add(f'unknown column "{text}"', text.locate(), hint)
        return None

    def _depends_on_clock(self, typed: TypedExpression) -> bool:
        """Whether a value depends on the processing time, also through columns of the same step."""
        for operation in reversed(self.rows.earlier_operations):
            if isinstance(operation, Project):
                made = {column.name: column.value for column in operation.columns}
                if not all(n.name in made for n in walk(typed) if isinstance(n, ColumnReference)):
                    return False
                typed = substitute_columns(typed, made)
        return _reads_clock(typed)

    def _build_window(self) -> windows.Window | None:
        written = self.step.window
        if written is None:
            return None
        window = add_user_code(build_window(written), written, self.known_columns, self.report)
        if not self.rows.has_event_time:
            needs = find_event_time_use(window)
            if needs:
                message = f"{needs} needs an event time, but its input has none"
                hint = "set event_time in the source, or time: processing"
                self.report.add(f"window: {message}", self.step.keys_at["window"].locate(), hint)
        return window

    def _build_ttl(self, written: document.Ttl | None, at: str = "ttl") -> windows.Ttl | None:
        if written is None:
            return None
        if written.time == "event" and not self.rows.has_event_time:
            message = "ttl goes by event time, but its input has none"
            other = "time: processing"
            if at == "ttl":
                other = "ttl: {after: ..., time: processing} if its rows do not change"
            place = self.step.keys_at[at].locate()
            self.report.add(message, place, f"set event_time in the source, or {other}")
        return windows.Ttl(to_microseconds(written.after), written.time == "processing")


def _build_event_time_ttl(written: document.Ttl | None) -> windows.Ttl | None:
    return None if written is None else windows.Ttl(to_microseconds(written.after))


def _reads_clock(typed: TypedExpression) -> bool:
    return any(isinstance(node, ProcessingTime) for node in walk(typed))


def _aggregate_reads_clock(expression: AggregateExpression) -> bool:
    """Whether an aggregate expression reads the processing time, inside or outside of a call."""
    calls = expression.calls
    inside = (each.typed for call in calls for each in (*call.inputs, call.condition) if each)
    return any(map(_reads_clock, (expression.finish, *inside)))


def _over_reads_clock(expression: OverExpression) -> bool:
    """Whether an expression over ordered rows reads the processing time."""
    inside = (each.typed for call in expression.calls for each in call.inputs)
    return any(map(_reads_clock, (expression.finish, *inside)))


def _make_computed_columns(
    key: Iterable[tuple[str, TypedExpression | None]], written: Iterable[Assignment] | None
) -> tuple[ComputedColumn, ...]:
    texts = {str(each.name): each.expression.printable for each in written or () if each.expression}
    return tuple(ComputedColumn(name, typed, texts.get(name, "")) for name, typed in key if typed)


def _make_schema(columns: Iterable[tuple[str, TypedExpression]]) -> Schema:
    return Schema(tuple(Field(name, typed.type, typed.nullable) for name, typed in columns))


def _drop_duplicates(fields: Iterable[Field]) -> Iterator[Field]:
    return iter({field.name: field for field in fields}.values())
