"""Conditions on constants are warned of: they are the same for every row."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan.constant_conditions import CONSTANT_MESSAGE
from tests.support.plans import built, over_orders

QUOTES = "text in double quotes is a string"


@pytest.mark.parametrize(
    ("step", "at", "hint"),
    [
        ("where: '\"name\" = ''a1'''", '"name"', "write name"),
        ("where: 'id > 1 and ''a1'' <> \"name\"'", '"name"', "write name"),
        ("where: '\"nmae\" = ''a1'''", "\"nmae\" = ''a1''", QUOTES),
        ("where: '\"name\" in (''a'', ''b'')'", '"name"', "write name"),
        ("where: '\"name\" like ''a%'''", '"name"', "write name"),
        ("where: '\"name\" is null'", '"name"', "write name"),
        ("where: 1 = 1", "1 = 1", ""),
        ("select: {x: 'if(\"name\" = ''a'', 1, 2)'}", '"name"', "write name"),
        ("aggregate: {n: 'count_if(\"name\" = ''a'')'}", '"name"', "write name"),
        ("route: {a: '\"name\" = ''a'''}", '"name"', "write name"),
    ],
)
def test_a_condition_on_constants_is_warned_of(
    tmp_path: Path, step: str, at: str, hint: str
) -> None:
    _, problems = built(tmp_path, over_orders(step))
    (found,) = (each for each in problems if each.message == CONSTANT_MESSAGE)
    place = found.location
    assert place is not None
    assert place.text[place.column - 1 : place.column - 1 + place.length] == at
    assert found.hint.startswith(hint) if hint else not found.hint
    assert found.severity == "warning"


@pytest.mark.parametrize(
    "condition", ["name = 'a'", "true", "id = 1 + 1", "now() > timestamp '2026-01-01'"]
)
def test_other_conditions_are_not(tmp_path: Path, condition: str) -> None:
    _, problems = built(tmp_path, over_orders(f'where: "{condition}"'))
    assert CONSTANT_MESSAGE not in [each.message for each in problems]
