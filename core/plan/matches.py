"""The clause `match` as an operation of the plan: its pattern, conditions and columns, checked.

Tests: tests/core/plan/test_matches.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.core.errors.problems import Location, suggest_name
from headrace.core.expressions.typed import (
    ColumnReference,
    ExpressionError,
    FunctionCall,
    ProcessingTime,
    Span,
    TypedExpression,
    is_fallible,
    walk,
)
from headrace.core.patterns.automaton import END, NO_VARIABLE, Automaton, build_automaton
from headrace.core.patterns.parser import parse_pattern
from headrace.core.patterns.pattern import Group, Pattern, Variable
from headrace.core.pipeline.clauses.match import MatchClause, Skip
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.truncated_values import ends_with_comment
from headrace.core.plan.columns import KnownColumns, PlanProblems
from headrace.core.plan.match_expressions import type_match_column, type_match_condition
from headrace.core.plan.nodes.matches import (
    INCOMPLETE_FIELDS,
    MATCH_BOUNDS,
    SKIP_RULES,
    AfterMatch,
    Match,
    MatchCondition,
    find_filter_variable,
)
from headrace.core.plan.nodes.rows import AggregatedColumn, ComputedColumn
from headrace.core.plan.window_clauses import to_microseconds
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression

COMMENT_HINT = 'a "#" after a space begins a comment, which is no part of the pattern'
WITHIN_HINT = "as in within: 10m"
FIRST_ROW_HINT = "last(up.price, low.price) has a second argument, for the first row"
_COMPARISONS = ("<", "<=", "=", ">=", ">", "<>")
"""Functions that are null if an argument is."""


@dataclass(slots=True)
class MatchBuilder:
    """Builds the operation of a `match`; `known_columns` are its output columns after `build`."""

    written: MatchClause
    key: tuple[ComputedColumn, ...]
    known_columns: KnownColumns
    report: PlanProblems

    def build(self) -> Match | None:
        """Return the operation, and set `known_columns` to its output columns."""
        rows, written = self.known_columns, self.written
        pattern = self._parse_pattern()
        if pattern is None:
            self.known_columns = KnownColumns(Schema(()), is_open=True)
            return None
        automaton = build_automaton(pattern)
        self._check_names(pattern)
        self._check_reach(pattern, automaton)
        self._check_time(pattern, automaton)
        conditions = tuple(self._build_conditions(pattern, automaton))
        emit, broken = self._build_columns(pattern)
        after = self._build_after_match(pattern, automaton)
        within = None if written.within is None else to_microseconds(written.within)
        match = Match(
            self.key,
            pattern,
            conditions,
            within,
            after,
            emit,
            bool(written.all_rows),
            rows.schema,
            int(written.max_runs),
            None if written.late_to is None else str(written.late_to),
            None if written.incomplete_to is None else str(written.incomplete_to),
        )
        schema = self._build_schema(match)
        self.known_columns = KnownColumns(schema, rows.broken_names | broken, rows.is_open)
        return match

    @property
    def _pattern(self) -> Text:
        assert self.written.pattern is not None, "the document checked it"
        return self.written.pattern

    def _locate(self, span: Span) -> Location:
        return self._pattern.locate(span.start, span.end)

    def _parse_pattern(self) -> Pattern | None:
        try:
            return parse_pattern(self._pattern.reveal())
        except ExpressionError as error:
            is_at_end = error.span.end >= len(self._pattern.reveal().rstrip())
            is_cut = is_at_end and ends_with_comment(self._pattern.scalar)
            hint = COMMENT_HINT if is_cut else error.hint
            self.report.add(error.message, self._locate(error.span), hint)
        return None

    def _check_names(self, pattern: Pattern) -> None:
        for part in pattern.walk():
            if not isinstance(part, Group) and part.name in self.known_columns.schema:
                message = f'pattern: "{part.name}" is a variable and also a column'
                self.report.add(message, self._locate(part.span), "give the variable another name")
        for each in self.written.define or ():
            if each.name not in pattern.names:
                message = f'define: the pattern has no variable "{each.name}"'
                near = suggest_name(each.name, pattern.names)
                hint = near or f"its variables are {', '.join(pattern.names)}"
                self.report.add(message, each.name.locate(), hint)

    def _check_reach(self, pattern: Pattern, automaton: Automaton) -> None:
        """Report variables that never have a row."""
        reached = {automaton.variables[position] for position in automaton.find_reached()}
        for part in pattern.walk():
            if isinstance(part, Variable) and pattern.names.index(part.name) not in reached:
                message = f'pattern: "{part.name}" never has a row'
                hint = (
                    "what comes before it is complete without it: a reluctant quantifier at the "
                    "end takes as few rows as it can"
                )
                self.report.add(message, self._locate(part.span), hint)

    def _check_time(self, pattern: Pattern, automaton: Automaton) -> None:
        """Report what needs `within`, and warn of runs that may wait for ever."""
        if self.written.within is not None:
            return
        negated = pattern.last_negation
        if negated is not None:
            message = f'pattern: "{negated}" at the end needs within'
            hint = f"it says how long no such row may come, {WITHIN_HINT}"
            self.report.add(message, self._locate(negated.span), hint)
        elif _grows_for_ever(automaton):
            message = "pattern: a match could grow for ever, so it needs within"
            hint = f"{WITHIN_HINT}; or end it with a reluctant quantifier or another variable"
            self.report.add(message, self._pattern.locate(), hint)
        elif _may_wait(automaton, automaton.find_reached()):
            message = "pattern: a match that began waits for ever for its next row"
            hint = f"{WITHIN_HINT} gives it up"
            self.report.warn(message, self._pattern.locate(), hint)

    def _build_conditions(self, pattern: Pattern, automaton: Automaton) -> Iterator[MatchCondition]:
        written = {str(each.name): each.expression for each in self.written.define or ()}
        for number, name in enumerate(pattern.names):
            text = written.get(name)
            if text is None:
                continue
            typed = type_match_condition(text, pattern.names, self.known_columns, self.report)
            if typed is None:
                continue
            self._check_clock(text, typed, "define")
            if typed.calls:
                hint = "an earlier step can reject rows, and a condition of its columns alone"
                self._check_failure(text, typed, "a condition over the rows before", hint)
            condition = MatchCondition(name, typed, text.printable)
            self._check_first_row(condition, text)
            earlier = {pattern.names[at] for at in automaton.find_earlier(number)}
            for other in sorted(condition.references - earlier):
                message = f'define: "{other}" has no row yet when a row is tested for "{name}"'
                hint = f"{name} comes before {other} in the pattern: compare them in {other}"
                if other == name:
                    hint = f"the row before it has another variable, or write {name}+ for several"
                if other in pattern.negated_variables:
                    hint = f"no row is ever matched as {other}"
                self.report.add(message, text.locate(), hint)
            yield condition

    def _check_first_row(self, condition: MatchCondition, text: Text) -> None:
        """Warn of a condition that compares each first row of its variable with null."""
        name = condition.variable
        own = {
            call.name
            for call in condition.value.calls
            if call.nullable
            and call.condition
            and find_filter_variable(call.condition.typed) == name
        }
        if any(compared.name in own for compared in _list_compared(condition.value.finish)):
            message = f'define: "{name}" never has a first row: what it compares with is null then'
            self.report.warn(message, text.locate(), FIRST_ROW_HINT)

    def _build_columns(self, pattern: Pattern) -> tuple[tuple[AggregatedColumn, ...], set[str]]:
        """Return the columns of a match, and the names of those that are invalid."""
        columns, broken = list[AggregatedColumn](), set[str]()
        if self.written.emit and self.written.all_rows:
            at = self.written.emit[0].name.locate()
            message = "match: emit does not go with all_rows"
            hint = "all_rows emits the columns of each row; over adds columns to them"
            self.report.add(message, at, hint)
            return (), {str(each.name) for each in self.written.emit or ()}
        taken = {each.name for each in self.key} | {field.name for field in MATCH_BOUNDS}
        if self.written.incomplete_to is not None:
            taken |= {field.name for field in INCOMPLETE_FIELDS}
        for each in self.written.emit or ():
            assert each.expression is not None, "a column of a match is an expression"
            if each.name in taken:
                message = f'match: the column "{each.name}" is there already'
                self.report.add(message, each.name.locate(), "give this one another name")
            typed = type_match_column(
                each.expression,
                pattern.variables,
                pattern.negated_variables,
                self.known_columns,
                self.report,
            )
            if typed is None:
                broken.add(str(each.name))
                continue
            self._check_clock(each.expression, typed, "emit")
            hint = "emit what it reads, and let it fail in the next step"
            self._check_failure(each.expression, typed, "a column of a match", hint)
            columns.append(AggregatedColumn(str(each.name), typed, each.expression.printable))
        return tuple(columns), broken

    def _check_clock(self, text: Text, typed: AggregateExpression, clause: str) -> None:
        if any(
            isinstance(node, ProcessingTime) for part in list_parts(typed) for node in walk(part)
        ):
            message = f"the processing time cannot be used in {clause}"
            self.report.add(message, text.locate(), "with and select may read it")

    def _check_failure(self, text: Text, typed: AggregateExpression, what: str, hint: str) -> None:
        """Report an expression that could only fail after its rows have been matched."""
        if is_fallible(typed.finish):
            self.report.add(f"{what} cannot fail: there is no row to reject", text.locate(), hint)

    def _build_after_match(self, pattern: Pattern, automaton: Automaton) -> AfterMatch:
        skip = self.written.after_match or Skip(Text("past_last"))
        rule, variable = SKIP_RULES[skip.rule], skip.variable
        if variable is None:
            return AfterMatch(rule)
        if variable not in pattern.variables:
            what = "is negated: it has no row" if variable in pattern.names else "is no variable"
            message = f'after_match: "{variable}" {what}'
            near = suggest_name(variable, pattern.variables)
            hint = near or f"the variables are {', '.join(pattern.variables)}"
            self.report.add(message, variable.locate(), hint)
            return AfterMatch()
        number = pattern.names.index(variable)
        is_start = all(option.variable == number for option in automaton.start)
        if is_start and (rule == "first" or number not in automaton.find_earlier(number)):
            message = f'after_match: the {rule} row of "{variable}" is where the match began'
            hint = "the same match would be found again; after_match: next begins after that row"
            self.report.add(message, variable.locate(), hint)
        return AfterMatch(rule, str(variable))

    def _build_schema(self, match: Match) -> Schema:
        """Return the columns of the emitted rows, and report names that are there twice."""
        schema = match.schema
        names = [field.name for field in match.fields] if match.all_rows else []
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            message = f'match: there are two columns "{name}"'
            self.report.add(message, self._pattern.locate(), "rename it in an earlier step")
        return schema


def _list_compared(condition: TypedExpression) -> Iterator[ColumnReference]:
    """Yield the columns that a condition, or a part that `and` joins, compares with something."""
    match condition:
        case FunctionCall(function="and", arguments=parts):
            for part in parts:
                yield from _list_compared(part)
        case FunctionCall(function=name, arguments=sides) if name in _COMPARISONS:
            yield from (side for side in sides if isinstance(side, ColumnReference))


def list_parts(typed: AggregateExpression) -> Iterator[TypedExpression]:
    """Yield the expressions inside and outside of calls."""
    yield typed.finish
    for call in typed.calls:
        yield from (each.typed for each in call.all_inputs)


def _grows_for_ever(automaton: Automaton) -> bool:
    """Whether a complete match may wait for ever for rows that make a better one."""
    for position in automaton.find_reached():
        following = automaton.following[position]
        ends = any(o.position == END and o.negated == NO_VARIABLE for o in following)
        if ends and len(following) > 1:
            better = {position, *_find_later(automaton, position)}
            if _may_wait(automaton, better):
                return True
    return False


def _find_later(automaton: Automaton, position: int) -> set[int]:
    """Return the positions that may follow one, after any number of others."""
    found, pending = set[int](), [position]
    while pending:
        for option in automaton.following[pending.pop()]:
            if option.position != END and option.position not in found:
                found.add(option.position)
                pending.append(option.position)
    return found


def _may_wait(automaton: Automaton, positions: Iterable[int]) -> bool:
    """Whether a run may outlive rows that do not fit, after one of these positions."""
    return any(
        option.position != END and option.sign != "next"
        for position in positions
        for option in automaton.following[position]
    )


def build_incomplete_columns(match: Match) -> KnownColumns:
    """Return the columns of partial matches."""
    return KnownColumns(match.incomplete_schema)
