"""`match` in the plan: its columns, what is refused, and what is warned of.

The rewriting of references, `core/plan/match_expressions`, is tested here as well.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from tests.support.plans import SOURCE, plan_of, said


def pipeline(match: str, more: str = "", key: str = "key: name, ") -> str:
    """Return a pipeline with a match over `orders`, and sinks for all of its streams."""
    sinks = "".join(
        f"  of_{name}: {{from: {name}, console: {{}}}}\n"
        for name in ("late", "partial")
        if f"_to: {name}" in match
    )
    steps = f"steps:\n  s: {{from: orders, {key}match: {{{match}}}{more}}}\n"
    return f"{SOURCE}{steps}sinks:\n  out: {{from: s, console: {{}}}}\n{sinks}"


def match_of(folder: Path, text: str) -> nodes.Match:
    part = plan_of(folder, text).part("s")
    assert isinstance(part, nodes.Step)
    return next(each for each in part.operations if isinstance(each, nodes.Match))


def test_a_match_has_its_key_its_bounds_and_what_is_emitted(tmp_path: Path) -> None:
    text = pipeline(
        "pattern: a b+, define: {b: price > a.price}, emit: {n: count(b), top: max(b.price), "
        "id: a.id}, incomplete_to: partial, within: 1h"
    )
    plan = plan_of(tmp_path, text)
    bounds = "match_start timestamp not null, match_end timestamp not null"
    assert str(plan.streams["s"].schema) == (
        f"name string, {bounds}, n bigint not null, top decimal(10,2), id bigint"
    )
    assert str(plan.streams["partial"].schema) == (
        "name string, match_start timestamp not null, reached string not null, "
        "rows bigint not null, n bigint, top decimal(10,2), id bigint"
    )
    match = match_of(tmp_path, text)
    assert match.stored_columns == frozenset({"price", "id"})
    (condition,) = match.conditions
    assert condition.is_crossed and condition.references == {"a"}


def test_an_aggregate_without_a_variable_is_over_all_rows(tmp_path: Path) -> None:
    text = pipeline("pattern: a b, define: {b: id > last(id)}, emit: {n: sum(id), p: last(price)}")
    match = match_of(tmp_path, text)
    (condition,) = match.conditions
    assert condition.is_crossed and condition.references == frozenset()
    assert match.stored_columns == frozenset({"id", "price"})


def test_all_rows_have_the_columns_that_are_read(tmp_path: Path) -> None:
    text = pipeline("pattern: a b, all_rows: true", ", select: [variable, price]")
    match = match_of(tmp_path, text)
    assert [field.name for field in match.fields] == [
        *("name", "match_start", "match_end", "variable", "price"),
    ]


def test_having_extend_and_select_follow_a_match(tmp_path: Path) -> None:
    more = ", having: n > 1, extend: {m: n * 2}, select: [name, m]"
    plan = plan_of(tmp_path, pipeline("pattern: a b+, emit: {n: count(b)}", more))
    assert str(plan.streams["s"].schema) == "name string, m bigint not null"


@pytest.mark.parametrize(
    ("match", "problem"),
    [
        ("pattern: a ->", "pattern: wanted a variable or a group, got the end"),
        ("pattern: a price", 'pattern: "price" is a variable and also a column'),
        ("pattern: a b, define: {c: id > 1}", 'define: the pattern has no variable "c"'),
        ("pattern: a b*?", 'pattern: "b" never has a row'),
        ("pattern: a -> b+", "pattern: a match could grow for ever, so it needs within"),
        ("pattern: a (b -> c)?", "pattern: a match could grow for ever, so it needs within"),
        ("pattern: a -> not b", 'pattern: "not b" at the end needs within'),
        ("pattern: a b, define: {a: id}", "wanted a condition (boolean), got bigint"),
        ("pattern: a b, define: {a: id > b.id}", '"b" has no row yet when a row is tested'),
        ("pattern: a b, define: {b: id > a}", '"a" is a variable, which is no value'),
        ("pattern: a b, define: {b: id > a.nothing}", 'unknown column "nothing"'),
        ("pattern: a b, define: {b: id > max(id + b.id)}", '"id" is a column of no variable'),
        ("pattern: a b, define: {b: id > max(a.id + b.id)}", "over the rows of one variable"),
        ("pattern: a b, define: {b: id > median(a.id)}", "median is not computed over the rows"),
        ("pattern: a b, define: {b: id > sum(distinct a.id)}", "leave out distinct"),
        (
            "pattern: a -> not b -> c, emit: {x: b.id}, within: 1m",
            '"b" is negated: it has no row',
        ),
        (
            "pattern: a -> not b -> c, emit: {x: count(b)}, within: 1m",
            '"b" is negated: it has no row',
        ),
        ("pattern: a b, emit: {x: id}", '"id" has a value in each row of the match'),
        ("pattern: a b, emit: {name: a.id}", 'the column "name" is there already'),
        ("pattern: a b, emit: {match_end: a.id}", 'the column "match_end" is there already'),
        ("pattern: a b, emit: {x: a.id}, all_rows: true", "emit does not go with all_rows"),
        ("pattern: a b, after_match: {first: a}", "is where the match began"),
        ("pattern: a b, after_match: {last: a}", "is where the match began"),
        ("pattern: a b, after_match: {last: x}", 'after_match: "x" is no variable'),
        ("pattern: a -> not n -> b, after_match: {last: n}", '"n" is negated: it has no row'),
        ("pattern: a b, define: {b: at > current_timestamp()}", "the processing time cannot be"),
        ("pattern: a b, after_match: last", 'wanted a variable with "last"'),
        ("pattern: a b, after_match: skip", "wanted past_last, next, {first: a}"),
        ("pattern: a b, measures: {x: a.id}", 'unknown key "measures"'),
        ("pattern: a AND b", 'pattern: wanted a variable or a group, got "AND"'),
        ("pattern: (not a b) c", "pattern: nothing comes before not a"),
        ("pattern: (a?)+ b", "pattern: (a?)+ repeats a group that may have no row"),
        ("pattern: a b, define: {b: id > c.id}", 'the pattern has no variable "c"'),
        ("pattern: a b, define: {b: id > prev(id)}", "prev is not computed over the rows"),
        ("pattern: a b, emit: {x: classifier()}", "classifier is not computed over the rows"),
        ("pattern: a b, define: {a: id > a.id}", '"a" has no row yet when a row is tested for "a"'),
        (
            "pattern: a b, define: {b: assert_true(id > a.id) is null}",
            "a condition over the rows before cannot fail: there is no row to reject",
        ),
        (
            "pattern: a b, emit: {x: assert_true(a.id > 1) is null}",
            "a column of a match cannot fail",
        ),
        ("pattern: a b, rules: x", '"pattern" does not go with "rules"'),
        ("define: {a: id > 1}", 'missing key "pattern"'),
    ],
)
def test_a_mistake_is_reported(tmp_path: Path, match: str, problem: str) -> None:
    problems = said(tmp_path, pipeline(match))
    assert any(problem in each for each in problems), problems


def test_a_column_with_a_mistake_of_its_own_is_reported_once(tmp_path: Path) -> None:
    match = "pattern: a b, define: {b: x > max(x)}, emit: {n: sum(x), m: max(a.x)}"
    text = pipeline(match).replace(
        "  s: {from: orders", "  e: {from: orders, extend: {x: nothing}}\n  s: {from: e"
    )
    problems = [each for each in said(tmp_path, text) if 'source "orders"' not in each]
    assert len(problems) == 1 and 'unknown column "nothing"' in problems[0]


def test_a_hint_names_the_columns_of_the_input_only(tmp_path: Path) -> None:
    problems = said(
        tmp_path, pipeline("pattern: a b, define: {b: id > a.nothing}, emit: {n: count(a)}")
    )
    assert any("the columns are" in each for each in problems), problems
    assert not any("__" in each for each in problems)


def test_the_place_of_a_mistake_is_inside_the_pattern(tmp_path: Path) -> None:
    text = pipeline("pattern: low up{2,4} down!").replace("pattern: low up{2,4} down!", "X")
    text = text.replace("{X}", "\n      {pattern: 'low up{2,4} down!'}")
    (problem,) = said(tmp_path, text)
    assert problem.startswith('10: step "s": pattern: wanted a variable or a group, got "!"')


@pytest.mark.parametrize(
    ("match", "key", "warnings"),
    [
        (
            "pattern: a b+, define: {b: id > 1 and id > last(b.id)}, within: 1m",
            "key: name, ",
            ['"b" never has a first row: what it compares with is null then'],
        ),
        (
            "pattern: a b+, define: {b: 'id > last(b.id, a.id) or id > b.id'}, within: 1m",
            "key: name, ",
            [],
        ),
        ("pattern: a b", "key: name, ", []),
        ("pattern: a -> b", "key: name, ", ["a match that began waits for ever for its next row"]),
        ("pattern: a -> b, within: 1h", "", ["match without key: all rows are one group"]),
    ],
)
def test_what_waits_for_ever_or_never_fits_is_warned_of(
    tmp_path: Path, match: str, key: str, warnings: list[str]
) -> None:
    problems = [p for p in said(tmp_path, pipeline(match, key=key)) if ': step "s"' in p]
    assert len(problems) == len(warnings)
    for problem, warning in zip(problems, warnings, strict=True):
        assert warning in problem


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (", window: {tumble: 1m}", '"window" does not go with "match"'),
        (", ttl: 1h", '"ttl" does not go with "match"'),
        (", over: {n: row_number()}", '"over" does not go with "match"'),
    ],
)
def test_other_clauses_are_refused(tmp_path: Path, more: str, problem: str) -> None:
    assert any(problem in each for each in said(tmp_path, pipeline("pattern: a b", more)))


def test_a_default_is_given_for_a_variable_without_rows(tmp_path: Path) -> None:
    text = pipeline("pattern: low up+, define: {up: 'price > last(up.price, low.price)'}")
    (condition,) = match_of(tmp_path, text).conditions
    assert condition.references == {"low", "up"}


def test_a_comment_that_cuts_a_pattern_off_is_named(tmp_path: Path) -> None:
    steps = (
        "steps:\n  s:\n    from: orders\n    key: name\n    match:\n"
        "      pattern: a (b # | c)\n      within: 1h\n"
    )
    (found,) = said(tmp_path, f"{SOURCE}{steps}sinks:\n  out: {{from: s, console: {{}}}}\n")
    assert found.endswith('[a "#" after a space begins a comment, which is no part of the pattern]')
    block = steps.replace("pattern: a (b # | c)", "pattern: |\n        a b # | c")
    (found,) = said(tmp_path, f"{SOURCE}{block}sinks:\n  out: {{from: s, console: {{}}}}\n")
    assert found.endswith("[a pattern has no comments: write it above the pattern]")
