"""The keyed operation of a step: its key, window, aggregates and rankings, typed over its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import (
    Column,
    ProcessingTime,
    Span,
    Typed,
    substituted,
    walk,
)
from headrace.core.pipeline import keyed as document
from headrace.core.pipeline import process as document_process
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.inputs import has_two_inputs
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.text import Text
from headrace.core.plan import windows
from headrace.core.plan.columns import Known, Report, aggregate, condition, output
from headrace.core.plan.nodes import (
    BOUNDS,
    RANK,
    Aggregate,
    Aggregated,
    Apply,
    Computed,
    Dedup,
    Filter,
    Keyed,
    Operation,
    Process,
    Project,
    Ranking,
    Top,
)
from headrace.core.plan.processes import body_of
from headrace.core.plan.rankings import no_ranking, ordering
from headrace.core.plan.user_windows import code_of, seen_of, user_aggregate, with_code
from headrace.core.plan.windowing import in_us, needs_time, window_of
from headrace.core.problems import did_you_mean
from headrace.core.types import INT, TIMESTAMP, Array, Field, Schema, Struct

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression

NOWHERE = Span(0, 0)
NOW = "the processing time cannot be used in"
BEFORE = "compute it using `with` in an earlier step"


@dataclass(frozen=True, slots=True)
class Rows:
    """The input of a keyed operation: its columns, whether it is timed, and earlier operations."""

    known: Known
    timed: bool
    before: tuple[Operation, ...]


class KeyedClauses:
    """The builder of a step's keyed operation; `known` has its output columns after `build`."""

    def __init__(self, step: Step, rows: Rows, report: Report) -> None:
        self.step = step
        self.rows = rows
        self.known = rows.known
        self.report = report

    def build(self) -> Keyed | None:
        """Return the operation, if the step has one, and set `known` to its output columns."""
        if self.step.aggregate is not None:
            return self._aggregate(self.step.aggregate)
        if self.step.apply is not None:
            return self._apply(self.step.apply)
        if self.step.top is not None:
            return self._top(self.step.top)
        if self.step.dedup is not None:
            return self._dedup(self.step.dedup)
        if self.step.process is not None and not has_two_inputs(self.step):
            return self._process(self.step.process)
        return None

    def own_key(self) -> tuple[Computed, ...]:
        """Return the key of the step, over its rows."""
        return self.key(self.step.key or ())

    def _process(self, written: document_process.Process) -> Process:
        key = self.own_key()
        body = body_of(self.step, written, "" if self.rows.timed else "its input", self.report)
        late_to = None if written.late_to is None else str(written.late_to)
        columns, self.known = self.known.schema, Known(body.returns)
        return Process(key, columns, self.rows.timed, body, late_to)

    def _aggregate(self, written: tuple[Assignment, ...]) -> Aggregate:
        key, window = [*self._key(self.step.key)], self._window()
        keys = Known(
            _schema((name, typed) for name, typed in key if typed),
            frozenset(name for name, typed in key if typed is None),
            self.known.open,
        )
        fields, broken = [*keys.schema], {*keys.broken}
        bounds = BOUNDS if window and window.bounded else ()
        fields += [Field(name, TIMESTAMP, nullable=False) for name in bounds]
        self._check_bounds(bounds)
        columns = []
        for each in written:
            self._check_name(each.name, [name for name, _ in key], bounds)
            made = self._aggregated(each, keys)
            if made is None:
                broken.add(str(each.name))
                continue
            typed = made.expression
            columns.append(made)
            fields.append(Field(str(each.name), typed.type, typed.finish.nullable))
        self.known = Known(Schema(tuple(_once(fields))), frozenset(broken), self.known.open)
        having = self._having()
        return Aggregate(
            _computed(key, self.step.key), window, tuple(columns), having, self._ttl(self.step.ttl)
        )

    def _apply(self, written: document.Apply) -> Apply | None:
        key, window = [*self._key(self.step.key)], self._window()
        of = seen_of(written.of, self.known, self.report)
        bounds = BOUNDS if window and window.bounded else ()
        self._check_bounds(bounds)
        for name in written.returns.names:
            self._check_name(name, [name for name, _ in key], bounds, "returned column")
        fields = [
            *_schema((name, typed) for name, typed in key if typed),
            *(Field(name, TIMESTAMP, nullable=False) for name in bounds),
            *written.returns.schema,
        ]
        broken = {name for name, typed in key if typed is None} | written.returns.broken
        self.known = Known(Schema(tuple(_once(fields))), frozenset(broken), self.known.open)
        if window is None or of is None:
            return None
        code = code_of(written.python, self.report.folder)
        return Apply(_computed(key, self.step.key), window, code, of, written.returns.schema)

    def _aggregated(self, written: Assignment, keys: Known) -> Aggregated | None:
        """Return a column of the result; None if it is invalid."""
        if isinstance(written, document.UserAssignment):
            found = user_aggregate(written.python, self.known, self.report)
            typed, text = found or (None, "")
            place = written.python.of[0]
        else:
            assert written.expression is not None, "an aggregate is an expression"
            place, text = written.expression, written.expression.shown
            typed = aggregate(written.expression, self.known, keys, self.report)
        if typed is None:
            return None
        if _aggregates_clock(typed):
            hint = "with and select may read it"
            self.report.add(f"{NOW} an aggregate", place.locate(), hint)
        return Aggregated(str(written.name), typed, text)

    def _having(self) -> Filter | None:
        text = self.step.having
        typed = condition(text, self.known, self.report) if text is not None else None
        if text is None or typed is None:
            return None
        if _reads_clock(typed):
            self.report.add(f"{NOW} having", text.locate(), "where in a later step may read it")
        return Filter(typed, text.shown)

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

    def _top(self, written: document.Top) -> Top:
        window = self._window()
        key = [*self._key(self.step.key)]
        if window is None:
            self._check_kept(self.step.key or (), "top", key)
        by = tuple(filter(None, map(self._ranking, written.by)))
        if RANK in self.known.schema:
            message = f'there is a column "{RANK}" already'
            place = self.step.keys_at["top"].locate()
            self.report.add(message, place, "rename it in an earlier step")
        rank = Field(RANK, INT, nullable=False)
        schema = Schema((*(f for f in self.known.schema if f.name != RANK), rank))
        self.known = Known(schema, self.known.broken - {RANK}, self.known.open)
        return Top(_computed(key, self.step.key), window, written.n, by, self._ttl(self.step.ttl))

    def _ranking(self, text: Text) -> Ranking | None:
        end, descending, nulls_last = ordering(text.reveal())
        if problem := no_ranking(text.reveal()[:end]):
            self.report.add(problem[0], text.locate(), problem[1])
            return None
        typed = output(text, self.known, self.report, end)
        if typed is None:
            return None
        if isinstance(typed.type, Array | Struct):
            message = f"wanted a value that has an order, got {typed.type}"
            self.report.add(message, text.locate(0, end))
            return None
        if _reads_clock(typed):
            self.report.add(f"{NOW} top", text.locate(), BEFORE)
        return Ranking(typed, descending, nulls_last, text.shown)

    def _dedup(self, written: document.Dedup) -> Dedup:
        key = [*self._key(written.key)]
        if written.keep == "last":
            self._check_kept(written.key, "dedup: keep: last", key)
        ttl = None
        if written.ttl is not None:
            ttl = document.Ttl.model_construct(after=written.ttl, time=written.time)
        in_time = written.order == "event_time"
        if in_time and not self.rows.timed:
            message = "dedup: order: event_time needs an event time, but its input has none"
            at = self.step.keys_at["dedup"].locate()
            self.report.add(message, at, "set event_time in the source, or leave out order")
        late_to = str(written.late_to) if written.late_to is not None else None
        ttls = _ttl_in_time(ttl) if in_time else self._ttl(ttl, "dedup")
        return Dedup(_computed(key, written.key), written.keep, ttls, in_time, late_to)

    def _check_kept(
        self, written: Iterable[Assignment], what: str, key: list[tuple[str, Typed | None]]
    ) -> None:
        """Check that the key of emitted changes is among the output columns."""
        for each, (name, typed) in zip(written, key, strict=True):
            if typed and not (isinstance(typed, Column) and typed.name == name):
                message = f'{what} emits changes by key, but "{name}" is not a column of its rows'
                hint = f"add it: with: {{{name}: {each.expression or name}}}, and key: {name}"
                self.report.add(message, each.name.locate(), hint)

    def key(self, written: Iterable[Assignment]) -> tuple[Computed, ...]:
        """Return a key over the rows."""
        written = tuple(written)
        return _computed(self._key(written), written)

    def _key(self, written: Iterable[Assignment] | None) -> Iterator[tuple[str, Typed | None]]:
        for each in written or ():
            text = each.expression if each.expression is not None else each.name
            typed = self._key_value(each, text)
            if typed and isinstance(typed.type, Array | Struct):
                message = f"wanted a key of a single value, got {typed.type}"
                self.report.add(message, text.locate())
            elif typed and self._depends_on_clock(typed):
                message = f"{NOW} a key: a row would change its group"
                self.report.add(message, text.locate(), BEFORE)
            yield str(each.name), typed

    def _key_value(self, each: Assignment, text: Text) -> Typed | None:
        if each.expression is not None:
            return output(each.expression, self.known, self.report)
        field = self.known.schema.get(text)
        if field is not None:
            return Column(field.type, field.nullable, NOWHERE, field.name)
        if not self.known.may_have(text):
            near = did_you_mean(text, self.known.schema.names)
            hint = near or f"the columns are {', '.join(self.known.schema.names)}"
            if not text.isidentifier():
                hint = "an expression needs a name: key: {name: expression}"
            self.report.add(f'unknown column "{text}"', text.locate(), hint)
        return None

    def _depends_on_clock(self, typed: Typed) -> bool:
        """Whether a value depends on the processing time, also through columns of the same step."""
        for operation in reversed(self.rows.before):
            if isinstance(operation, Project):
                made = {column.name: column.value for column in operation.columns}
                if not all(n.name in made for n in walk(typed) if isinstance(n, Column)):
                    return False
                typed = substituted(typed, made)
        return _reads_clock(typed)

    def _window(self) -> windows.Window | None:
        written = self.step.window
        if written is None:
            return None
        window = with_code(window_of(written), written, self.known, self.report)
        if not self.rows.timed:
            needs = needs_time(window)
            if needs:
                message = f"{needs} needs an event time, but its input has none"
                hint = "set event_time in the source, or time: processing"
                self.report.add(f"window: {message}", self.step.keys_at["window"].locate(), hint)
        return window

    def _ttl(self, written: document.Ttl | None, at: str = "ttl") -> windows.Ttl | None:
        if written is None:
            return None
        if written.time == "event" and not self.rows.timed:
            message = "ttl goes by event time, but its input has none"
            other = "time: processing" if at == "dedup" else "ttl: {after: ..., time: processing}"
            place = self.step.keys_at[at].locate()
            self.report.add(message, place, f"set event_time in the source, or {other}")
        return windows.Ttl(in_us(written.after), written.time == "processing")


def _ttl_in_time(written: document.Ttl | None) -> windows.Ttl | None:
    return None if written is None else windows.Ttl(in_us(written.after))


def _reads_clock(typed: Typed) -> bool:
    return any(isinstance(node, ProcessingTime) for node in walk(typed))


def _aggregates_clock(expression: AggregateExpression) -> bool:
    """Whether an aggregate expression reads the processing time, inside or outside of a call."""
    calls = expression.calls
    inside = (each.typed for call in calls for each in (*call.inputs, call.condition) if each)
    return any(map(_reads_clock, (expression.finish, *inside)))


def _computed(
    key: Iterable[tuple[str, Typed | None]], written: Iterable[Assignment] | None
) -> tuple[Computed, ...]:
    texts = {str(each.name): each.expression.shown for each in written or () if each.expression}
    return tuple(Computed(name, typed, texts.get(name, "")) for name, typed in key if typed)


def _schema(columns: Iterable[tuple[str, Typed]]) -> Schema:
    return Schema(tuple(Field(name, typed.type, typed.nullable) for name, typed in columns))


def _once(fields: Iterable[Field]) -> Iterator[Field]:
    return iter({field.name: field for field in fields}.values())
