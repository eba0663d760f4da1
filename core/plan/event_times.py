"""The event time and the watermark of a source: columns, or expressions over its rows.

Expressions are computed where rows are read, split by split, so that watermarks are those of
splits. A step without state may give the event time instead: its expression is moved to the source,
behind the conditions of the steps between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.typed import ProcessingTime, TypedExpression, walk
from headrace.core.pipeline.model import Source
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.columns import KnownColumns, PlanProblems, type_column
from headrace.core.types.data_types import TIMESTAMP, Field
from headrace.core.types.lazy_dataclass import dataclass

SuggestTimestamp: TypeAlias = Callable[[Source, Field], str]
"""Returns the hint for a column of another type than timestamp."""


@dataclass(frozen=True, slots=True)
class SourceTimes:
    """The columns of the event time and of the watermark, and those that are computed."""

    event_time: str | None = None
    computed: tuple[nodes.ComputedColumn, ...] = ()


def build_source_times(
    source: Source, known: KnownColumns, suggest: SuggestTimestamp, report: PlanProblems
) -> SourceTimes:
    """Return the times of a source, and report errors in them."""
    text = source.event_time
    if text is None:
        if source.watermark is not None:
            place = source.keys_at["watermark"].locate()
            report.add("a watermark needs an event time", place, "add event_time: COLUMN")
        return SourceTimes()
    times = _TimeTyping(source, known, suggest, report)
    computed = [times.type_time(text, "event_time", nodes.EVENT_TIME_VALUE)]
    if source.watermark and source.watermark.from_ is not None:
        marks = times.type_time(source.watermark.from_, "watermark", nodes.WATERMARK_VALUE)
        computed.append(marks)
    name = nodes.EVENT_TIME_VALUE if computed[0] else text.reveal()
    return SourceTimes(name, tuple(filter(None, computed)))


@dataclass(frozen=True, slots=True)
class _TimeTyping:
    """The typing of the times of a source."""

    source: Source
    known: KnownColumns
    suggest: SuggestTimestamp
    report: PlanProblems

    def type_time(self, text: Text, key: str, name: str) -> nodes.ComputedColumn | None:
        """Return the computed column of an expression; None if it is a column, or invalid."""
        field = self.known.schema.get(text.reveal())
        if field is not None:
            self._check_column(field, text, key)
            return None
        if text.isidentifier():
            if not self.known.may_have(text):
                hint = suggest_name(text, self.known.schema.names)
                hint = hint or f"the columns are {', '.join(self.known.schema.names)}"
                self.report.add(f'{key}: unknown column "{text}"', text.locate(), hint)
            return None
        typed = type_time_expression(text, key, self.known, self.report)
        return None if typed is None else nodes.ComputedColumn(name, typed, text.printable)

    def _check_column(self, field: Field, text: Text, key: str) -> None:
        if field.type == TIMESTAMP:
            return
        message = f'{key}: wanted a timestamp, got "{text}" of type {field.type}'
        hint = self.suggest(self.source, field) if key == "event_time" else ""
        self.report.add(message, text.locate(), hint)


def type_time_expression(
    text: Text,
    key: str,
    known: KnownColumns,
    report: PlanProblems,
    clock_hint: str = "leave out event_time, and use time: processing",
) -> TypedExpression | None:
    """Return the typed expression of a time; None if it is none, which is reported.

    `clock_hint` says what to do in place of reading the clock.
    """
    typed = type_column(text, known, report)
    if typed is None:
        return None
    if typed.type != TIMESTAMP:
        message = f"{key}: wanted a timestamp, got an expression of type {typed.type}"
        hint = "to_timestamp(...) reads text, timestamp_millis(...) a number of milliseconds"
        report.add(message, text.locate(), hint)
        return None
    if any(isinstance(node, ProcessingTime) for node in walk(typed)):
        message = f"{key}: the time at which a row is read is another one after each restart"
        report.add(message, text.locate(), clock_hint)
        return None
    return typed
