"""Key groups restored with different clocks: each continues by its own."""

from __future__ import annotations

from headrace.core.api.state import FrozenState, StepState
from headrace.core.api.state_backend import StateOwnership
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.keyed_factory import build_keyed_operator
from headrace.core.operators.wrappers import PerClockOperator
from headrace.core.plan.nodes import Aggregate
from headrace.core.plan.nodes.windows import Session, Ttl, Window
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.key_groups import compute_owned_groups, compute_row_groups
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import aggregate as running
from tests.support.runtime.changelogs import computed as column
from tests.support.runtime.changelogs import schema_of
from tests.support.runtime.window_operators import Driven, aggregate, frame_of, us

GROUPS = 8
SESSION = aggregate(Window(Session(us(10))))


def groups_of(key: str) -> int:
    return int(compute_row_groups(frame_of([(0, key, 0)]), ["k"], GROUPS)[0])


LOW = next(key for key in "abcdefgh" if groups_of(key) < 4)
HIGH = next(key for key in "abcdefgh" if groups_of(key) >= 4)


def opened(owner: StateOwnership, operation: Aggregate) -> tuple[StepState, Driven]:
    state = MemoryBackend().open_state(owner)
    place = KeyedContext("out", state, lambda: 0, is_ordered=False, read_streams=frozenset())
    return state, Driven(operation, state, build_keyed_operator(operation, place))


def subtask(
    index: int, operation: Aggregate, restored: tuple[FrozenState, ...] = ()
) -> StateOwnership:
    parallelism = 2 if not restored else 1
    return StateOwnership(
        "step", index, compute_owned_groups(index, parallelism, GROUPS), GROUPS, restored
    )


def frozen(operation: Aggregate) -> tuple[FrozenState, FrozenState]:
    """Two subtasks that both had a row at 100; the second has heard of more time."""
    states = []
    for index, (key, clock) in enumerate([(LOW, 105), (HIGH, 130)]):
        state, driven = opened(subtask(index, operation), operation)
        driven.rows((100, key, 1))
        driven.time(clock)
        states.append(state.freeze())
    return states[0], states[1]


def restored(operation: Aggregate) -> tuple[list[StepState], Driven]:
    """One subtask restored from both."""
    parts = [
        (owner, *opened(owner, operation))
        for owner in subtask(0, operation, frozen(operation)).split_by_clock()
    ]
    divided = PerClockOperator(operation.key, GROUPS, [(o.groups, d.operator) for o, _, d in parts])
    return [state for _, state, _ in parts], Driven(operation, parts[0][1], divided)


def test_a_row_is_late_by_the_clock_of_its_key_group() -> None:
    states, driven = restored(SESSION)
    assert [state.clock_us for state in states] == [us(105), us(130)]
    assert driven.rows((104, LOW, 2), (104, HIGH, 2)) == []
    assert [state.counters.late for state in states] == [0, 1]
    assert driven.time(120) == [(LOW, 100, 114, 2, 3)]
    assert driven.rows((115, HIGH, 3)) == driven.rows((121, HIGH, 4)) == []
    assert [state.counters.late for state in states] == [0, 2]
    assert driven.end() == [(HIGH, 121, 131, 1, 4)]


def test_a_key_expires_by_the_clock_of_its_key_group() -> None:
    rows = schema_of(k="string", x="bigint")
    operation = running(rows, column(rows, "k"), {"n": "count(*)"}, ttl=Ttl(us(20)))
    _, driven = restored(operation)
    assert sorted(driven.rows((110, LOW, 1), (110, HIGH, 1))) == sorted([(LOW, 2), (HIGH, 1)])


def test_even_clocks_are_not_divided() -> None:
    one, two = frozen(SESSION)
    assert len(StateOwnership("step", 0, range(4), GROUPS, (one, two)).split_by_clock()) == 1
    assert len(StateOwnership("step", 0, range(8), GROUPS, (one, one)).split_by_clock()) == 1
    parts = StateOwnership("step", 0, range(2, 6), GROUPS, (two, one)).split_by_clock()
    assert [(part.groups, part.clock_us) for part in parts] == [
        (range(2, 4), us(105)),
        (range(4, 6), us(130)),
    ]


def test_counters_are_restored_in_one_subtask() -> None:
    states, driven = restored(SESSION)
    driven.rows((1, LOW, 0), (1, HIGH, 0), (1, HIGH, 0))
    driven.said(driven.operator.advance(MAX_WATERMARK_US))
    kept = tuple(state.freeze() for state in states)
    owners = [
        StateOwnership("step", at, compute_owned_groups(at, 5, GROUPS), GROUPS, kept)
        for at in range(5)
    ]
    assert sum(part.counters.late for owner in owners for part in owner.split_by_clock()) == 3
