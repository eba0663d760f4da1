"""Expectations of a test as they would hold: what `headrace test --fix` writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TypeAlias

from headrace.core.pipeline.pipeline_tests.text_edits import (
    Entries,
    ListChange,
    TextEdit,
    edit_list,
    edit_scalar,
)
from headrace.core.pipeline.text import Text
from headrace.core.testing.bound_tests import BoundEvent, BoundTest, Expected, ExpectedStream
from headrace.core.testing.row_text import RowWriter
from headrace.core.testing.visible_rows import Row, are_equal_rows
from headrace.core.types.data_types import BOOLEAN, Field, Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

FIXED_CHECKS = ("rows", "count")
"""The checks that the rows of a stream determine; `where` and `contains` say what a user wants."""


@dataclass(frozen=True, slots=True)
class StreamCorrection:
    """The rows that a stream had when it was compared."""

    expected: ExpectedStream
    rows: Sequence[Row]

    @property
    def name(self) -> Text:
        """The stream, where the expectation is written."""
        return self.expected.written.stream

    def correct(self) -> ExpectedStream:
        """Return the expectation that the rows fulfil."""
        written, rows = self.expected.written, self.expected.rows
        if rows is not None:
            places, more = self._align_rows()
            rows = tuple(dict(row) for row in (*places, *more) if row is not None)
        count = None if written.count is None else len(self.rows)
        return replace(self.expected, rows=rows, written=replace(written, count=count))

    def edit(self, day: date | None) -> Iterator[TextEdit]:
        """Yield the edits of what is written. Raises EditError or UnwritableValue."""
        written, wanted = self.expected.written, self.expected.rows
        if written.count is not None and written.count != len(self.rows):
            yield edit_scalar(written.spots["count"].node, str(len(self.rows)))
        if wanted is None:
            return
        writer = RowWriter(day)
        places, more = self._align_rows()
        change = ListChange(
            {
                at: self._write_row(writer, row)
                for at, row in enumerate(places)
                if row is not None and row is not wanted[at]
            },
            [at for at, row in enumerate(places) if row is None],
            [self._write_row(writer, row) for row in more],
        )
        if change.is_change:
            yield from edit_list(written.spots["rows"], change)

    def _align_rows(self) -> tuple[list[Row | None], list[Row]]:
        """Return the rows in the places of the expected rows, and those that have no place.

        An expected row that came stays in its place. The others give their places to rows that
        came unexpectedly, and are removed if there are not enough of these.
        """
        written, wanted = self.expected.written, self.expected.rows or ()
        left, places = list(self.rows), list[Row | None]()
        for at, row in enumerate(wanted):
            candidates = self.rows[at : at + 1] if written.is_ordered else left
            same = next((r for r in candidates if are_equal_rows(row, r, written.tolerance)), None)
            places.append(None if same is None else row)
            if same is not None:
                left.remove(same)
        if not written.is_ordered:
            left.sort(key=_get_sort_key)
        rest = [self._select_values(row) for row in left]
        for at, place in enumerate(places):
            if place is None and rest:
                places[at] = rest.pop(0)
        return places, list[Row](rest)

    def _select_values(self, row: Row) -> dict[str, object]:
        """Return the values of a row that a test names."""
        return {
            name: bool(row[name]) if name == DELETE else row[name]
            for name in self._list_names()
            if name != DELETE or row.get(DELETE)
        }

    def _list_names(self) -> list[str]:
        """Return the columns to write, in the order in which the test has them."""
        names = list(dict.fromkeys(name for row in self.expected.rows or () for name in row))
        if names and self.expected.written.is_subset:
            return names
        return [*names, *(name for name in self._get_schema().names if name not in names)]

    def _get_schema(self) -> Schema:
        schema = self.expected.stream.schema
        is_changelog = self.expected.written.is_changelog
        return Schema((*schema, Field(DELETE, BOOLEAN))) if is_changelog else schema

    def _write_row(self, writer: RowWriter, row: Row) -> Entries:
        return writer.write_entries(row, self._get_schema(), row)


def _get_sort_key(row: Row) -> list[tuple[bool, object]]:
    """Return by what rows are sorted that have no order of their own: their values, null first."""
    return [
        (value is not None, repr(value) if isinstance(value, dict | list) else value)
        for value in row.values()
    ]


@dataclass(frozen=True, slots=True)
class CounterCorrection:
    """The value that a counter had when it was compared."""

    name: Text
    value: int
    expected: Expected

    def edit(self, day: date | None) -> Iterator[TextEdit]:
        """Yield the edit of what is written. Raises EditError."""
        yield edit_scalar(self.expected.written.metric_spots[self.name].node, f"{self.value}")


Correction: TypeAlias = StreamCorrection | CounterCorrection


def correct_test(test: BoundTest, corrections: Sequence[Correction]) -> BoundTest:
    """Return a test with these corrections of its expectations."""
    streams = {id(c.expected): c.correct() for c in corrections if isinstance(c, StreamCorrection)}
    counters: dict[int, dict[Text, int]] = {}
    for each in corrections:
        if isinstance(each, CounterCorrection):
            counters.setdefault(id(each.expected), {})[each.name] = each.value

    def correct_event(event: BoundEvent) -> BoundEvent:
        if not isinstance(event, Expected):
            return event
        metrics: Mapping[Text, int] = {**event.written.metrics, **counters.get(id(event), {})}
        found = tuple(streams.get(id(each), each) for each in event.streams)
        return Expected(replace(event.written, metrics=metrics), found)

    return replace(test, events=tuple((at, correct_event(event)) for at, event in test.events))
