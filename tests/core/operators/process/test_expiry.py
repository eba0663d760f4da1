"""Expiry of lists and maps, by a manual clock."""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import Any

import pytest

from headrace.core.operators.process.call_context import CallContext
from headrace.core.operators.process.cell_class import CellFactory
from headrace.core.operators.process.state_values import MIN_PRUNE_SIZE, TtlList, TtlMap
from headrace.core.operators.process.timers import TimerHeap
from headrace.core.process.declarations import Declared, Kind
from headrace.core.process.value_conversion import build_converter
from headrace.core.types.data_types import BIGINT, STRING

TTL_US = 10


class Clock:
    """A manual clock that counts its reads."""

    def __init__(self) -> None:
        self.us = 0
        self.asked = 0

    def __call__(self) -> int:
        self.asked += 1
        return self.us


def ageing_map(clock: Clock) -> TtlMap:
    return TtlMap(clock, TTL_US, build_converter(STRING), build_converter(BIGINT))


@pytest.mark.parametrize("looked", [False, True])
def test_an_entry_set_again_after_its_expiry_is_the_last_one(
    looked: bool,
) -> None:
    clock = Clock()
    found = ageing_map(clock)
    found["a"] = 1
    clock.us = 5
    found["b"] = 2
    clock.us = 11
    if looked:
        assert "a" not in found
    found["a"] = 3
    assert list(found.items()) == [("b", 2), ("a", 3)]
    found["b"] = 4
    assert list(found) == ["b", "a"]


def test_a_list_with_ttl_does_what_lists_do_and_no_element_is_younger_for_it() -> None:
    clock = Clock()
    found = TtlList(clock, TTL_US, build_converter(BIGINT))
    for clock.us, value in enumerate([3, -4, 1]):
        found.append(value)
    found.sort()
    assert found == [-4, 1, 3] == found.copy()
    found.sort(key=abs, reverse=True)
    more = [5]
    assert (found + more, more + found) == ([-4, 3, 1, 5], [5, -4, 3, 1])
    found.reverse()
    assert found.entries == [(1, 12), (3, 10), (-4, 11)]
    clock.us = 11
    found.sort(key=None)
    assert found.entries == [(-4, 11), (1, 12)]
    found += [2]
    assert found.entries[-1] == (2, 21)


def test_what_has_had_its_time_goes_when_nobody_looks() -> None:
    clock = Clock()
    by_name, in_line = ageing_map(clock), TtlList(clock, TTL_US, build_converter(BIGINT))
    kept: list[Any] = [by_name.entries, in_line.entries]
    for clock.us in range(1_000):
        by_name[str(clock.us)] = clock.us
        in_line.append(clock.us)
        assert max(map(len, kept)) <= 2 * (TTL_US + 1) + MIN_PRUNE_SIZE + 1
    assert list(in_line) == list(by_name.values()) == list(range(989, 1_000))


def test_to_append_does_not_go_through_all_elements() -> None:
    clock = Clock()
    found = TtlList(clock, 1_000_000, build_converter(BIGINT))
    found.extend(range(10_000))
    assert clock.asked < 10_100
    assert len(found) == 10_000


@pytest.mark.parametrize("ttl_us", [None, TTL_US])
def test_to_save_what_is_not_nested_calls_nothing_for_each_element(ttl_us: int | None) -> None:
    texts, numbers = (STRING,), (STRING, BIGINT)
    states = {
        "line": Declared(Kind.LIST, texts, ttl_us),
        "names": Declared(Kind.MAP, numbers, ttl_us),
    }
    cells = CellFactory(states, CallContext(Clock()), TimerHeap(()), TimerHeap(()))
    cell = cells.create(1)
    for number in range(1_000):
        cell.line.append(str(number))
        cell.names[str(number)] = number
    calls = 0

    def count(frame: object, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    saved = cells.save(cell)
    sys.setprofile(None)
    assert calls < 20
    cell.line.append("more")
    del cell.names["7"]
    cells.restore(cell, saved)
    assert [len(cell.line), len(cell.names)] == [1_000, 1_000]


def test_a_map_that_forgets_is_put_together_with_others_as_a_dict_is() -> None:
    clock = Clock()
    found = same = ageing_map(clock)
    found["a"] = 1
    clock.us = 5
    found |= {"b": 2}
    assert found is same
    for seen in (found, MappingProxyType(found)):
        assert seen | {"c": 3} == {"a": 1, "b": 2, "c": 3}
        assert seen.copy() == {"a": 1, "b": 2}
    clock.us = 11
    assert dict(found) == {"b": 2}
