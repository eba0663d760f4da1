"""The rows of a step with `match` and rules: each rule is a pattern over the rows of its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.core.expressions.typed import Constant
from headrace.core.plan import nodes
from headrace.core.plan.rule_matches import (
    MAX_RULES,
    REMOVED_COLUMN,
    RULE_COLUMN,
    InvalidRule,
    RuleCompiler,
    read_definition,
)
from headrace.core.testing.reference.keyed_steps import group_rows
from headrace.core.testing.reference.match_finder import NEVER_US
from headrace.core.testing.reference.matches import match_rows
from headrace.core.testing.reference.rows import Rows, TimedRow, Value
from headrace.core.types.lazy_dataclass import dataclass


@dataclass()
class RuleSpan:
    """A rule, and the time in which it holds."""

    definition: dict[str, Value]
    match: nodes.Match
    since_us: int
    until_us: int = NEVER_US


def match_rules(
    join: nodes.Join, common: nodes.Match, rows: Rows, rules: Rows
) -> tuple[Rows, Rows, Rows]:
    """Return the rows for matches and for incomplete matches, and the rows that are no rules."""
    complete: Rows = []
    incomplete: Rows = []
    failed: Rows = []
    spans = list(_find_spans(RuleCompiler(common), rules, failed))
    for span in spans:
        members = [row for row in rows if span.since_us <= (row.time or 0) < span.until_us]
        name = span.match.key[-1].value
        assert isinstance(name, Constant)
        for key, group in group_rows(join.left.key, members):
            of_rule = {**key, RULE_COLUMN: name.value}
            some, partial = match_rows(span.match, of_rule, group, span.until_us)
            complete += some
            incomplete += partial
    return complete, incomplete, failed


def _find_spans(compiler: RuleCompiler, rules: Rows, failed: Rows) -> Iterator[RuleSpan]:
    """Yield each rule with its time, and add the rows of which no rule can be made."""
    active: dict[Value, RuleSpan] = {}
    for row in sorted(rules, key=lambda row: (row.time or 0, row.order)):
        name, values = row.values[RULE_COLUMN], row.values
        before = active.get(name)
        if values.get(REMOVED_COLUMN):
            if before is not None:
                yield _end(active.pop(name), row)
            continue
        definition = read_definition(values)
        if before is not None and before.definition == definition:
            continue
        match = _compile(compiler, values)
        if match is None or (before is None and len(active) >= MAX_RULES):
            failed.append(row)
            continue
        if before is not None:
            yield _end(before, row)
        active[name] = RuleSpan(definition, match, row.time or 0)
    yield from active.values()


def _end(span: RuleSpan, row: TimedRow) -> RuleSpan:
    span.until_us = row.time or 0
    return span


def _compile(compiler: RuleCompiler, values: Mapping[str, Value]) -> nodes.Match | None:
    try:
        return compiler.compile(values)
    except InvalidRule:
        return None
