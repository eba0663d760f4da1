"""An aggregate that subtracts removed rows forgets a key with its `ttl`.

Results of such aggregates: tests/core/operators/changelog/test_random_tables.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from headrace.core.operators.keyed_factory import build_keyed_operator
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.types.elements import WEIGHT
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import (
    ALL,
    Table,
    aggregate,
    computed,
    place,
    schema_of,
    timed,
)

SCHEMA = schema_of(g="string", v="bigint")
TTL_S = 50


def changes(*rows: tuple[str, int, int, int]) -> pl.DataFrame:
    """Return rows of a group, a value, an event time in seconds and a weight."""
    frame = pl.DataFrame([(g, v, w) for g, v, _, w in rows], ["g", "v", WEIGHT], orient="row")
    return timed(frame, [at for _, _, at, _ in rows])


def test_late_changes_are_counted_and_never_subtracted_from_a_key_that_begins_again() -> None:
    state = MemoryBackend().open_state(ALL)
    made = aggregate(SCHEMA, computed(SCHEMA, "g"), {"n": "count(*)", "total": "sum(v)"})
    ttl = Ttl(TTL_S * 1_000_000)
    operator = build_keyed_operator(replace(made, reads_retractions=True, ttl=ttl), place(state))
    table = Table(("g",))

    def move(
        watermark: int, *rows: tuple[str, int, int, int]
    ) -> Mapping[tuple[object, ...], object]:
        table.take(operator.process(changes(*rows)))
        table.take(operator.advance(watermark * 1_000_000))
        return table.rows

    move(40, ("a", 5, 0, 1), ("a", 6, 40, 1), ("b", 7, 0, 1))
    assert move(50, ("a", 5, 0, -1)) == {("a",): ("a", 1, 6), ("b",): ("b", 1, 7)}
    assert move(51, ("b", 7, 0, -1)) == {("a",): ("a", 1, 6)}
    # The key a is stored until 90 s, but a row of 0 s is late from 51 s on.
    assert move(91, ("a", 9, 0, -1)) == {("a",): ("a", 1, 6)}
    assert state.counters.late == 1
    assert move(91, ("a", 1, 91, 1), ("a", 6, 40, -1)) == {("a",): ("a", 1, 1)}
    assert state.counters.late == 2
    assert move(142, ("a", 1, 91, -1)) == {}
