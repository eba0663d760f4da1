"""Rules of `match`: the operation of a step whose patterns come as rows, and the pattern of a row.

The texts of a row are read as those of the clause are, by the same models, so a mistake has the
message that it has in a pipeline, and its place in the text of the column.

Tests: tests/core/plan/test_rule_matches.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.core.aggregates.calls import AggregateExpression
from headrace.core.errors.problems import Problem, find_nearest_name, suggest_name
from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.coercion import common_type
from headrace.core.expressions.typed import (
    NOWHERE,
    Constant,
    is_fallible,
    reference_field,
)
from headrace.core.patterns.pattern import Pattern
from headrace.core.pipeline.clauses.match import MATCH_KEY_ALIASES, MatchClause
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.sections import DocumentSection
from headrace.core.pipeline.text import BROKEN, NOTHING, Text
from headrace.core.pipeline.validation import validate
from headrace.core.pipeline.yaml_document.composer import compose_document
from headrace.core.pipeline.yaml_document.nodes import (
    YamlEntry,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)
from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.plan.columns import UNKNOWN_COLUMNS, KnownColumns, PlanProblems
from headrace.core.plan.keyed_operations import KeyedInput, KeyedOperationBuilder
from headrace.core.plan.matches import MatchBuilder, list_parts
from headrace.core.plan.nodes import (
    MATCH_BOUNDS,
    AfterMatch,
    AggregatedColumn,
    ComputedColumn,
    Join,
    JoinSide,
    Match,
)
from headrace.core.plan.nodes.matches import INCOMPLETE_FIELDS
from headrace.core.plan.nodes.matching import RuleMatch
from headrace.core.types.data_types import BOOLEAN, STRING, Field, MapType, Type
from headrace.core.types.lazy_dataclass import dataclass

MAX_RULES = 1000
"""The largest number of rules that hold at the same time."""

RULE_COLUMN = "rule"
"""The column with the name of a rule, in its rows and in those of its matches."""
REMOVED_COLUMN = "removed"
_TEXTS = (STRING,)
_MAPPINGS = (STRING, MapType(STRING, STRING))
RULE_COLUMNS: Mapping[str, tuple[Type, ...]] = {
    RULE_COLUMN: _TEXTS,
    "pattern": _TEXTS,
    "define": _MAPPINGS,
    "emit": _MAPPINGS,
    "within": _TEXTS,
    "after_match": _TEXTS,
    REMOVED_COLUMN: (BOOLEAN,),
}
"""The columns of a rule, with their types; the first two are always there."""
COLUMN_ALIASES: Mapping[str, str] = {
    **{name: key for name, key in MATCH_KEY_ALIASES.items() if name != "time"},
    **dict.fromkeys(("name", "id", "rule_id", "rule_name", "key"), RULE_COLUMN),
    **dict.fromkeys(("deleted", "delete", "disabled", "remove"), REMOVED_COLUMN),
}
"""Names that a column of rules may have elsewhere, with the name that it has here."""
DEFINITION_COLUMNS = ("pattern", "define", "emit", "within", "after_match")
"""The columns that say what a rule means."""


class InvalidRule(Exception):
    """A row of which no rule can be made."""


def build_rule_match(
    step: Step, sides: Sequence[tuple[str, KnownColumns, bool]], report: PlanProblems
) -> tuple[KnownColumns, tuple[Join, ...]]:
    """Return the output columns of a `match` with rules, and the operation if it is valid.

    `sides` has the name, the columns, and whether there is an event time, of both inputs.
    """
    written = step.match
    assert written is not None and written.rules is not None, "the step has rules"
    (name, known, _), (rules_name, rules, _) = sides
    place = step.keys_at["match"].locate()
    for each, is_timed in ((side, timed) for side, _, timed in sides):
        if not is_timed:
            message = f'match goes by event time, but "{each}" has none'
            report.add(message, place, "set event_time in the source")
    if step.key is None:
        message = "match without key: all rows are one group, in one subtask"
        report.warn(message, place, "as in key: user")
    rows = KeyedInput(replace(known, has_row_place=False), True, ())
    key = KeyedOperationBuilder(step, rows, report).build_step_key()
    rule_fields = list(_choose_rule_columns(written.rules, rules, report))
    match = _build_common_match(written, key, known, report)
    if not known.is_complete or len(rule_fields) < 2:
        return UNKNOWN_COLUMNS, ()
    left, right = (
        tuple(ComputedColumn(field.name, reference_field(field)) for field in fields)
        for fields in (known.schema, rule_fields)
    )
    join = Join(
        JoinSide(name, key, left),
        JoinSide(rules_name, (), right),
        "inner",
        RuleMatch(match),
        None,
        "",
        (match.late_to, None),
    )
    return KnownColumns(match.schema), (join,)


def _choose_rule_columns(name: Text, known: KnownColumns, report: PlanProblems) -> Iterator[Field]:
    """Yield the columns of the rules that are read, and report what does not fit."""
    for column, types in RULE_COLUMNS.items():
        field = known.schema.get(column)
        if field is None:
            _report_missing_column(name, column, known, report)
        elif field.type not in types:
            wanted = " or ".join(map(str, types))
            message = f'match.rules: wanted "{column}" of type {wanted}, got {field.type}'
            report.add(message, name.locate(), "convert it in a step before")
        else:
            yield field


def _report_missing_column(
    name: Text, column: str, known: KnownColumns, report: PlanProblems
) -> None:
    """Report a column that rules need, or one that seems to have another name."""
    fitting = [each.name for each in known.schema if each.type in RULE_COLUMNS[column]]
    others = [each for each in fitting if each not in RULE_COLUMNS]
    meant = next((each for each in others if COLUMN_ALIASES.get(each.lower()) == column), "")
    meant = meant or find_nearest_name(column, others, similarity=0.75)
    message = f'match.rules: "{name}" has no column "{column}"'
    hint = f"rows of rules have {', '.join(RULE_COLUMNS)}; the first two are needed"
    if meant:
        hint = f"a step before can rename {meant}, as in with: {{{column}: {meant}}}"
    if column not in (RULE_COLUMN, "pattern"):
        if meant:
            report.warn(f'{message}, and does not read "{meant}"', name.locate(), hint)
    elif not known.may_have(column):
        report.add(message, name.locate(), hint)


def _build_common_match(
    written: MatchClause, key: tuple[ComputedColumn, ...], known: KnownColumns, report: PlanProblems
) -> Match:
    """Return what all rules have in common."""
    late_to = None if written.late_to is None else str(written.late_to)
    incomplete_to = None if written.incomplete_to is None else str(written.incomplete_to)
    taken = {each.name for each in key}
    if RULE_COLUMN in taken:
        message = f'match: the key has a column "{RULE_COLUMN}", the name of the rule'
        assert written.rules is not None
        report.add(message, written.rules.locate(), "give the column of the key another name")
    taken |= {RULE_COLUMN, *(field.name for field in MATCH_BOUNDS)}
    if incomplete_to is not None:
        taken |= {field.name for field in INCOMPLETE_FIELDS}
    returns = written.returns
    for each in returns.names if returns else ():
        if each in taken:
            message = f'match: the column "{each}" is there already'
            report.add(message, each.locate(), "give this one another name")
    fields = returns.schema if returns else ()
    match = Match(
        (*key, _build_rule_column("")),
        Pattern(()),
        (),
        None,
        AfterMatch(),
        tuple(_build_null(field) for field in fields),
        bool(written.all_rows),
        known.schema,
        int(written.max_runs),
        late_to,
        incomplete_to,
        stores_rows=True,
    )
    names = [field.name for field in match.fields] if match.all_rows else []
    for repeated in dict.fromkeys(each for each in names if names.count(each) > 1):
        assert written.rules is not None
        message = f'match: there are two columns "{repeated}"'
        report.add(message, written.rules.locate(), "rename it in an earlier step")
    return match


def _build_rule_column(name: str) -> ComputedColumn:
    return ComputedColumn(RULE_COLUMN, Constant(STRING, False, NOWHERE, name), RULE_COLUMN)


def _build_null(field: Field) -> AggregatedColumn:
    """Return a column whose rule does not emit it."""
    value = Constant(field.type, True, NOWHERE, None)
    return AggregatedColumn(field.name, AggregateExpression((), value), f"null as {field.type}")


@dataclass(frozen=True, slots=True)
class RuleCompiler:
    """The compiler of rules, for what all of them have in common."""

    common: Match

    def compile(self, row: Mapping[str, Any]) -> Match:
        """Return the match of a row, by the names of the columns. Raises InvalidRule."""
        name, problems = row[RULE_COLUMN], PlanProblems()
        if not name:
            actual = "null" if name is None else "empty"
            raise InvalidRule(f'a rule has a name, but the column "rule" is {actual}')
        definition = read_definition(row)
        if definition["pattern"] is None:
            actual = "null" if row["pattern"] is None else "an empty text"
            raise InvalidRule(
                f'rule "{name}": wanted a pattern, got {actual}; removed: true removes a rule'
            )
        clause = _read_clause(definition, problems)
        match = None if clause is None else self._build(clause, problems)
        errors = [each for each in problems.problems if each.severity == "error"]
        if errors or match is None:
            raise InvalidRule("\n".join(partial(_format_problem, name)(each) for each in errors))
        return replace(match, key=(*self.common.key[:-1], _build_rule_column(name)))

    def _build(self, clause: MatchClause, problems: PlanProblems) -> Match | None:
        common = self.common
        known = KnownColumns(common.row)
        columns = clause.model_copy(update={"all_rows": common.all_rows})
        match = MatchBuilder(columns, common.key, known, problems).build()
        if match is None:
            return None
        for key, values in (
            ("define", {each.variable: each.value for each in match.conditions}),
            ("emit", {each.name: each.expression for each in match.emit}),
        ):
            texts = {str(each.name): each.expression for each in getattr(clause, key) or ()}
            for name, value in values.items():
                _check_parts(f'{key}: "{name}"', texts[name], value, problems)
        return replace(
            common,
            pattern=match.pattern,
            conditions=match.conditions,
            within_us=match.within_us,
            after_match=match.after_match,
            emit=tuple(self._list_columns(clause, match, problems)),
        )

    def _list_columns(
        self, clause: MatchClause, match: Match, problems: PlanProblems
    ) -> Iterator[AggregatedColumn]:
        """Yield the columns that all rules have, with the values of this one."""
        emitted = {each.name: each for each in match.emit}
        texts = {str(each.name): each for each in clause.emit or ()}
        known = [column.name for column in self.common.emit]
        for name in texts:
            if name not in known:
                message = f'emit: there is no column "{name}" in returns of the step'
                hint = suggest_name(name, known) or (
                    f"its columns are {', '.join(known)}" if known else "it has no returns"
                )
                problems.add(message, texts[name].name.locate(), hint)
        for column in self.common.emit:
            wanted = column.expression.type
            own = emitted.get(column.name, column)
            finish = own.expression.finish
            if finish.type != wanted:
                text = texts[column.name].expression
                assert text is not None, "a column of a match is an expression"
                if common_type(finish.type, wanted) != wanted:
                    message = f'emit: "{column.name}" is {wanted} in returns, got {finish.type}'
                    hint = f"cast({text.printable} as {wanted})"
                    problems.add(message, text.locate(), hint)
                    continue
                finish = build_cast(finish, wanted, finish.span)
            yield replace(own, expression=replace(own.expression, finish=finish))


def _check_parts(
    what: str, text: Text | None, value: AggregateExpression, problems: PlanProblems
) -> None:
    """Report an expression of a rule that may fail for a row."""
    assert text is not None, "each value is an expression"
    if any(map(is_fallible, list_parts(value))):
        message = f"{what} may fail for a row, which no expression of a rule may"
        problems.add(message, text.locate(), "a step before can compute it, and reject rows")


def _format_problem(name: str, problem: Problem) -> str:
    """Return the message of a problem, after its place in the texts of a rule."""
    at, hint = problem.location, f"; {problem.hint}" if problem.hint else ""
    place = "" if at is None else f"{at.file}:{at.line}:{at.column}: "
    return f'{place}rule "{name}": {problem.message}{hint}'


def read_definition(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the columns that say what a rule means; an empty text is None.

    Some writers of CSV put all values in quotes, so that an empty one is a text.
    """
    values = {column: row.get(column) for column in DEFINITION_COLUMNS}
    return {
        column: None if isinstance(value, str) and not value.strip() else value
        for column, value in values.items()
    }


def _read_clause(definition: Mapping[str, Any], problems: PlanProblems) -> MatchClause | None:
    """Return the clause that a definition is; None if a text cannot be read."""
    entries, found = list[YamlEntry](), DocumentProblems()
    for column, value in definition.items():
        if value is None:
            continue
        node = _build_node(column, value, found)
        is_empty = isinstance(node, YamlMapping) and not node.entries
        if not is_empty or column == "after_match":
            entries.append(YamlEntry(_build_scalar(node.file, column, 0), node))
    whole = YamlMapping(SourceText(RULE_COLUMN, ""), 0, 0, tuple(entries))
    section = DocumentSection(Text(RULE_COLUMN), whole)
    clause = None
    if not found.problems:
        clause = validate(MatchClause, _read_node(whole, found), section, found)
    problems.problems += found.problems
    return None if found.problems else clause


def _build_node(column: str, value: object, problems: DocumentProblems) -> YamlNode:
    """Return the node of a column: a text, or the mapping that a text or a map is."""
    if isinstance(value, Mapping):
        entries = (
            YamlEntry(
                _build_scalar(SourceText(column, str(key)), str(key)),
                _build_scalar(SourceText(f"{column}.{key}", text or ""), text),
            )
            for key, text in value.items()
        )
        return YamlMapping(SourceText(column, ""), 0, 0, tuple(entries))
    file = SourceText(column, str(value))
    if column in ("pattern", "within"):
        return _build_scalar(file, str(value))
    node, errors = compose_document(file)
    problems.extend(errors)
    return _build_scalar(file, "") if node is None else node


def _build_scalar(file: SourceText, text: str | None, end: int | None = None) -> YamlScalar:
    value = text or ""
    end = len(value) if end is None else end
    return YamlScalar(file, 0, end, value, "=", is_text=text is not None)


def _read_node(node: YamlNode, problems: DocumentProblems) -> object:
    """Return the value of a node. Nothing is replaced in it: a rule is no part of the pipeline."""
    match node:
        case YamlScalar():
            return NOTHING if node.is_null else Text(node.value, node)
        case YamlSequence():
            return [_read_node(each, problems) for each in node.items]
        case YamlMapping():
            values = dict[Text, object]()
            for entry in node.entries:
                key = Text(entry.key.value, entry.key)
                if key in values:
                    problems.add(f'duplicate key "{key}"', key.locate())
                values[key] = _read_node(entry.value, problems)
            return values
    return BROKEN
