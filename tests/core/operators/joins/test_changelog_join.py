"""A join of changes: after each batch its changes come to what a person would join by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from headrace.core.operators.indistinct_rows import IndistinctRows
from headrace.core.operators.joins import changelog_join
from headrace.core.operators.operator import Output
from headrace.core.plan.nodes import JoinType
from headrace.core.plan.nodes.matching import ChangelogMatch
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.types.elements import DELETE, EVENT_TIME
from tests.support.runtime.changelogs import Clock, Table, schema_of
from tests.support.runtime.two_input_operators import Inputs, Row, join

LEFT, RIGHT = 0, 1
SCHEMAS = schema_of(k="string", i="int", v="int"), schema_of(k="string", j="int", p="int")
TYPES: tuple[JoinType, ...] = ("inner", "left", "right", "full", "semi", "anti")


def changing(
    type: JoinType = "inner",
    *,
    keys: tuple[tuple[str, ...], tuple[str, ...]] = (("k", "i"), ("k", "j")),
    only: str | None = None,
    ttl: Ttl | None = None,
    parallelism: int = 1,
) -> Inputs:
    """Rows of `k, i` on the left and of `k, j` on the right, that meet by `k`."""
    sides = (SCHEMAS[0], ["k"]), (SCHEMAS[1], ["k"])
    operation = join(*sides, ChangelogMatch(ttl, keys), type, only)
    return Inputs(operation, SCHEMAS, parallelism=parallelism, clock=Clock(0), timed=False)


def changes(outputs: Sequence[Output]) -> list[Row]:
    """Return the output in order; deletes are prefixed with a minus."""
    found: list[Row] = []
    for _, frame in outputs:
        shown = frame.drop(EVENT_TIME, DELETE, "__order", strict=False)
        for row, gone in zip(shown.rows(), frame[DELETE], strict=True):
            found.append(("-", *row) if gone else row)
    return found


def test_pairs_go_out_when_their_second_row_comes() -> None:
    inputs = changing()
    assert inputs.rows(LEFT, [("a", 1, 10), ("b", 1, 11)]) == []
    out = inputs.rows(RIGHT, [("a", 7, 20)])
    assert changes(out) == [("a", 1, 10, "a", 7, 20)]


def test_a_row_that_changes_takes_its_pairs_along() -> None:
    inputs = changing()
    inputs.rows(LEFT, [("a", 1, 10), ("a", 2, 11)])
    inputs.rows(RIGHT, [("a", 7, 20)])
    assert changes(inputs.rows(LEFT, [("a", 1, 12)])) == [("a", 1, 12, "a", 7, 20)]
    assert sorted(changes(inputs.rows(RIGHT, [("a", 7, 21)]))) == [
        ("a", 1, 12, "a", 7, 21),
        ("a", 2, 11, "a", 7, 21),
    ]
    gone = inputs.rows(RIGHT, [("a", 7, None)], deletes=[True])
    assert sorted(changes(gone)) == [("-", "a", 1, 12, "a", 7, 21), ("-", "a", 2, 11, "a", 7, 21)]
    assert inputs.rows(RIGHT, [("a", 7, None)], deletes=[True]) == []


def test_a_row_that_stays_as_it_is_changes_nothing() -> None:
    inputs = changing("full")
    inputs.rows(LEFT, [("a", 1, None)])
    inputs.rows(RIGHT, [("a", 7, 20)])
    assert inputs.rows(LEFT, [("a", 1, None)]) == []
    assert inputs.rows(LEFT, [("a", 1, 5), ("a", 1, None)]) == []
    assert inputs.rows(RIGHT, [("a", 7, 20)]) == []


def test_an_outer_row_is_there_while_it_meets_nobody() -> None:
    inputs = changing("left")
    assert changes(inputs.rows(LEFT, [("a", 1, 10)])) == [("a", 1, 10, None, None, None)]
    assert changes(inputs.rows(RIGHT, [("a", 7, 20)])) == [
        ("-", "a", 1, 10, None, None, None),
        ("a", 1, 10, "a", 7, 20),
    ]
    assert changes(inputs.rows(RIGHT, [("a", 8, 21)])) == [("a", 1, 10, "a", 8, 21)]
    gone = inputs.rows(RIGHT, [("a", 7, None), ("a", 8, None)], deletes=[True, True])
    assert changes(gone) == [
        ("-", "a", 1, 10, "a", 7, 20),
        ("-", "a", 1, 10, "a", 8, 21),
        ("a", 1, 10, None, None, None),
    ]


def test_where_a_row_meets_one_at_most_it_goes_out_in_the_place_of_itself() -> None:
    inputs = changing("left", keys=(("k", "i"), ("k",)))
    inputs.rows(LEFT, [("a", 1, 10)])
    assert changes(inputs.rows(RIGHT, [("a", 7, 20)])) == [("a", 1, 10, "a", 7, 20)]
    assert changes(inputs.rows(RIGHT, [("a", 8, 21)])) == [("a", 1, 10, "a", 8, 21)]
    gone = inputs.rows(RIGHT, [("a", None, None)], deletes=[True])
    assert changes(gone) == [("a", 1, 10, None, None, None)]


def test_semi_and_anti_joins_emit_left_rows_once() -> None:
    semi, anti = changing("semi"), changing("anti")
    steps: list[tuple[int, Row, bool, list[Row], list[Row]]] = [
        (LEFT, ("a", 1, 10), False, [], [("a", 1, 10)]),
        (RIGHT, ("a", 7, 20), False, [("a", 1, 10)], [("-", "a", 1, 10)]),
        (RIGHT, ("a", 8, 21), False, [], []),
        (RIGHT, ("a", 7, None), True, [], []),
        (RIGHT, ("a", 8, None), True, [("-", "a", 1, 10)], [("a", 1, 10)]),
    ]
    for side, row, gone, of_semi, of_anti in steps:
        assert changes(semi.rows(side, [row], deletes=[gone])) == of_semi
        assert changes(anti.rows(side, [row], deletes=[gone])) == of_anti


def test_the_changes_of_rows_without_key_go_out_as_they_come() -> None:
    inputs = changing("left")
    inputs.rows(RIGHT, [(None, 7, 20)])
    assert changes(inputs.rows(LEFT, [(None, 1, 10)])) == [(None, 1, 10, None, None, None)]
    gone = inputs.rows(LEFT, [(None, 1, 10)], deletes=[True])
    assert changes(gone) == [("-", None, 1, 10, None, None, None)]
    assert changing("inner").rows(LEFT, [(None, 1, 10)]) == []
    assert inputs.states[0].measure_sizes()["keys"].rows == 0


def test_a_full_join_has_the_rows_without_key_of_both_sides() -> None:
    inputs = changing("full")
    assert changes(inputs.rows(LEFT, [(None, 1, 10)])) == [(None, 1, 10, None, None, None)]
    assert changes(inputs.rows(RIGHT, [(None, 7, 20)])) == [(None, None, None, None, 7, 20)]


@pytest.mark.parametrize("keys", [(("k",), ("k",)), (("k", "i"), ("k",))])
def test_two_rows_without_any_key_fail_a_full_join(
    keys: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    """Their rows of the join would replace each other, since the key of both is null."""
    inputs = changing("full", keys=keys)
    row = (None, None, 10)
    assert changes(inputs.rows(LEFT, [row])) == [(*row, None, None, None)]
    (operator,) = inputs.operators
    other = (None, None, None, None, None, 20)
    assert changes(inputs.rows(RIGHT, [(None, None, 20)])) == [other]
    with pytest.raises(IndistinctRows):
        operator.flush_to_state()
    with pytest.raises(IndistinctRows):
        inputs.time()
    removed = ("-", *row, None, None, None)
    assert changes(inputs.rows(LEFT, [row], deletes=[True])) == [removed, other]
    operator.flush_to_state()
    assert inputs.states[0].measure_sizes()["keys"].rows == 1


def test_a_key_without_rows_is_not_stored() -> None:
    inputs = changing("full")
    inputs.rows(LEFT, [("a", 1, 10), ("b", 1, 10)])
    inputs.rows(LEFT, [("a", 1, 10)], deletes=[True])
    assert inputs.states[0].measure_sizes()["keys"].rows == 1


def test_a_pair_has_the_later_time_and_the_place_of_its_left_row() -> None:
    inputs = changing("left")
    inputs.rows(LEFT, [("a", 1, 10)], [9])
    _, (_, frame) = inputs.rows(RIGHT, [("a", 7, 20)], [4])
    assert frame[EVENT_TIME].dt.epoch("us").to_list() == [9]
    assert frame["__order"].struct.unnest().rows() == [(9, 0, 1)]
    _, (_, frame) = inputs.rows(RIGHT, [("a", 7, 20)], [12], deletes=[True])
    assert frame[EVENT_TIME].dt.epoch("us").to_list() == [12]


def test_an_expired_key_starts_without_state() -> None:
    inputs = changing(ttl=Ttl(10))
    inputs.rows(LEFT, [("a", 1, 10)], [100])
    inputs.rows(RIGHT, [("a", 7, 20)], [105])
    assert inputs.time(115) == []
    assert len(changes(inputs.rows(RIGHT, [("a", 8, 20)], [115]))) == 1
    assert inputs.time(126) == []
    assert inputs.rows(RIGHT, [("a", 9, 20)], [126]) == []


def test_a_key_expires_by_the_wall_clock() -> None:
    inputs = changing(ttl=Ttl(10, uses_processing_time=True))
    inputs.rows(LEFT, [("a", 1, 10)])
    inputs.tick(10)
    assert len(changes(inputs.rows(RIGHT, [("a", 8, 20)]))) == 1
    inputs.tick(21)
    assert inputs.rows(RIGHT, [("a", 9, 20)]) == []


Rows = dict[tuple[object, object], Row]


def oracle(type: JoinType, left: Rows, right: Rows, *, only: bool) -> list[Row]:
    """The rows of the join of these."""
    out: list[Row] = []
    none: Row = (None, None, None)
    met: dict[Row, bool] = {}
    for one in left.values():
        partners = [
            other
            for other in right.values()
            if one[0] is not None and one[0] == other[0] and (not only or _meant(one, other))
        ]
        met.update((other, True) for other in partners)
        if type in ("inner", "left", "right", "full"):
            out += [(*one, *other) for other in partners]
        if type in ("left", "full") and not partners:
            out.append((*one, *none))
        if (type == "semi" and partners) or (type == "anti" and not partners):
            out.append(one)
    if type in ("right", "full"):
        out += [(*none, *other) for other in right.values() if other not in met]
    return sorted(out, key=repr)


def _meant(one: Row, other: Row) -> bool:
    value, price = one[2], other[2]
    return value is not None and price is not None and value < price  # type: ignore[operator]


def output_key(type: JoinType, keys: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[str, ...]:
    """As the plan has it: both keys, but for what is equal anyway."""
    left, right = ([f"{s}_{name}" for name in key] for s, key in zip("lr", keys, strict=True))
    if type in ("semi", "anti"):
        return tuple(left)
    if type in ("inner", "left"):
        right = [name for name in right if name != "r_k"]
    elif type == "right":
        left = [name for name in left if name != "l_k"]
    return (*left, *right)


@pytest.mark.parametrize("only", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("type", TYPES)
def test_emitted_changes_add_up_to_the_join_of_current_rows(
    type: JoinType, seed: int, only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(f"{type}{seed}{only}")
    keys = (chance.choice([("k", "i"), ("i", "k"), ("k",)]), chance.choice([("k", "j"), ("k",)]))
    if seed == 0:  # As if there were far too many pairs.
        monkeypatch.setattr(changelog_join, "MAX_PAIRS", 3)
    inputs = changing(
        type, keys=keys, only="l_v < r_p" if only else None, parallelism=chance.randint(1, 3)
    )
    # A full join fails if rows of both sides have keys of nulls.
    names = ["a", "a", "b"] if type == "full" else ["a", "a", "b", None]
    there: tuple[Rows, Rows] = {}, {}
    table = Table(output_key(type, keys))
    for _ in range(30):
        side = chance.randrange(2)
        rows, gone = _batch(chance, names, there[side], keys[side])
        table.take(inputs.rows(side, rows, deletes=gone if any(gone) else None))
        assert sorted(table.rows.values(), key=repr) == oracle(type, *there, only=only)
        if chance.random() < 0.15:
            inputs.begin_anew(chance.randint(1, 3))


def _batch(
    chance: random.Random, names: Sequence[str | None], there: Rows, key: tuple[str, ...]
) -> tuple[list[Row], list[bool]]:
    """Some changes, which are made; rows without key are deleted only if they were there."""
    before = set(there)
    rows: list[Row] = []
    gone: list[bool] = []
    for _ in range(chance.randint(1, 6)):
        row = (chance.choice(names), chance.choice([1, 2, None]), _value(chance))
        name = (row[0], row[1] if len(key) == 2 else None)
        deletes = chance.random() < 0.35
        if deletes and row[0] is None and name not in before:
            continue
        rows.append(row)
        gone.append(deletes)
        if deletes:
            there.pop(name, None)
        else:
            there[name] = row
    return rows or [("z", 0, 0)], gone or [True]


def _value(chance: random.Random) -> int | None:
    return chance.choice([None, 1, 2, 3])
