"""`match` with rules in the plan: its columns, what is refused, and what becomes of a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import RuleMatch
from headrace.core.plan.rule_matches import InvalidRule, RuleCompiler
from tests.support.plans import SOURCE, UNTIMED, plan_of, said

RULES = """  rules:
    files: {path: rules}
    schema: {rule: string, pattern: string, define: 'map<string,string>', emit: string,
             within: string, after_match: string, removed: boolean, at: timestamp}
    event_time: at
"""


def pipeline(match: str = "rules: rules", more: str = "", rules: str = RULES) -> str:
    """Return a pipeline with rules over `orders`."""
    sinks = "  p: {from: partial, console: {}}\n" if "incomplete_to" in match else ""
    step = f"  s: {{from: orders, key: name, match: {{{match}}}{more}}}\n"
    return f"{SOURCE}{rules}steps:\n{step}sinks:\n  out: {{from: s, console: {{}}}}\n{sinks}"


def rules_of(folder: Path, match: str = "rules: rules") -> nodes.Match:
    part = plan_of(folder, pipeline(match)).part("s")
    assert isinstance(part, nodes.Step) and isinstance(part.operations[0], nodes.Join)
    matching = part.operations[0].matching
    assert isinstance(matching, RuleMatch)
    return matching.match


def compiled(folder: Path, match: str = "rules: rules", **row: Any) -> nodes.Match:
    """Return the match of a rule `x` with the pattern `a b`."""
    compiler = RuleCompiler(rules_of(folder, match))
    return compiler.compile({"rule": "x", "pattern": "a b", **row})


def refused(folder: Path, match: str = "rules: rules", **row: Any) -> str:
    """Return why there is no such rule."""
    with pytest.raises(InvalidRule) as error:
        compiled(folder, match, **row)
    return str(error.value)


def test_a_match_of_rules_has_the_name_of_the_rule_and_the_declared_columns(
    tmp_path: Path,
) -> None:
    match = "rules: rules, returns: {n: bigint, top: double}, incomplete_to: partial"
    plan = plan_of(tmp_path, pipeline(match, ", having: n > 1"))
    times = "match_start timestamp not null, match_end timestamp not null"
    returns = "n bigint, top double"
    assert str(plan.streams["s"].schema) == (
        f"name string, rule string not null, {times}, {returns}"
    )
    assert str(plan.streams["partial"].schema) == (
        "name string, rule string not null, match_start timestamp not null, "
        f"reached string not null, rows bigint not null, {returns}"
    )
    assert [(edge.stream, edge.exchange) for edge in plan.edges if edge.consumer == "s"] == [
        ("orders", "forward"),
        ("rules", "broadcast"),
    ]


def test_all_rows_of_a_match_of_rules_have_the_columns_of_the_input(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, pipeline("rules: rules, all_rows: true"))
    names = ("name", "rule", "match_start", "match_end", "variable", "id")
    assert plan.streams["s"].schema.names[:6] == names


@pytest.mark.parametrize(
    ("match", "rules", "message"),
    [
        (
            "rules: plain",
            UNTIMED.replace("id: bigint", "rule: string, pattern: string"),
            'step "s": match goes by event time, but "plain" has none '
            "[set event_time in the source]",
        ),
        (
            "rules: orders",
            "",
            'step "s": match.rules: "orders" has no column "pattern" [rows of rules have rule, '
            "pattern, define, emit, within, after_match, removed; the first two are needed]",
        ),
        (
            "rules: rules",
            RULES.replace("rule: string", "name: string"),
            'step "s": match.rules: "rules" has no column "rule" '
            "[a step before can rename name, as in with: {rule: name}]",
        ),
        (
            "rules: rules",
            RULES.replace("define: 'map", "conditions: 'map"),
            'step "s": match.rules: "rules" has no column "define", and does not read "conditions" '
            "[a step before can rename conditions, as in with: {define: conditions}]",
        ),
        (
            "rules: rules",
            RULES.replace("removed: boolean", "removed: int"),
            'step "s": match.rules: wanted "removed" of type boolean, got int '
            "[convert it in a step before]",
        ),
        (
            "rules: rules",
            RULES.replace("emit: string", "emit: array<string>"),
            'step "s": match.rules: wanted "emit" of type string or map<string,string>, got '
            "array<string> [convert it in a step before]",
        ),
        (
            "rules: rules, returns: {match_end: bigint}",
            RULES,
            'step "s": match: the column "match_end" is there already [give this one another name]',
        ),
        (
            "rules: ruls",
            RULES,
            'step "s": unknown source or step "ruls" [did you mean "rules"?]',
        ),
    ],
)
def test_what_does_not_fit_is_refused(match: str, rules: str, message: str, tmp_path: Path) -> None:
    found = said(tmp_path, pipeline(match, rules=rules))
    assert message in [each.partition(": ")[2] for each in found], found


def test_changes_are_no_rules(tmp_path: Path) -> None:
    table = RULES.replace("event_time: at", "table: {key: rule}\n    event_time: at")
    (found,) = said(tmp_path, pipeline(rules=table))
    assert 'match does not take "rules"' in found and "removed: true" in found


def test_a_rule_has_the_columns_of_the_step_and_no_others(tmp_path: Path) -> None:
    match = "rules: rules, returns: {n: double, other: string}"
    rule = compiled(
        tmp_path,
        match,
        define={"b": "price > a.price"},
        emit='{"n": "count(b)"}',
        within="10m",
        after_match="{last: b}",
    )
    assert str(rule.pattern) == "a b" and rule.within_us == 600_000_000
    assert str(rule.after_match) == "{last: b}"
    types = [(field.name, field.type) for field in rules_of(tmp_path, match).schema]
    assert [(field.name, field.type) for field in rule.schema] == types
    assert [column.text for column in rule.emit] == ["count(b)", "null as string"]


def test_an_empty_value_is_as_none(tmp_path: Path) -> None:
    rule = compiled(tmp_path)
    for empty in ("", " "):
        assert compiled(tmp_path, within=empty, after_match=empty) == rule
    nothings: tuple[str | dict[str, str], ...] = ("", " ", "{}", {})
    for nothing in nothings:
        assert compiled(tmp_path, define=nothing, emit=nothing) == rule


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"rule": None}, 'a rule has a name, but the column "rule" is null'),
        ({"rule": ""}, 'a rule has a name, but the column "rule" is empty'),
        (
            {"pattern": None},
            'rule "x": wanted a pattern, got null; removed: true removes a rule',
        ),
        (
            {"pattern": ""},
            'rule "x": wanted a pattern, got an empty text; removed: true removes a rule',
        ),
        (
            {"after_match": "{}"},
            'after_match:1:1: rule "x": after_match: wanted past_last, next, {first: a}, '
            "{last: a} or none, got an empty mapping",
        ),
        (
            {"pattern": "a -> -> b"},
            'pattern:1:6: rule "x": pattern: wanted a variable or a group, got "->"',
        ),
        (
            {"pattern": "a\nb??"},
            'pattern:2:1: rule "x": pattern: "b" never has a row; what comes before it is '
            "complete without it: a reluctant quantifier at the end takes as few rows as it can",
        ),
        (
            {"define": {"b": "prize > a.price"}},
            'define.b:1:1: rule "x": unknown column "prize"; did you mean "price"?',
        ),
        (
            {"define": {"b": None}},
            'define.b:1:1: rule "x": define.b: wanted an expression, got nothing',
        ),
        (
            {"define": '{"b": null}'},
            'define:1:3: rule "x": define.b: wanted an expression, got nothing; '
            'in quotes it is a word: "null"',
        ),
        (
            {"define": '{"b": "price > a.prize"}'},
            'define:1:18: rule "x": unknown column "prize"; did you mean "price"?',
        ),
        (
            {"define": '{"b": "price > 1", "b": "price > 2"}'},
            'define:1:21: rule "x": duplicate key "b"',
        ),
        (
            {"define": "price > 1"},
            'define:1:1: rule "x": define: wanted variables and conditions, as in '
            '{big: amount > 100}, got "price > 1"',
        ),
        (
            {"within": "10"},
            'within:1:1: rule "x": within: wanted a duration such as 10s, got "10"; add a unit: '
            "10ms, 10s, 10m, 10h or 10d",
        ),
        (
            {"after_match": "{first: a}"},
            'after_match:1:9: rule "x": after_match: the first row of "a" is where the match '
            "began; the same match would be found again; after_match: next begins after that row",
        ),
        (
            {"emit": '{"m": "count(b)"}'},
            'emit:1:3: rule "x": emit: there is no column "m" in returns of the step; '
            "its columns are count",
        ),
        (
            {"emit": '{"count": "b.name"}'},
            'emit:1:12: rule "x": emit: "count" is bigint in returns, got string; '
            "cast(b.name as bigint)",
        ),
        (
            {"define": {"b": "assert_true(price > 1) is null"}},
            'define.b:1:1: rule "x": define: "b" may fail for a row, which no expression of a '
            "rule may; a step before can compute it, and reject rows",
        ),
        (
            {"define": {"a": "rand() > 0.5"}},
            'define.a:1:1: rule "x": rand makes its values from the place of a row in its source',
        ),
        ({"define": "{b: ${env:HOME}}"}, None),
    ],
)
def test_a_mistake_in_a_rule_has_its_place(
    row: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    found = refused(tmp_path, "rules: rules, returns: {count: bigint}", **row)
    assert message is None or found.startswith(message), found
    assert "/" not in found, "nothing is replaced in a rule"
