"""Operators that are snapshotted and restored at any time emit the rows of undisturbed ones."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.api.state import NO_CLOCK_US
from headrace.core.plan.nodes import Plan
from tests.support.paths import WINDOW_CODE
from tests.support.reference import random_pipelines
from tests.support.runtime.operator_subtasks import END, Event, Subtasks, plan_of, planned, script

COUNTED = "aggregate: {n: count(*), total: sum(v), head: first(v), all: collect_list(s)}"
AWAITED = f"trigger: {{python: '{WINDOW_CODE}:Awaited', of: v}}"
CLOCKED = f"trigger: {{python: '{WINDOW_CODE}:Clocked', of: v}}"
SUMMED = "aggregate: {n: count(*), total: sum(v)}"
STEPS = [
    f"key: k, window: {{tumble: 5s}}, {COUNTED}",
    f"key: k, window: {{tumble: 5s, lateness: 4s, late_to: late}}, {COUNTED}",
    f"key: k, window: {{tumble: 5s, lateness: 4s, accumulate: false}}, {COUNTED}",
    f"key: [k, s], window: {{slide: 6s, every: 2s, late_to: late}}, {COUNTED}",
    f"key: k, window: {{slide: 6s, every: 2s, lateness: 3s}}, {COUNTED}",
    f"window: {{slide: 2s, every: 5s, late_to: late}}, {COUNTED}",
    f"key: k, window: {{cumulate: 6s, every: 2s}}, {COUNTED}, having: n > 1",
    f"key: k, window: {{tumble: 5s, time: processing}}, {COUNTED}",
    f"key: k, window: {{slide: 6s, every: 2s, time: processing}}, {COUNTED}",
    f"key: k, window: {{tumble: 5s, trigger: {{every: 2s}}}}, {COUNTED}",
    f"key: k, window: {{slide: 6s, every: 2s, trigger: {{every: 1s}}}}, {COUNTED}",
    f"key: k, window: {{tumble: 9s, trigger: {{every: 2s}}, accumulate: false}}, {COUNTED}",
    f"key: k, window: {{tumble: 5s, trigger: {{every: 2s, time: processing}}}}, {COUNTED}",
    "window: {tumble: 8s, trigger: {every: 4s, time: processing}, accumulate: false}, "
    f"{SUMMED}",
    f"key: k, window: {{tumble: 5s, time: processing, trigger: {{every: 2s}}}}, {COUNTED}",
    f"key: k, window: {{tumble: 5s, trigger: {{count: 3}}}}, {COUNTED}",
    f"key: k, window: {{slide: 6s, every: 3s, trigger: {{count: 2}}, accumulate: false}}, {SUMMED}",
    f"key: k, window: {{tumble: 8s, {AWAITED}}}, {COUNTED}",
    f"window: {{slide: 6s, every: 3s, {AWAITED}, accumulate: false}}, {SUMMED}",
    f"key: k, window: {{global: true, {CLOCKED}}}, {SUMMED}",
    f"key: k, window: {{tumble: 5s, time: processing, {CLOCKED}}}, {SUMMED}",
    f"key: k, window: {{session: 2s, lateness: 4s, late_to: late, {AWAITED}}}, {COUNTED}",
    f"window: {{session: 1s, {AWAITED}, accumulate: false}}, {SUMMED}",
    f"key: k, window: {{session: 2s, time: processing, {CLOCKED}}}, {SUMMED}",
    f"key: k, window: {{tumble: 5s, evict: {{last: 2}}}}, {COUNTED}",
    f"key: k, window: {{tumble: 5s, evict: {{within: 1s}}, time: processing}}, {COUNTED}",
    f"key: k, window: global, {COUNTED}",
    f"key: k, window: {{global: true, trigger: {{every: 3s}}}}, {COUNTED}",
    f"key: k, window: {{global: true, trigger: {{every: 3s, time: processing}}}}, {COUNTED}",
    f"key: k, window: {{session: 2s, late_to: late}}, {COUNTED}",
    f"key: k, window: {{session: 2s, lateness: 4s, late_to: late}}, {COUNTED}",
    f"window: {{session: 500ms, lateness: 2s}}, {COUNTED}",
    f"key: k, window: {{session: 2s, trigger: {{every: 3s}}}}, {COUNTED}",
    f"key: k, window: {{session: 2s, trigger: {{count: 2}}}}, {COUNTED}, having: n > 1",
    f"key: k, window: {{session: 2s, trigger: {{count: 2}}, accumulate: false}}, {COUNTED}",
    "window: {session: 1s, trigger: {count: 3}, lateness: 4s}, aggregate: {a: collect_list(v)}",
    f"key: k, window: {{session: 2s, trigger: {{every: 3s, time: processing}}}}, {COUNTED}",
    f"key: k, window: {{session: 2s, time: processing}}, {COUNTED}",
    f"key: k, window: {{session: 4s, time: processing, trigger: {{every: 3s}}}}, {COUNTED}",
    f"key: k, window: {{session: 2s, evict: {{within: 1s}}}}, {COUNTED}",
    f"key: [k, s], window: {{count: 3}}, {COUNTED}",
    f"key: {{x: x}}, window: {{count: 3}}, {COUNTED}",
    f"key: k, window: {{count: 4, every: 2}}, {COUNTED}",
    f"window: {{count: 5, every: 2, evict: {{last: 2}}}}, {COUNTED}",
    f"where: v > 0, key: k, {COUNTED}, having: n > 3 or total < 4",
    f"key: k, {COUNTED}, ttl: 3s",
    f"key: k, {COUNTED}, ttl: {{after: 3s, time: processing}}, having: n < 4",
    f"{COUNTED}, ttl: 1s",
    "key: k, top: {n: 2, by: v desc}",
    "key: k, top: {n: 2, by: v desc}, ttl: 3s",
    "top: {n: 3, by: [s nulls last, v]}, ttl: {after: 2s, time: processing}",
    "key: k, window: {tumble: 5s, late_to: late}, top: {n: 2, by: v desc}",
    "window: {slide: 6s, every: 2s}, top: {n: 2, by: v}",
    "key: k, window: {tumble: 5s, time: processing}, top: {n: 2, by: v}",
    "key: k, window: {tumble: 9s, trigger: {count: 3}, accumulate: false}, top: {n: 2, by: v}",
    "key: k, window: {tumble: 5s, evict: {last: 3}}, top: {n: 2, by: v}",
    "key: k, window: global, top: {n: 2, by: v}",
    "key: k, window: {session: 2s, late_to: late}, top: {n: 2, by: v}",
    "key: k, window: {session: 2s, time: processing}, top: {n: 2, by: v}",
    "key: k, window: {count: 4, every: 2}, top: {n: 2, by: v}",
    "dedup: {key: [k, s]}",
    "dedup: {key: k, ttl: 2s}",
    "dedup: {key: k, ttl: 2s, time: processing}",
    "key: k, top: {n: 2, by: v desc, ties: rank}",
    "key: k, top: {n: 2, by: v desc, ties: dense_rank}, ttl: 3s",
    "key: s, top: {n: 2, by: k, ties: dense_rank}, select: {s: s, k: k, r: rank}",
    "dedup: {key: [k, s], keep: last}",
    "dedup: {key: [k, s], order: event_time, late_to: late}",
    "dedup: {key: x, ttl: 2s, order: event_time, late_to: late}",
    "dedup: {key: k, keep: last, order: event_time}",
    "where: v > 0, select: {k: k, w: v + 1}",
    "key: k, match: {pattern: a b+ -> c, define: {a: v > 0, b: v >= a.v, c: v < last(b.v)},"
    " within: 6s, emit: {n: count(b), t: sum(b.v), s: c.s}, late_to: late}",
    "key: k, match: {pattern: a -> not b, define: {a: v > 1, b: 'v > first(a.v, 2)'}, within: 4s,"
    " after_match: none, emit: {s: a.s}}",
    "key: s, match: {pattern: '(a | b)+ => c?', define: {a: v > 0, b: k > 0, c: v < 1},"
    " within: 5s, after_match: next, all_rows: true}",
    "match: {pattern: 'a{2,3} b? c', define: {a: v > 0, b: v < count(a), c: s is not null},"
    " after_match: {last: a}, emit: {n: count(*), m: max(a.x)}}",
]


ALONE = random_pipelines.pipelines(one_split=True).filter(lambda text: "from: made" not in text)
"""Pipelines of one step, which gets the rows here."""


def disturbed(whole: Plan, chance: random.Random, length: int) -> None:
    """Compare subtasks that are restored again and again with one that is not."""
    one, other = Subtasks(whole, 1), Subtasks(whole, chance.randint(1, 3))
    for at, event in enumerate([*script(chance, length, sides=one.sides), *END]):
        assert other.said(event) == one.said(event), (at, event)
        disturb(other, chance)


def disturb(subtasks: Subtasks, chance: random.Random) -> None:
    """Restore subtasks from a snapshot, or take a snapshot, or leave them alone."""
    match chance.randrange(6):
        case 0:
            subtasks.begin_anew(chance.randint(1, 3))
        case 1:
            subtasks.begin_anew(subtasks.parallelism)
        case 2:
            subtasks.freeze()


def draw_for(step: str) -> random.Random:
    """The same numbers for a step wherever the tests lie."""
    return random.Random(step.replace(str(WINDOW_CODE), ""))


@pytest.mark.parametrize("step", STEPS)
def test_a_restored_step_continues(step: str) -> None:
    disturbed(plan_of(step), draw_for(step), 20)


@settings(max_examples=10, deadline=None)
@given(ALONE, st.integers(0, 99))
def test_a_restored_random_step_continues(text: str, seed: int) -> None:
    disturbed(planned(text), random.Random(seed), 12)


@pytest.mark.parametrize("step", STEPS[::4])
def test_subtasks_at_different_times_can_be_merged(step: str) -> None:
    """Undisturbed subtasks receive only times that are new to them, as in a real run."""
    chance = draw_for(step)
    apart, joined = Subtasks(plan_of(step), 2), Subtasks(plan_of(step), 2)
    for event in script(chance, 10, subtasks=2):
        assert apart.said(event) == joined.said(event), event
    joined.begin_anew(chance.choice([1, 3]))
    for at, event in enumerate([*script(chance, 10), *END]):
        assert apart.said(event) == joined.said(event), event
        if at == 6:
            joined.begin_anew(2)


def test_key_groups_of_different_clocks_have_states_of_their_own() -> None:
    two = Subtasks(plan_of(STEPS[0]), 2)
    two.said(Event(0, (), 5, only=0))
    two.begin_anew(1)
    assert [state.clock_us for state in two.compiled[0].states["step"]] == [5, NO_CLOCK_US]
    two.said(Event(0, (), 7))
    two.begin_anew(3)
    assert all(len(each.states["step"]) == 1 for each in two.compiled)
