"""Tests of a pipeline bound to its plan: names are resolved, and values have the columns' types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime, time, timedelta
from typing import TypeAlias

from headrace.core.api.window_classes import EPOCH
from headrace.core.errors.problems import Location, Problem, find_nearest_name, suggest_name
from headrace.core.expressions import ExpressionErrors, TypedExpression, type_expression
from headrace.core.pipeline.pipeline_tests.model import (
    BadRecords,
    ClockAdvance,
    ControlEvent,
    Expectation,
    GivenRows,
    IdleSplits,
    PipelineTest,
    RaisedWatermark,
    Rescale,
    StreamExpectation,
)
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.testing.fed_streams import (
    GIVEN_SUFFIX,
    list_independent_streams,
    replace_fed_streams,
)
from headrace.core.testing.typed_rows import (
    Row,
    RowTyper,
    get_lookup,
    list_record_columns,
    list_table_columns,
)
from headrace.core.testing.written_values import TIME_EXAMPLES, ValueConverter, WrongValue
from headrace.core.types.data_types import BOOLEAN, Field, Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

EVENT_WORDS = ("rows", "splits", "watermark", "bad", "idle", "advance", "rescale", "expect")


@dataclass(frozen=True, slots=True)
class FedRows:
    """Rows of a source, by split."""

    source: str
    splits: tuple[tuple[Row, ...], ...]


@dataclass(frozen=True, slots=True)
class FedWatermark:
    """A watermark of all splits of a source."""

    source: str
    at_us: int


@dataclass(frozen=True, slots=True)
class FedRecords:
    """Records of a source as text, which it cannot read."""

    source: str
    records: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class FedIdleness:
    """The splits of a source that become idle."""

    source: str
    splits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExpectedStream:
    """The expected rows of a stream, and the columns by which they are compared."""

    written: StreamExpectation
    stream: nodes.Stream
    rows: tuple[Row, ...] | None
    contains: tuple[Row, ...] | None
    condition: TypedExpression | None


@dataclass(frozen=True, slots=True)
class Expected:
    """The expectations at one time."""

    written: Expectation
    streams: tuple[ExpectedStream, ...]


BoundEvent: TypeAlias = (
    FedRows
    | FedWatermark
    | FedRecords
    | FedIdleness
    | ClockAdvance
    | ControlEvent
    | Rescale
    | Expected
)


@dataclass(frozen=True, slots=True)
class BoundTest:
    """A test whose names and values fit the plan."""

    test: PipelineTest
    events: tuple[tuple[Location, BoundEvent], ...]
    tables: Mapping[str, tuple[Row, ...]]
    """The rows of each step's lookup table, under the names of its columns."""
    split_counts: Mapping[str, int]
    """The number of splits of each source; those that are not there have one."""
    fed_streams: frozenset[str] = frozenset()
    """The outputs of steps whose rows the test gives; the steps do not run."""

    @property
    def streams(self) -> frozenset[str]:
        """The streams of which rows are expected."""
        return frozenset(
            each.stream.name
            for _, event in self.events
            if isinstance(event, Expected)
            for each in event.streams
        )

    @property
    def has_changelogs(self) -> bool:
        """Whether changes are compared as they came."""
        return any(
            each.written.is_changelog
            for _, event in self.events
            if isinstance(event, Expected)
            for each in event.streams
        )


def bind_tests(
    tests: Iterable[PipelineTest], plan: nodes.Plan
) -> tuple[tuple[BoundTest, ...], tuple[Problem, ...]]:
    """Return the tests that fit a plan, and the problems of all others."""
    bound, problems = list[BoundTest](), list[Problem]()
    for test in tests:
        binder = PlanBinder(test, plan)
        one = binder.bind()
        problems += binder.problems
        if not binder.problems:
            bound.append(one)
    return tuple(bound), tuple(problems)


@dataclass(slots=True)
class PlanBinder:
    """Binds one test to the plan of the file, and collects the problems."""

    test: PipelineTest
    whole_plan: nodes.Plan
    given: frozenset[str] = frozenset()
    """Outputs of steps whose rows are given, besides those that the events of the test give."""
    splits: dict[str, int] = field(default_factory=dict)
    """The number of splits of each source; those that are not there have one."""
    problems: list[Problem] = field(default_factory=list)
    plan: nodes.Plan = field(init=False)
    """The plan with sources in the place of the steps whose rows the test gives."""
    _fed: frozenset[str] = field(init=False)
    _rows: RowTyper = field(init=False)
    _watermarks: dict[str, int] = field(default_factory=dict)
    """The last watermark that the test gives to a source."""
    _event_times: dict[str, object] = field(default_factory=dict)
    """The event time of the last change that the test gives in the place of a step."""

    def __post_init__(self) -> None:
        self._rows = RowTyper(self.test.day, self._report)
        self._fed = self._find_fed_streams()
        read = {
            str(stream.stream)
            for placed in self.test.events
            if isinstance(placed.event, Expectation)
            for stream in placed.event.streams
        }
        if self.given:
            read |= list_independent_streams(self.whole_plan, self.given)
        self.plan = replace_fed_streams(self.whole_plan, self._fed, read)

    def _find_fed_streams(self) -> frozenset[str]:
        """Return the outputs of steps of which the test gives rows."""
        outputs = {
            stream.name
            for part in self.whole_plan
            if isinstance(part, nodes.Step)
            for stream in part.outputs
        }
        given = {
            str(placed.event.source)
            for placed in self.test.events
            if isinstance(placed.event, GivenRows)
        }
        return frozenset(given & outputs) | self.given

    def bind(self) -> BoundTest:
        """Return the test, which is of use if there are no problems."""
        for placed in self.test.events:
            if isinstance(placed.event, GivenRows):
                name, count = self._name_source(placed.event.source), len(placed.event.splits)
                self.splits[name] = max(count, self.splits.get(name, 1))
        events = [
            (placed.location, event)
            for placed in self.test.events
            if (event := self.bind_event(placed.event)) is not None
        ]
        tables = self._bind_tables()
        return BoundTest(self.test, tuple(events), tables, self.splits, self._fed)

    def _name_source(self, name: Text) -> str:
        """Return the source of given rows: that in the place of a step, if they are its output."""
        return f"{name}{GIVEN_SUFFIX}" if str(name) in self._fed else str(name)

    def _report(self, message: str, location: Location, hint: str = "") -> None:
        problem = Problem(message, location, hint, self.test.subject)
        if problem not in self.problems:  # each row of a file has the columns of its header
            self.problems.append(problem)

    def bind_event(self, event: object) -> BoundEvent | None:
        """Return an event of the test; None if it does not fit, which is reported."""
        match event:
            case GivenRows(source, splits):
                if (part := self._find_source(source)) is None:
                    return None
                columns = list_record_columns(part)
                rows = tuple(self._rows.type_rows(split, columns) for split in splits)
                self._add_event_times(part, rows)
                return FedRows(part.name, rows)
            case RaisedWatermark(source, time):
                return self._bind_watermark(source, time)
            case BadRecords(source, records):
                return self._bind_records(source, records)
            case IdleSplits():
                return self._bind_idleness(event)
            case Expectation(streams):
                found = [e for each in streams if (e := self._bind_stream(each)) is not None]
                return Expected(event, tuple(found))
            case ClockAdvance() | ControlEvent() | Rescale():
                return event
        raise AssertionError(f"no event: {event}")

    def _find_source(self, name: Text) -> nodes.Source | None:
        sources = {part.name: part for part in self.plan if isinstance(part, nodes.Source)}
        if (found := sources.get(self._name_source(name))) is not None:
            return found
        if self._report_idle_part(name):
            return None
        written = [part.name for part in self.whole_plan if isinstance(part, nodes.Source)]
        streams = [each for each in self.whole_plan.streams if "@" not in each]
        word = find_nearest_name(name, (*streams, *EVENT_WORDS))
        hint = f'did you mean "{word}"?' if word else f"the sources are {', '.join(written)}"
        if name in streams:
            message = f'"{name}" is no source'
            hint = f"rows in the place of its output are given first, as in - {name}: [...]"
        else:
            message = f'there is no source or step "{name}"'
        self._report(message, name.locate(), hint)
        return None

    def _report_idle_part(self, name: Text) -> bool:
        """Report a part that does not run, as it only feeds what the test gives, if it is one."""
        names = {*(part.name for part in self.whole_plan), *self.whole_plan.streams}
        running = {*(part.name for part in self.plan), *self.plan.streams}
        if name not in names - running:
            return False
        steps = " and ".join(f'"{each}"' for each in sorted(self._fed))
        message = f'"{name}" does not run: the test gives the rows of {steps}'
        self._report(message, name.locate(), "remove this, or give rows of sources only")
        return True

    def _bind_records(self, source: Text, records: tuple[Text, ...]) -> FedRecords | None:
        part = self._find_source(source)
        if part is not None and str(source) in self._fed:
            message = f'"{source}" is a step: it reads no records'
            self._report(message, source.locate(), "bad records are those of a source")
        return None if part is None else FedRecords(part.name, records)

    def _add_event_times(self, source: nodes.Source, splits: Iterable[Iterable[Row]]) -> None:
        """Give changes without an event time that of the change before; the first, of the start."""
        column = source.event_time
        if column is None or str(source.name).removesuffix(GIVEN_SUFFIX) not in self._fed:
            return
        start = datetime.combine(self.test.day or EPOCH, time(), UTC)
        for row in (row for rows in splits for row in rows):
            if row.get(column) is None:
                row[column] = self._event_times.get(source.name, start)
            self._event_times[source.name] = row[column]

    def _bind_watermark(self, source: Text, time: Text) -> FedWatermark | None:
        part = self._find_source(source)
        if part is None:
            return None
        if part.event_time is None:
            message = f'the rows of "{source}" have no event time, and so no watermark'
            hint = "add event_time: to the source"
            self._report(message, source.locate(), hint if source not in self._fed else "")
            return None
        try:
            at_us = (ValueConverter(self.test.day).convert_time(time) - EPOCH) // timedelta(
                microseconds=1
            )
        except WrongValue as wrong:
            self._report(wrong.message, time.locate(), wrong.hint)
            return None
        except ValueError:
            message = f'watermark: wanted a time, got "{time}"'
            self._report(message, time.locate(), f"as in {TIME_EXAMPLES}")
            return None
        before = self._watermarks.get(part.name)
        if before is not None and at_us < before:
            message = f'the watermark of "{source}" goes back'
            self._report(message, time.locate(), "a watermark can only be raised")
        self._watermarks[part.name] = at_us
        return FedWatermark(part.name, at_us)

    def _bind_idleness(self, event: IdleSplits) -> FedIdleness | None:
        part = self._find_source(event.source)
        if part is None:
            return None
        count = self.splits.get(part.name, 1)
        for text, number in event.splits:
            if number >= count:
                message = f'"{event.source}" has no split {number}'
                hint = f"its splits are 0 to {count - 1}" if count > 1 else "its only split is 0"
                self._report(message, text.locate(), hint)
        return FedIdleness(part.name, tuple(number for _, number in event.splits))

    def _bind_tables(self) -> dict[str, tuple[Row, ...]]:
        lookups = {p.name: found for p in self.plan if (found := get_lookup(p)) is not None}
        given = {str(name): rows for name, rows in self.test.tables.items()}
        names = {step: lookup.name or step for step, lookup in lookups.items()}
        for name in self.test.tables:
            if name not in {*lookups, *names.values()} and not self._report_idle_part(name):
                shown = sorted({*names.values()})
                known = f"the tables are {', '.join(shown)}" if shown else ""
                hint = suggest_name(name, shown) or known
                self._report(f'no step looks up a table "{name}"', name.locate(), hint)
        written = {
            step: given[step if step in given else name]
            for step, name in names.items()
            if step in given or name in given
        }
        for step in sorted(lookups.keys() - written.keys()):
            table = names[step]
            columns = ", ".join(f"{c}: ..." for c in list_table_columns(lookups[step]).names)
            message = f'the step "{step}" looks up a table, and the test has no rows of it'
            if table != step:
                query = step.partition("@")[0]
                message = f'the query "{query}" looks up "{table}", and the test has no rows of it'
            hint = f"add tables: {{{table}: [{{{columns}}}]}}, or {{{table}: []}}"
            self._report(message, self.test.location, hint)
        return {
            step: self._rows.type_rows(rows, list_table_columns(lookups[step]))
            for step, rows in written.items()
            if step in lookups
        }

    def _bind_stream(self, written: StreamExpectation) -> ExpectedStream | None:
        stream = self.plan.streams.get(str(written.stream))
        if stream is None:
            if not self._report_idle_part(written.stream):
                self._report_unknown_stream(written.stream)
            return None
        is_changes = not isinstance(stream.kind, nodes.Append)
        if written.is_changelog and not is_changes:
            message = f'the rows of "{stream.name}" replace no others: it has no changelog'
            self._report(message, written.location, "remove changelog: true")
        schema = stream.schema
        if written.is_changelog:
            schema = Schema((*schema, Field(DELETE, BOOLEAN)))
        rows, contains = (
            None if some is None else self._rows.type_expected(some, schema, written)
            for some in (written.rows, written.contains)
        )
        condition = self._type_condition(written.where, stream.schema)
        return ExpectedStream(written, stream, rows, contains, condition)

    def _report_unknown_stream(self, name: Text) -> None:
        streams = [each for each in self.plan.streams if "@" not in each]
        sink = next((p for p in self.plan if isinstance(p, nodes.Sink) and p.name == name), None)
        hint = suggest_name(name, streams) or f"the streams are {', '.join(streams)}"
        message = f'there is no stream "{name}"'
        if sink is not None:
            message = f'"{name}" is a sink: rows are expected of a stream'
            hint = f'it writes "{sink.input.partition("@")[0]}": expect that'
        self._report(message, name.locate(), hint)

    def _type_condition(self, text: Text | None, schema: Schema) -> TypedExpression | None:
        if text is None:
            return None
        try:
            typed = type_expression(text, schema)
        except ExpressionErrors as errors:
            for error in errors.errors:
                place = text.locate(error.span.start, error.span.end)
                self._report(error.message, place, error.hint)
            return None
        if typed.type != BOOLEAN:
            message = f"where: wanted a condition, got an expression of type {typed.type}"
            self._report(message, text.locate())
        return typed
