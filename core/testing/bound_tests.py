"""Tests of a pipeline bound to its plan: names are resolved, and values have the columns' types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from headrace.core.api.window_classes import EPOCH
from headrace.core.errors.problems import Location, Problem, find_nearest_name, suggest_name
from headrace.core.expressions import ExpressionErrors, TypedExpression, type_expression
from headrace.core.pipeline.pipeline_tests.model import (
    BadRecords,
    ClockAdvance,
    ControlEvent,
    Expectation,
    GivenRow,
    GivenRows,
    IdleSplits,
    PipelineTest,
    RaisedWatermark,
    Rescale,
    StreamExpectation,
)
from headrace.core.pipeline.text import NOTHING, Text
from headrace.core.plan import nodes
from headrace.core.testing.written_values import TIME_EXAMPLES, ValueConverter, WrongValue
from headrace.core.types.data_types import BOOLEAN, Field, Schema
from headrace.core.types.elements import DELETE

Row: TypeAlias = "dict[str, object]"
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

    @property
    def streams(self) -> frozenset[str]:
        """The streams of which rows are expected."""
        return frozenset(
            each.stream.name
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


def get_lookup(step: nodes.PlanPart) -> nodes.Lookup | None:
    """Return the lookup of a step, if it has one."""
    operations = step.operations if isinstance(step, nodes.Step) else ()
    return next((each for each in operations if isinstance(each, nodes.Lookup)), None)


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


@dataclass(slots=True)
class PlanBinder:
    """Binds one test to a plan, and collects the problems."""

    test: PipelineTest
    plan: nodes.Plan
    problems: list[Problem] = field(default_factory=list)
    _splits: dict[str, int] = field(default_factory=dict)
    _watermarks: dict[str, int] = field(default_factory=dict)
    """The last watermark that the test gives to a source."""

    def bind(self) -> BoundTest:
        """Return the test, which is of use if there are no problems."""
        for placed in self.test.events:
            if isinstance(placed.event, GivenRows):
                name, count = str(placed.event.source), len(placed.event.splits)
                self._splits[name] = max(count, self._splits.get(name, 1))
        events = [
            (placed.location, event)
            for placed in self.test.events
            if (event := self._bind_event(placed.event)) is not None
        ]
        tables = self._bind_tables()
        return BoundTest(self.test, tuple(events), tables, self._splits)

    def _report(self, message: str, location: Location, hint: str = "") -> None:
        self.problems.append(Problem(message, location, hint, self.test.subject))

    def _bind_event(self, event: object) -> BoundEvent | None:
        match event:
            case GivenRows(source, splits):
                if (part := self._find_source(source)) is None:
                    return None
                columns = list_record_columns(part)
                rows = tuple(self._type_rows(split, columns) for split in splits)
                return FedRows(part.name, rows)
            case RaisedWatermark(source, time):
                return self._bind_watermark(source, time)
            case BadRecords(source, records):
                part = self._find_source(source)
                return None if part is None else FedRecords(part.name, records)
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
        if name in sources:
            return sources[str(name)]
        word = find_nearest_name(name, (*sources, *EVENT_WORDS))
        hint = f'did you mean "{word}"?' if word else f"the sources are {', '.join(sources)}"
        is_step = any(part.name == name for part in self.plan)
        message = f'"{name}" is no source' if is_step else f'there is no source "{name}"'
        self._report(message, name.locate(), hint)
        return None

    def _bind_watermark(self, source: Text, time: Text) -> FedWatermark | None:
        part = self._find_source(source)
        if part is None:
            return None
        if part.event_time is None:
            message = f'the source "{source}" has no event time, and so no watermark'
            self._report(message, source.locate(), "add event_time: to the source")
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
        count = self._splits.get(part.name, 1)
        for text, number in event.splits:
            if number >= count:
                message = f'"{part.name}" has no split {number}'
                hint = f"its splits are 0 to {count - 1}" if count > 1 else "its only split is 0"
                self._report(message, text.locate(), hint)
        return FedIdleness(part.name, tuple(number for _, number in event.splits))

    def _bind_tables(self) -> dict[str, tuple[Row, ...]]:
        lookups = {p.name: found for p in self.plan if (found := get_lookup(p)) is not None}
        written = {str(name): rows for name, rows in self.test.tables.items()}
        for name in self.test.tables:
            if name not in lookups:
                known = f"the steps with a lookup are {', '.join(lookups)}" if lookups else ""
                hint = suggest_name(name, lookups) or known
                self._report(f'no step "{name}" looks up a table', name.locate(), hint)
        for step in sorted(lookups.keys() - written.keys()):
            columns = ", ".join(f"{c}: ..." for c in list_table_columns(lookups[step]).names)
            message = f'the step "{step}" looks up a table, and the test has no rows of it'
            hint = f"add tables: {{{step}: [{{{columns}}}]}}, or {{{step}: []}}"
            self._report(message, self.test.location, hint)
        return {
            step: self._type_rows(rows, list_table_columns(lookups[step]))
            for step, rows in written.items()
            if step in lookups
        }

    def _bind_stream(self, written: StreamExpectation) -> ExpectedStream | None:
        stream = self.plan.streams.get(str(written.stream))
        if stream is None:
            self._report_unknown_stream(written.stream)
            return None
        is_changes = not isinstance(stream.kind, nodes.Append)
        if written.is_changelog and not is_changes:
            message = f'the rows of "{stream.name}" replace no others: it has no changelog'
            self._report(message, written.location, "remove changelog: true")
        schema = stream.schema
        if written.is_changelog:
            schema = Schema((*schema, Field(DELETE, BOOLEAN)))
        rows = None if written.rows is None else self._type_expected(written.rows, schema, written)
        some = written.contains
        contains = None if some is None else self._type_expected(some, schema, written)
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

    def _type_expected(
        self, rows: Iterable[GivenRow], schema: Schema, written: StreamExpectation
    ) -> tuple[Row, ...]:
        """Return expected rows; unless a part of the columns is compared, all are written."""
        rows = tuple(rows)
        for row in rows:
            missing = [n for n in schema.names if n not in row.values and n != DELETE]
            if missing and not written.is_subset:
                hint = f"write {missing[0]}: ... (null is a value too), or add match: subset"
                names = ", ".join(f'"{name}"' for name in missing)
                self._report(f"the expected row has no {names}", row.location, hint)
        return self._type_rows(rows, schema, is_whole=False)

    def _type_rows(
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
                self._report(f'there is no column "{name}"', name.locate(), hint)
                continue
            try:
                typed[column.name] = ValueConverter(self.test.day).convert(value, column.type)
            except WrongValue as wrong:
                place = (wrong.text or _find_text(value) or name).locate()
                self._report(f"{name}: {wrong.message}", place, wrong.hint)
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
            self._report(message, row.location)


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
