"""What may follow a row: positions, signs and negations, in the order of preference."""

from __future__ import annotations

import pytest

from headrace.core.patterns.automaton import END, Automaton, Option, build_automaton
from headrace.core.patterns.parser import parse_pattern


def automaton_of(text: str) -> Automaton:
    return build_automaton(parse_pattern(text))


def shown(automaton: Automaton, options: tuple[Option, ...]) -> str:
    """Return options as text: the sign, the negated variable, and the variable."""
    signs = {"next": "", "followed_by": "->", "every": "=>"}
    texts = []
    for option in options:
        negated = f"!{automaton.names[option.negated]} " if option.negated >= 0 else ""
        name = "end" if option.position == END else automaton.names[option.variable]
        texts.append(f"{signs[option.sign]}{negated}{name}")
    return ", ".join(texts)


@pytest.mark.parametrize(
    ("text", "variable", "following"),
    [
        ("a b", "a", "b"),
        ("a -> b", "a", "->b"),
        ("a b+ -> c", "b", "b, ->c"),
        ("a b+? -> c", "b", "->c, b"),
        ("a => b*", "b", "=>b, end"),
        ("a b?", "b", "end"),
        ("a -> b? c", "a", "->b, c"),
        ("a -> (b | c d)", "a", "->b, ->c"),
        ("a -> (b c)+", "c", "->b, end"),
        ("x -> (a+)+", "a", "a, ->a, end"),
        ("a -> not b -> c", "a", "->!b c"),
        ("a -> b* -> not c", "b", "->b, !c end"),
        ("a b*?", "a", "end"),
        ("a -> not n (b | c)", "a", "!n b, !n c"),
    ],
)
def test_options_after_a_variable(text: str, variable: str, following: str) -> None:
    automaton = automaton_of(text)
    position = automaton.variables.index(automaton.names.index(variable))
    assert shown(automaton, automaton.following[position]) == following


def test_a_number_of_repetitions_has_a_position_for_each() -> None:
    automaton = automaton_of("a{2,4}")
    first = automaton.start[0].position
    second = automaton.following[first][0].position
    third = automaton.following[second][0].position
    fourth = automaton.following[third][0].position
    lengths = [len(automaton.following[at]) for at in (first, second, third, fourth)]
    assert len({first, second, third, fourth}) == 4
    assert lengths == [1, 2, 2, 1]
    assert automaton.following[fourth][0].position == END


def test_variables_that_may_have_rows_before_another() -> None:
    automaton = automaton_of("a (b | c)+ -> not d -> e")
    names = automaton.names
    earlier = {n: {names[at] for at in automaton.find_earlier(i)} for i, n in enumerate(names)}
    assert earlier == {
        "a": set(),
        "b": {"a", "b", "c"},
        "c": {"a", "b", "c"},
        "d": {"a", "b", "c"},
        "e": {"a", "b", "c"},
    }


def test_what_follows_the_end_is_never_reached() -> None:
    automaton = automaton_of("a b*?")
    reached = {automaton.variables[at] for at in automaton.find_reached()}
    assert {automaton.names[at] for at in reached} == {"a"}
