"""Random patterns over the rows of `random_pipelines`, and steps with them, drawn by Hypothesis."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import polars as pl
from hypothesis import assume
from hypothesis import strategies as st

from headrace.core.expressions.typed import ExpressionError
from headrace.core.patterns.automaton import Automaton, build_automaton
from headrace.core.patterns.parser import parse_pattern
from headrace.core.patterns.pattern import Pattern
from tests.support.reference.random_pipelines import BEGIN, SCHEMA, SPREAD_S

DEPTH = 4
"""The largest number of groups inside each other, the pattern itself included."""
ATTEMPTS = 8
"""The number of patterns that are drawn for one that may be written."""
VARIABLES = ("a", "b", "c", "d", "e", "f", "g", "h")
QUANTIFIERS = ("", "", "", "", "?", "*", "+", "{2}", "{1,2}", "{2,}", "??", "+?", "*?", "{0,2}?")
SIGNS = (" ", " ", " -> ", " -> ", " => ")

PLAIN = (
    *("v > 0", "v <= 0", "v >= -1", "s = 'a'", "s is null or v > 2", "v % 2 = 0", "x > 0"),
    "if(v = -5, raise_error('low'), v < 2)",
)
"""Conditions over the tested row."""
CROSSED = (
    "v >= {}.v",
    "v > last({}.v, 0)",
    "v <> first({}.v)",
    "count({}) < 2",
    "sum({}.v) + v < 6",
    "avg({}.v) <= v",
    "min({}.v) < v or s = ''",
    "max({}.x) >= x",
    "at < {}.at + interval 4 seconds",
    "s = {}.s and count(*) < 5",
    "v <> last(v) or v < first(v, {}.v)",
    "coalesce(sum(v) + v, sum(v), v) < 8",
    "element_at(collect_list(named_struct('n', {}.v)), -2).n < v",
)
"""Conditions that read the rows of a variable before the tested one."""
COLUMNS = (
    "count({})",
    "sum({}.v)",
    "first({}.s)",
    "{}.v",
    "min({}.v) + max({}.v)",
    "avg({}.v)",
    "last({}.v, 7)",
    "count({}.s) + count(*)",
    "first({}.at)",
    "last(v) + sum(v)",
    "element_at(collect_list(named_struct('n', {}.v)), 2).n",
    "sum(if({0}.v = 5, raise_error('high'), {0}.v))",
)
STARTS = "dedup: {key: match_start, order: event_time}, select: {match_start: match_start}"
"""Clauses that need the place of each row, and whose result is the same for any place."""
COUNTED = (
    "  per_second:\n    from: step\n    window: {tumble: 1s, late_to: late_matches}\n"
    "    aggregate: {n: count(*), last: max(match_end)}\n"
    "  ends: {from: unfinished, window: {tumble: 1s}, aggregate: {n: count(*)}}\n"
    f"  starts: {{from: unfinished, {STARTS}}}\n",
    "  counted: {from: per_second, memory: {data: counted}}\n"
    "  late: {from: late_matches, memory: {data: late}}\n"
    "  ended: {from: ends, memory: {data: ended}}\n"
    "  started: {from: starts, memory: {data: started}}\n",
)
"""Steps and sinks that depend on the event times of matches, and on their order."""
RETURNS = {
    "n": ("count({})", "{}.v", "sum({}.v)", "min({}.v) + count(*)"),
    "d": ("avg({}.v)", "{}.x", "sum({}.v)"),
    "t": ("first({}.s)", "{}.s", "{}.v"),
    "unknown": ("count({})",),
}
"""By column that rules may emit: its values. Some do not fit, and the last is not declared."""
RULE_SCHEMA = (
    "{rule: string, pattern: string, define: string, emit: 'map<string,string>', within: string, "
    "after_match: string, removed: boolean, at: timestamp}"
)
KEYS = ("key: k", "key: k", "key: [k, s]", "key: {j: v % 2}", "key: {y: x}")


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """Draw the text of a pattern."""
    for _ in range(ATTEMPTS):
        names = list(VARIABLES[: draw(st.sampled_from([2, 3, 4, 8]))])
        text = _draw_alternatives(draw, names, DEPTH - 1)
        if _is_valid(text):
            return text
    assume(False)
    raise AssertionError("this example is given up")


def _is_valid(text: str) -> bool:
    """Whether a pattern may be written, and each of its variables may have a row."""
    try:
        automaton = build_automaton(parse_pattern(text))
    except ExpressionError:  # two negations in a row, or no part that must have a row
        return False
    reached = {automaton.variables[position] for position in automaton.find_reached()}
    return len(reached) == len(set(automaton.variables))


def _draw_alternatives(draw: st.DrawFn, names: list[str], depth: int) -> str:
    count = draw(st.sampled_from([1, 1, 1, 2, 2, 3]))
    sequences = [_draw_sequence(draw, names, depth) for _ in range(count) if names]
    return " | ".join(sequences)


def _draw_sequence(draw: st.DrawFn, names: list[str], depth: int) -> str:
    text = _draw_part(draw, names, depth)
    for _ in range(draw(st.sampled_from([0, 1, 1, 2]))):
        if names and draw(st.integers(0, 4)) == 0:
            text += f" -> not {names.pop(0)}"
        if names:
            text += draw(st.sampled_from(SIGNS)) + _draw_part(draw, names, depth)
    return text


def _draw_part(draw: st.DrawFn, names: list[str], depth: int) -> str:
    quantifier = draw(st.sampled_from(QUANTIFIERS))
    if depth and len(names) > 1 and draw(st.integers(0, 2)) == 0:
        return f"({_draw_alternatives(draw, names, depth - 1)}){quantifier}"
    return names.pop(0) + quantifier


@st.composite
def clauses(draw: st.DrawFn, incomplete_to: str = "unfinished") -> list[str]:
    """Draw the clauses of a step that matches a pattern."""
    text = draw(patterns())
    pattern = parse_pattern(text)
    automaton = build_automaton(pattern)
    conditions = _draw_conditions(draw, pattern, automaton).items()
    define = ", ".join(f'{name}: "{condition}"' for name, condition in conditions)
    match = [f'pattern: "{text}"', f"define: {{{define}}}" if define else ""]
    within, after = draw_within(draw, text), draw_after(draw, pattern, automaton)
    match += [f"within: {within}" if within else "", f"after_match: {after}"]
    if draw(st.integers(0, 4)) == 0:
        match.append("all_rows: true")
    else:
        emitted = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True))
        columns = (each.replace("{}", "{0}").format(draw(_names(pattern))) for each in emitted)
        shown = (f'e{at}: "{column}"' for at, column in enumerate(columns))
        match.append(f"emit: {{{', '.join(shown)}}}")
    match.append(f"incomplete_to: {incomplete_to}")
    lines = "".join(f"      {each}\n" for each in match if each)
    fails = ["on_error: skip"] if "raise_error" in lines else []
    return [draw(st.sampled_from(KEYS)), f"match:\n{lines}", *fails]


def _names(pattern: Pattern) -> st.SearchStrategy[str]:
    return st.sampled_from(pattern.variables)


def _draw_conditions(draw: st.DrawFn, pattern: Pattern, automaton: Automaton) -> dict[str, str]:
    """Draw the conditions of variables."""
    drawn = {name: _draw_condition(draw, pattern, automaton, name) for name in pattern.names}
    return {name: condition for name, condition in drawn.items() if condition}


def _draw_condition(
    draw: st.DrawFn,
    pattern: Pattern,
    automaton: Automaton,
    name: str,
) -> str:
    """Draw the condition of a variable; without one it fits any row."""
    earlier = sorted(automaton.find_earlier(pattern.names.index(name)))
    kind = draw(st.integers(0, 9))
    if earlier and kind >= 7:
        other = pattern.names[draw(st.sampled_from(earlier))]
        return draw(st.sampled_from(CROSSED)).replace("{}", other)
    return draw(st.sampled_from(PLAIN)) if kind else ""


def draw_within(draw: st.DrawFn, text: str) -> str:
    """Draw the longest time of a match; none where a match cannot wait."""
    is_strict = not ({"->", "=>"} & {*text.split()})
    times = ["", ""] * is_strict + ["2s", "5s", "12s", "60s"]
    return draw(st.sampled_from(times))


def draw_after(draw: st.DrawFn, pattern: Pattern, automaton: Automaton) -> str:
    starts = {pattern.names[option.variable] for option in automaton.start}
    rules = ["past_last", "past_last", "next", "none", "none"]
    rules += [
        f"{{{rule}: {name}}}"
        for rule in ("first", "last")
        for name in pattern.variables
        if starts != {name}
    ]
    return draw(st.sampled_from(rules))


@st.composite
def pipelines(draw: st.DrawFn) -> str:
    """Draw a pipeline from `in` to `out`, `counted` and `partial`, all in memory.

    `counted` has windows over the matches, so it depends on their event times. Without `within`
    there is none: what only the end of the input decides has the time of an earlier row.
    """
    made = "".join(f"    {clause}\n" for clause in draw(clauses()))
    counted = COUNTED if "within: " in made else ("", "")
    return (
        f"sources:\n  rows:\n    memory: {{data: in}}\n    schema: {SCHEMA}\n"
        f"    event_time: at\n    watermark: {{delay: {SPREAD_S}s}}\n"
        f"steps:\n  step:\n    from: rows\n{made}"
        f"{counted[0]}"
        "sinks:\n"
        "  out: {from: step, memory: {data: out}}\n"
        "  partial: {from: unfinished, memory: {data: partial}}\n"
        f"{counted[1]}"
    )


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the row of a rule, or one that removes a rule; some are invalid."""
    name = draw(st.sampled_from(["one", "one", "two", "three"]))
    second = draw(st.integers(0, SPREAD_S))
    row: dict[str, Any] = {"rule": name, "at": BEGIN + timedelta(seconds=second)}
    if draw(st.integers(0, 4)) == 0:
        return row | {"removed": True}
    text = draw(patterns())
    pattern = parse_pattern(text)
    automaton = build_automaton(pattern)
    conditions = _draw_conditions(draw, pattern, automaton)
    columns = draw(st.lists(st.sampled_from([*RETURNS] * 4 + ["n"] * 9), max_size=3, unique=True))
    emit = {
        column: draw(st.sampled_from(RETURNS[column])).replace("{}", draw(_names(pattern)))
        for column in columns
    }
    return row | {
        "pattern": text,
        "define": json.dumps(conditions) if conditions else None,
        "emit": emit or None,
        "within": draw_within(draw, text) or None,
        "after_match": draw_after(draw, pattern, automaton),
    }


@st.composite
def rule_clauses(
    draw: st.DrawFn, rules: str = "rules", incomplete_to: str = "unfinished", rejected: str = "bad"
) -> list[str]:
    """Draw the clauses of a step whose patterns are the rows of a stream."""
    returns = "{n: bigint, d: double, t: string}"
    emitted = draw(st.sampled_from([f"returns: {returns}"] * 3 + ["all_rows: true"]))
    lines = (f"rules: {rules}", emitted, f"incomplete_to: {incomplete_to}")
    match = "".join(f"      {line}\n" for line in lines)
    return [draw(st.sampled_from(KEYS)), f"match:\n{match}", f"on_error: {{to: {rejected}}}"]


@st.composite
def rule_pipelines(draw: st.DrawFn) -> str:
    """Draw a pipeline from `in`, with rules from `rules`, to `out`, `partial` and `bad`."""
    made = "".join(f"    {clause}\n" for clause in draw(rule_clauses()))
    return (
        f"sources:\n  rows:\n    memory: {{data: in}}\n    schema: {SCHEMA}\n"
        f"    event_time: at\n    watermark: {{delay: {SPREAD_S}s}}\n"
        f"  rules:\n    memory: {{data: rules}}\n    schema: {RULE_SCHEMA}\n"
        f"    event_time: at\n    watermark: {{delay: {SPREAD_S}s}}\n"
        f"steps:\n  step:\n    from: rows\n{made}"
        "  failed: {from: bad, select: [step]}\n"
        "sinks:\n"
        "  out: {from: step, memory: {data: out}}\n"
        "  partial: {from: unfinished, memory: {data: partial}}\n"
        "  bad_rules: {from: failed, memory: {data: bad_rules}}\n"
    )


def rule_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Build a frame of rows of rules."""
    texts = ("rule", "pattern", "define", "within", "after_match")
    columns = {name: pl.Series(name, [row.get(name) for row in rows], pl.String) for name in texts}
    emit = pl.Series("emit", [row.get("emit") for row in rows], pl.Map(pl.String, pl.String))
    removed = pl.Series("removed", [row.get("removed") for row in rows], pl.Boolean)
    at = pl.Series("at", [row["at"] for row in rows], pl.Datetime("us", "UTC"))
    return pl.DataFrame([*columns.values(), emit, removed, at])
