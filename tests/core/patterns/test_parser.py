"""Patterns: what is read, and mistakes with their places and hints."""

from __future__ import annotations

import pytest

from headrace.core.expressions.typed import ExpressionError
from headrace.core.patterns.parser import parse_pattern
from headrace.core.patterns.pattern import (
    Element,
    Group,
    Negation,
    Quantifier,
    Variable,
    find_first_variables,
)


@pytest.mark.parametrize(
    "text",
    [
        "created -> not paid",
        "low up{2,4} down?",
        "a -> (b | c d)+? => e{2,}",
        "a{3} b*? c{0,2}?",
        "a -> not b -> c",
        "(a | b) | c",
    ],
)
def test_the_text_of_a_pattern_is_read_again_as_the_same_pattern(text: str) -> None:
    assert str(parse_pattern(text)) == text


def test_signs_quantifiers_and_negations_are_parts_of_the_tree() -> None:
    (sequence,) = parse_pattern("a  b{ 2 , }?->not c =>(d|e)").alternatives
    first, second, negation, group = sequence.elements
    assert isinstance(first, Element) and first.sign is None
    assert isinstance(second.part, Variable) and second.sign == "next"
    assert second.part.quantifier == Quantifier(2, None, is_reluctant=True)
    assert isinstance(negation.part, Negation) and negation.part.name == "c"
    assert isinstance(group.part, Group) and group.sign == "every"


def test_variables_are_listed_in_the_order_of_the_text() -> None:
    pattern = parse_pattern("a? (b | c) -> not d -> e")
    assert pattern.names == ("a", "b", "c", "d", "e")
    assert pattern.variables == ("a", "b", "c", "e")
    assert pattern.negated_variables == ("d",)
    assert [*find_first_variables(pattern.alternatives)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("", (0, 0), "wanted a pattern, got nothing", "as in a b+ -> c"),
        ("-> a", (0, 2), 'wanted a variable or a group, got "->"', "begins with a variable"),
        ("a !b", (2, 3), 'wanted a variable or a group, got "!"', "not paid"),
        ("a, b", (1, 2), 'wanted a variable or a group, got ","', "-> the next one that fits"),
        ("a ->", (3, 4), "wanted a variable or a group, got the end", ""),
        ("größe b", (0, 5), 'wanted a name, got "größe"', "letters (a-z, A-Z)"),
        ("a (b c", (5, 6), 'wanted ")", got the end', ""),
        ("a )", (2, 3), 'wanted the end of the pattern, got ")"', ""),
        ("a ++ b", (3, 4), 'wanted a variable or a group, got "+"', "right after a variable"),
        ("a b{4,2}", (3, 8), "{4,2} repeats nothing", "the smaller number first"),
        ("a b{0}", (3, 6), "{0} repeats nothing", "a part that never comes"),
        ("a b{2000}", (3, 9), "more than 1000 repetitions", "count(a)"),
        ("a (b{40} c){40}", (0, 11), "rows in all repetitions", ""),
        ("a b a", (4, 5), '"a" is used twice', "a name and a condition of its own"),
        ("a -> not b -> b", (14, 15), '"b" is used twice', ""),
        ("not a b", (0, 5), "nothing comes before not a", "as in start -> not a"),
        ("a (not b c)", (3, 8), "nothing comes before not b", ""),
        ("a not b not c d", (8, 13), "followed by another not", "condition has `or`"),
        ("a (b -> not c)+", (8, 13), "at the end of a group", "as in (a b) -> not c"),
        ("a -> not b c?", (11, 12), "which may be left out, follows not b", "two alternatives"),
        ("a not (b c)", (6, 7), 'wanted a variable after not, got "("', "one variable"),
        ("a not b+", (7, 8), "no quantifier after not", "not b"),
        ("a* b?", (0, 4), "matches no row at all", "a+ instead of a*"),
        ("x (a?)* b", (2, 6), "repeats a group that may have no row", "must have a row"),
        ("a | b?", (4, 5), "matches no row at all", ""),
        ("(" * 30 + "a" + ")" * 30, (20, 21), "more than 20 nested groups", ""),
    ],
)
def test_a_mistake_has_its_place_and_a_hint(
    text: str, place: tuple[int, int], message: str, hint: str
) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_pattern(text)
    error = raised.value
    assert message in error.message
    assert hint in error.hint
    assert (error.span.start, error.span.end) == place
