"""A pattern is compiled when it is first used."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from headrace.core.types.lazy_pattern import compile_pattern


def test_a_pattern_has_the_attributes_of_a_compiled_one() -> None:
    pattern = compile_pattern(r"(?P<number>\d+)", re.ASCII)
    for _ in range(2):
        found = pattern.fullmatch("12")
        assert found is not None and found["number"] == "12"
    assert (pattern.groups, pattern.sub("x", "a1b23")) == (1, "axbx")


def test_a_pattern_is_copied_and_pickled_as_a_compiled_one_is() -> None:
    pattern = compile_pattern("A", re.IGNORECASE)
    assert pattern.fullmatch("a")
    for made in (pickle.loads(pickle.dumps(pattern)), copy.deepcopy(pattern)):
        assert made.fullmatch("a") and not made.fullmatch("b")


def test_a_pattern_that_is_not_used_is_not_compiled() -> None:
    pattern = compile_pattern("(")
    with pytest.raises(re.error, match="unterminated"):
        pattern.match("")
