"""Matches in rows that are letters: the letter of a row is the variable that it fits.

The place of a row is also its time, so that a match is written as its rows and the time that
decided it.
"""

from __future__ import annotations

import pytest

from headrace.core.patterns import key_matcher
from headrace.core.patterns.automaton import build_automaton
from headrace.core.patterns.key_matcher import KeyMatcher, RunChanges
from headrace.core.patterns.matcher import Matcher, TooManyRuns
from headrace.core.patterns.parser import parse_pattern
from headrace.core.patterns.runs import (
    Decision,
    MatchRules,
    Run,
    RunsOfKey,
    SkipRule,
    get_first_start,
    list_rows,
)


def matches(
    pattern: str,
    rows: str,
    skip: SkipRule = "past_last",
    within: int | None = None,
    to: str = "",
    max_runs: int = 100,
) -> list[str]:
    """Return the matches in a text of rows: several letters in brackets are one row."""
    automaton = build_automaton(parse_pattern(pattern))
    skip_to = automaton.names.index(to) if to else -1
    rules = MatchRules(within, skip, skip_to, max_runs)
    matcher, by_key = Matcher(automaton, rules), KeyMatcher(Matcher(automaton, rules))
    runs, decisions = list[Run](), list[Decision]()
    runs_of_keys, changes = dict[str, RunsOfKey](), RunChanges([], set())
    for at, letters in enumerate(split_rows(rows)):
        fits = sum(1 << number for number, name in enumerate(automaton.names) if name in letters)
        matcher.push(runs, (at, at), fits, decisions)
        by_key.push_rows(runs_of_keys, [("k", fits, (at, at))], changes)
    matcher.finish(runs, decisions)
    assert not runs
    for left in runs_of_keys.values():
        by_key.finish(left, changes.decisions)
    assert changes.decisions == decisions
    return [show(automaton.names, automaton.variables, each) for each in decisions]


def split_rows(rows: str) -> list[str]:
    found, rest = list[str](), rows
    while rest:
        if rest[0] == "[":
            letters, _, rest = rest[1:].partition("]")
        else:
            letters, rest = rest[0], rest[1:]
        found.append(letters)
    return found


def show(names: tuple[str, ...], variables: tuple[int, ...], decision: Decision) -> str:
    rows = [f"{names[variables[at]]}{row[0]}" for at, row in list_rows(decision.history)]
    end = "" if decision.is_complete else "..."
    return f"{decision.time_us}: {' '.join(rows)}{end}"


@pytest.mark.parametrize(
    ("pattern", "rows", "found"),
    [
        ("a b", "axbab", ["4: a3 b4"]),
        ("a -> b", "axxb", ["3: a0 b3"]),
        ("a -> b* -> c", "abcbc", ["2: a0 b1 c2"]),
        ("a b* c", "abbabbc", ["6: a3 b4 b5 c6"]),
        ("a b{1,3}? c", "abbbc", ["4: a0 b1 b2 b3 c4"]),
        ("a -> b? c", "axcabc", ["5: a0 b4 c5"]),
        ("a b+", "xabbxab", ["4: a1 b2 b3", "6: a5 b6"]),
        ("a+? b", "aaab", ["3: a0 a1 a2 b3"]),
        ("(a | b)+ c", "[ab][ab]c", ["2: a0 a1 c2"]),
        ("(b | a)+ c", "[ab][ab]c", ["2: b0 b1 c2"]),
        ("a (b c)* (d | e)", "abcbcdabe", ["5: a0 b1 c2 b3 c4 d5"]),
        ("a -> not b -> c", "axcabc", ["2: a0 c2"]),
        ("a -> not b -> c", "ax[bc]ac", ["4: a3 c4"]),
        ("a not b -> c", "aac", ["2: a0 c2"]),
        ("a => b c", "abxbc", ["4: a0 b3 c4"]),
        ("a -> b c", "abxbc", []),
        ("a -> (b c)+ d", "abcxbcd", ["6: a0 b1 c2 b4 c5 d6"]),
    ],
)
def test_matches(pattern: str, rows: str, found: list[str]) -> None:
    assert matches(pattern, rows) == found


@pytest.mark.parametrize(
    ("skip", "to", "found"),
    [
        ("past_last", "", ["4: a0 b1 b2 b3"]),
        ("next", "", ["4: a0 b1 b2 b3", "4: a1 b2 b3", "4: a2 b3"]),
        ("first", "b", ["4: a0 b1 b2 b3", "4: a1 b2 b3", "4: a2 b3"]),
        ("last", "b", ["4: a0 b1 b2 b3"]),
        ("last", "a", ["4: a0 b1 b2 b3", "4: a1 b2 b3", "4: a2 b3"]),
        ("none", "", ["4: a0 b1 b2 b3", "4: a1 b2 b3", "4: a2 b3"]),
    ],
)
def test_the_next_match_starts_where_after_match_says(
    skip: SkipRule, to: str, found: list[str]
) -> None:
    assert matches("a b+", "a[ab][ab]bx", skip, to=to) == found


def test_every_row_that_fits_is_a_match_of_its_own_without_a_skip() -> None:
    assert matches("a => b", "abxb") == ["1: a0 b1"]
    assert matches("a => b", "abxb", "none", 9) == ["1: a0 b1", "3: a0 b3", "9: a0..."]
    combined = matches("a => b*", "abb", "none", 9)
    assert combined == ["9: a0", "9: a0 b1", "9: a0 b2", "9: a0 b1 b2"]


def test_a_match_waits_for_one_that_began_before_it() -> None:
    """The run from row 0 fails at row 4; until then it might drop the match of rows 1 and 2."""
    assert matches("a b | x -> c d", "xabce") == ["4: a1 b2"]
    assert matches("a b | x -> c d", "xabce", "next") == ["2: a1 b2"]
    assert matches("a b | x -> c d", "xabcd") == ["4: x0 c3 d4"]


def test_within_is_exclusive_and_its_end_decides() -> None:
    assert matches("a -> b", "axxb", within=3) == ["3: a0..."]
    assert matches("a -> b", "axxb", within=4) == ["3: a0 b3"]
    assert matches("a -> b+", "abxbb", within=3) == ["3: a0 b1"]
    assert matches("a -> b+", "abxbb", within=4) == ["4: a0 b1 b3"]


def test_a_negation_at_the_end_waits_for_its_time() -> None:
    assert matches("a -> not b", "axxxxab", within=3) == ["3: a0"]
    assert matches("a -> b* -> not c", "abxxx", within=3) == ["3: a0 b1"]
    assert matches("a -> (b d)? -> not c", "abxxx", within=4) == ["4: a0"]
    assert matches("a -> (b d)? -> not c", "abxcx", within=4) == []


def test_partial_matches_say_how_far_they_came() -> None:
    assert matches("a -> b -> c", "abx", within=9) == ["9: a0 b1..."]
    assert matches("a -> b -> c", "ab") == ["1: a0 b1..."]
    assert matches("a b c", "abx") == []


def test_a_row_that_makes_too_many_runs_changes_nothing() -> None:
    automaton = build_automaton(parse_pattern("a -> b"))
    matcher = Matcher(automaton, MatchRules(skip="none", max_runs=2))
    runs, decisions = list[Run](), list[Decision]()
    matcher.push(runs, (0, 0), 1, decisions)
    matcher.push(runs, (1, 1), 1, decisions)
    with pytest.raises(TooManyRuns):
        matcher.push(runs, (2, 2), 1, decisions)
    assert [run.start for run in runs] == [(0, 0), (1, 1)]
    matcher.push(runs, (3, 3), 2, decisions)
    assert len(decisions) == 2 and not runs


def test_a_row_that_ends_matches_makes_no_runs() -> None:
    found = matches("a => b", "abb", skip="none", within=9, max_runs=1)
    assert found == ["1: a0 b1", "2: a0 b2", "9: a0..."]


def test_a_reluctant_end_is_preferred_to_a_row_that_is_also_left_out() -> None:
    assert matches("a => b*? not c", "abx", within=3) == ["3: a0"]
    assert matches("a => b* not c", "abx", within=3) == ["3: a0 b1"]


def push_letters(rows: str, within: int | None = None) -> tuple[dict[str, RunsOfKey], RunChanges]:
    """Push rows, each a key and a letter, for the pattern `a b+ c`; the places are the times."""
    matcher = KeyMatcher(Matcher(build_automaton(parse_pattern("a b+ c")), MatchRules(within)))
    runs, changes = dict[str, RunsOfKey](), RunChanges([], set())
    numbered = enumerate(rows.split())
    bits = {"a": 1, "b": 2, "c": 4, "x": 0}
    pushed = [(text[0], bits[text[1]], (at, at)) for at, text in numbered]
    matcher.push_rows(runs, pushed, changes)
    return runs, changes


def test_a_run_with_one_thread_is_a_tuple_without_objects() -> None:
    runs, _ = push_letters("ka kb kb")
    run = runs["k"]
    assert isinstance(run, tuple) and run[1] == (0, 0)
    assert [row for _, row in list_rows(run[2])] == [(0, 0), (1, 1), (2, 2)]
    assert push_letters("ka kb kx")[0] == {}


def test_changes_have_the_keys_and_the_starts_of_runs_that_are_left() -> None:
    runs, changes = push_letters("ia ib ic ja ja kx la lx ma mb")
    assert runs.keys() == {"j", "m"}
    assert changes.changed == {"i", "j", "l", "m"}
    assert changes.started == [4, 8]
    assert [each.time_us for each in changes.decisions] == [2]


def test_a_run_whose_time_has_passed_takes_no_row() -> None:
    runs, changes = push_letters("ka kb kb kc ka", within=3)
    assert [(each.time_us, each.is_complete) for each in changes.decisions] == [(3, False)]
    assert changes.started == [0, 4] and get_first_start(runs["k"]) == (4, 4)


def test_effects_of_few_rows_are_known_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_matcher, "MAX_EFFECTS", 4)
    pattern = "a -> b -> c -> d -> e"
    automaton = build_automaton(parse_pattern(pattern))
    matcher, changes = KeyMatcher(Matcher(automaton, MatchRules())), RunChanges([], set())
    rows = [("k", fits, (fits, fits)) for fits in range(32)]
    matcher.push_rows({}, rows, changes)
    assert max(map(len, matcher._effects)) <= 4
    assert [each.time_us for each in changes.decisions] == [16, 25]
