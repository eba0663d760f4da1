"""Random patterns: the runs of a key against the reference matcher, and that against `re`.

Thousands more: `python -m tests.core.patterns.test_random_runs 50000 [SEED]`; it prints the seed
that fails.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.patterns.automaton import NO_VARIABLE, build_automaton
from headrace.core.patterns.key_matcher import KeyMatcher, RunChanges
from headrace.core.patterns.matcher import Matcher
from headrace.core.patterns.parser import parse_pattern
from headrace.core.patterns.pattern import Pattern
from headrace.core.patterns.runs import History, MatchRules, Row, RunsOfKey, SkipRule, list_rows
from headrace.core.plan.nodes import AfterMatch
from headrace.core.testing.reference.match_finder import NEVER_US, MatchFinder, Taken
from tests.support.reference import random_patterns
from tests.support.runtime import expected_rows

EVENT = st.tuples(
    st.sets(st.sampled_from(random_patterns.VARIABLES), max_size=3),
    st.integers(0, 3),
    st.sampled_from([0, 1, 1, 1, 3]),
)
"""The variables that a row fits by itself, a value, and the time since the row before."""
EVENTS = st.lists(EVENT, max_size=9)
RULES: tuple[SkipRule, ...] = ("past_last", "next", "first", "last", "none")
GROWING = frozenset({"b", "e"})
"""The variables whose rows may also have to be as large as the row matched before them."""
Event = tuple[set[str], int, int]
Found = tuple[bool, int, Taken]


@settings(max_examples=300)
@given(st.data())
def test_runs_find_the_matches_of_the_reference_matcher(data: st.DataObject) -> None:
    compare_runs(data)


@settings(max_examples=200)
@given(st.data())
def test_a_pattern_of_adjacent_rows_matches_as_a_regular_expression(data: st.DataObject) -> None:
    compare_expression(data)


def compare_both(data: st.DataObject) -> None:
    """Draw a pattern and rows, and compare the matches in one of the ways."""
    way = data.draw(st.sampled_from([compare_runs, compare_runs, compare_expression]))
    way(data)


def compare_runs(data: st.DataObject) -> None:
    """Compare the decisions of a matcher with those of the reference matcher."""
    pattern, events = parse_pattern(data.draw(random_patterns.patterns())), data.draw(EVENTS)
    rule = data.draw(st.sampled_from(RULES))
    variable = data.draw(st.sampled_from(pattern.variables)) if rule in ("first", "last") else None
    within = data.draw(st.sampled_from([None, 3, 6, 20]))
    growing = data.draw(st.sampled_from([frozenset(), GROWING]))

    def fits(name: str, at: int, before: Sequence[int]) -> bool:
        names, value, _ = events[at]
        is_large = name not in growing or bool(before and value >= events[before[-1]][1])
        return name in names and is_large

    finder = MatchFinder(
        pattern,
        _list_times(events),
        within,
        AfterMatch(rule, variable),
        lambda name, at, taken: fits(name, at, [place for _, place in taken]),
    )
    wanted = []
    for match in finder.find():
        time = match.decided_us
        end = finder.times_us[match.taken[-1][1]]
        wanted.append((match.is_complete, end if time == NEVER_US else time, match.taken))
    names = pattern.names

    def test(number: int, history: History | None, row: Row) -> bool:
        return fits(names[number], row[0], [before[0] for _, before in list_rows(history)])

    rules = MatchRules(within, rule, names.index(variable) if variable else NO_VARIABLE)
    crossed = frozenset(at for at, name in enumerate(names) if name in growing)
    matcher = KeyMatcher(Matcher(build_automaton(pattern), rules, crossed, test))
    assert sorted(_run(matcher, events)) == sorted(wanted)


def _run(matcher: KeyMatcher, events: Sequence[Event]) -> list[Found]:
    """Return whether each match is complete, when it was decided, and its rows."""
    runs, changes = dict[str, RunsOfKey](), RunChanges([], set())
    automaton = matcher.matcher.automaton
    for at, (time, event) in enumerate(zip(_list_times(events), events, strict=True)):
        bits = sum(1 << number for number, name in enumerate(automaton.names) if name in event[0])
        matcher.push_rows(runs, [("k", bits, (at, time))], changes)
    for left in runs.values():
        matcher.finish(left, changes.decisions)
    return [
        (
            each.is_complete,
            each.time_us,
            tuple(
                (automaton.names[automaton.variables[position]], row[0])
                for position, row in list_rows(each.history)
            ),
        )
        for each in changes.decisions
    ]


def _list_times(events: Sequence[Event]) -> list[int]:
    times = list[int]()
    for _, _, pause in events:
        times.append((times[-1] if times else 0) + pause)
    return times


def compare_expression(data: st.DataObject) -> None:
    """Compare the reference matcher with `re`, over a character for each row."""
    text = re.sub(r" -> not \w", "", data.draw(random_patterns.patterns()))
    text = re.sub(r" [-=]> ", " ", text)
    pattern, events = parse_pattern(text), data.draw(EVENTS)
    finder = MatchFinder(
        pattern,
        _list_times(events),
        None,
        AfterMatch(),
        lambda name, at, taken: name in events[at][0],
    )
    found = [
        (match.taken[0][1], match.taken[-1][1] + 1, dict(match.taken))
        for match in finder.find()
        if match.is_complete
    ]
    assert found == _find_by_expression(pattern, text, events)


def _find_by_expression(
    pattern: Pattern, text: str, events: Sequence[Event]
) -> list[tuple[int, int, dict[str, int]]]:
    """Return the start and end of each match, and the place of the last row of each variable."""
    bits = {name: 1 << number for number, name in enumerate(random_patterns.VARIABLES)}
    codes = [chr(0x100 + sum(bits[name] for name in names)) for names, _, _ in events]
    every = [chr(0x100 + code) for code in range(1 << len(bits))]
    fitting = {
        name: "".join(each for each in every if (ord(each) - 0x100) & bit)
        for name, bit in bits.items()
    }
    expression = re.sub(
        r"\w",
        lambda name: f"(?P<{name[0]}>[{fitting[name[0]]}])" if name[0] in fitting else name[0],
        text.replace(" ", "").replace("(", "(?:"),
    )
    compiled = re.compile(f"(?:{expression})(?<=.)", re.DOTALL)
    matches = list[tuple[int, int, dict[str, int]]]()
    start, string = 0, "".join(codes)
    while start < len(string):
        match = compiled.match(string[start:])
        if match is None:
            start += 1
            continue
        last = {
            name: start + match.start(name) for name in pattern.variables if match[name] is not None
        }
        matches.append((start, start + match.end(), last))
        start += match.end()
    return matches


if __name__ == "__main__":
    expected_rows.more(compare_both, sys.argv[1:])
