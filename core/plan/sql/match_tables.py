"""Matches of a pattern as a table: `match_recognize (...)` as a step with the clause `match`.

Tests: tests/core/plan/sql/test_match_tables.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TypeAlias

from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.patterns.automaton import build_automaton
from headrace.core.patterns.parser import parse_pattern
from headrace.core.patterns.pattern import Pattern
from headrace.core.pipeline.clauses.match import MatchClause, Skip
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text, TextPart
from headrace.core.plan.matches import FIRST_ROW_HINT
from headrace.core.plan.nodes import MATCH_BOUNDS
from headrace.core.plan.sql.event_order import check_event_order
from headrace.core.plan.sql.items import write_select
from headrace.core.plan.sql.match_references import MatchReferences
from headrace.core.plan.sql.rankings import write_key
from headrace.core.plan.sql.steps import Draft, Relation, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery, build_all
from headrace.core.plan.sql.time_bounds import find_column, read_interval
from headrace.core.sql.syntax_tree import MatchTable
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

Column: TypeAlias = tuple[str, Text, Span]
"""The name of a column, its text and its place."""

UNNAMED = "match"
"""The name of a table of matches that has none."""
WITHIN_HINT = "as in within interval '10' minutes"

_FOREIGN_PARTS = (
    (
        compile_pattern(r"\{-"),
        "{- ... -} is not supported",
        "all rows per match has classifier(), by which the query around leaves rows out",
    ),
    (
        compile_pattern(r"\bpermute\s*\(", re.IGNORECASE),
        "permute is not supported",
        "write the orders as alternatives, whose variables have names of their own",
    ),
)
"""Parts of patterns that `match` does not have, with messages and hints."""
_MISSING_NUMBER = compile_pattern(r"\{\s*(?=,)")
"""The place of the missing number in `{,3}`."""
_WORDS = {
    "as in within: 10m": WITHIN_HINT,
    FIRST_ROW_HINT: "add what holds for the first row, with `or`",
    "as in key: user": "as in partition by user",
    "match without key": "match_recognize without partition by",
    "after_match: next": "after match skip to next row",
    "after_match:": "after match skip:",
    "cannot be used in emit": "cannot be used in measures",
    "with and select may read it": "the query around may read it",
    "emit what it reads, and let it fail in the next step": (
        "measure what it reads, and compute it in the query around"
    ),
}
"""The words of YAML in messages about `match`, and those of SQL."""


@dataclass(slots=True)
class MatchTableBuilder:
    """Builds the step of a `match_recognize`; `path` is the place of its query in the whole one."""

    writer: StepWriter
    texts: QueryTexts
    path: tuple[str, ...]
    written: MatchTable
    rows: Relation
    """The rows in which matches are found."""

    def build(self) -> Relation:
        """Return the matches as a table. Raises RejectedQuery."""
        written, rows, texts = self.written, self.rows, self.texts
        word = written.places["match_recognize"]
        check_event_order(
            "match_recognize",
            word,
            written.order_by,
            rows.scope,
            texts,
            has_event_time=rows.has_event_time,
            reason="a match is a row after another",
            order_hint="as in order by {}, after partition by",
        )
        pattern, text = self._read_pattern()
        time, automaton = written.order_by[0].expression, build_automaton(pattern)
        references = MatchReferences(texts, rows.scope, pattern.names, automaton, time)
        keys = build_all(written.partition_by, lambda each: write_key(each, rows.scope, texts))
        self._check_names(((e.name, e.name_span) for e in written.define), "conditions of")
        define = build_all(written.define, references.write_condition)
        write = references.write_row_measure if written.all_rows else references.write_measure
        measures = build_all(written.measures, write)
        emit = self._name_measures(measures, [str(name) for name, _ in keys])
        columns = [*self._list_columns([name for name, _ in keys], emit)]
        hint = "give the measure another name"
        self._check_names(((name, place) for name, _, place in columns), "columns", hint)
        if not columns:
            message = "match_recognize has no columns without partition by and measures"
            raise texts.reject(message, word, "as in measures last(a.id) as id, before pattern")
        draft = Draft((rows,), rows.scope, rows.scope.tables)
        draft.places.update(match=word, key=written.places.get("partition", word), select=word)
        if keys:
            draft.clauses["key"] = tuple(Assignment(*key) for key in keys)
        draft.clauses["match"] = self._write_clause(text, define, emit)
        draft.clauses["select"] = write_select(columns, texts)
        return self._write(draft)

    def _write_clause(
        self, pattern: Text, define: Iterable[Assignment], emit: tuple[Assignment, ...]
    ) -> MatchClause:
        return MatchClause.model_construct(
            pattern=pattern,
            define=tuple(define),
            within=self._read_within(),
            after_match=self._write_skip(),
            emit=None if self.written.all_rows else emit,
            all_rows=self.written.all_rows,
        )

    def _write(self, draft: Draft) -> Relation:
        """Build the step; messages about its clauses are in the words of SQL."""
        problems, alias = self.texts.report.problems, self.written.alias or UNNAMED
        before = len(problems)
        try:
            return self.writer.write(draft, self.writer.choose_name(*self.path, alias), alias)
        finally:
            problems[before:] = [
                replace(each, message=_translate(each.message), hint=_translate(each.hint))
                for each in problems[before:]
            ]

    def _read_pattern(self) -> tuple[Pattern, Text]:
        """Return the pattern, and its text as `match` has it."""
        texts, span = self.texts, self.written.pattern
        text = texts.read(span)
        for part, message, hint in _FOREIGN_PARTS:
            if found := part.search(text):
                place = Span(span.start + found.start(), span.start + found.end())
                raise texts.reject(message, place, hint)
        ends = [span.start + found.end() for found in _MISSING_NUMBER.finditer(text)]
        parts = [TextPart(span.start, span.start)]
        for start, end in pairwise((span.start, *ends, span.end)):
            parts += [TextPart(start, end), TextPart(end, end, "0")]
        made = texts.written.text.compose(parts[1:-1])
        try:
            return parse_pattern(made.reveal()), made
        except ExpressionError as error:
            place_of_error = made.locate(error.span.start, error.span.end)
            texts.report.add(error.message, place_of_error, error.hint)
        raise RejectedQuery

    def _check_names(self, names: Iterable[tuple[str, Span]], what: str, hint: str = "") -> None:
        """Refuse two items of one name. Raises RejectedQuery."""
        seen = set[str]()
        for name, place in names:
            if name in seen:
                raise self.texts.reject(f'there are two {what} "{name}"', place, hint)
            seen.add(name)

    def _read_within(self) -> timedelta | None:
        node = self.written.within
        if node is None:
            return None
        length = read_interval(node)
        if length is None or length <= timedelta():
            what = self.texts.cut(node.span)
            message = f"within wants an interval of days to seconds above 0, got {what}"
            raise self.texts.reject(message, node.span, WITHIN_HINT)
        return length

    def _write_skip(self) -> Skip | None:
        skip = self.written.after_match
        if skip is None:
            return None
        rule, to = self.texts.name(skip.rule, skip.span), skip.variable
        return Skip(rule, None if to is None else self.texts.name(to.name, to.span))

    def _name_measures(
        self, measures: Iterable[Assignment], keys: Iterable[str]
    ) -> tuple[Assignment, ...]:
        """Return measures under names that no other column of `match` has."""
        taken = {*keys, *(field.name for field in MATCH_BOUNDS)}
        made = list[Assignment]()
        for measure, each in zip(measures, self.written.measures, strict=True):
            name = each.name
            while not self.written.all_rows and name in taken:
                name += "_"
            made.append(replace(measure, name=self.texts.name(name, each.name_span)))
        return tuple(made)

    def _list_columns(self, keys: Iterable[Text], emit: Iterable[Assignment]) -> Iterator[Column]:
        """Yield the columns of the table: the keys and the measures, and with `all rows` those of
        the rows, that of `order by` first."""
        written, texts, scope = self.written, self.texts, self.rows.scope
        word = written.places["match_recognize"]
        read = [find_column(each, scope) for each in written.partition_by]
        for key, column, node in zip(keys, read, written.partition_by, strict=True):
            name = column.name if column else str(key)
            yield name, texts.name(quote_name(key), node.span), node.span
        time = find_column(written.order_by[0].expression, scope)
        others = [each for each in scope.columns if each not in (*read, time)]
        if written.all_rows and time is not None and time not in read:
            yield time.name, texts.name(time.text, word), word
        for each, made in zip(written.measures, emit, strict=True):
            text = made.expression if written.all_rows else None
            text = text or texts.name(quote_name(made.name), each.name_span)
            yield each.name, text, each.name_span
        for column in others if written.all_rows else ():
            yield column.name, texts.name(column.text, word), word


def _translate(text: str) -> str:
    """Return a message about `match` in the words of SQL."""
    for word, other in _WORDS.items():
        text = text.replace(word, other)
    return text
