"""The states that `explain` shows are those that the operator of a step opens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.state import (
    Entries,
    FrozenState,
    KeyedTable,
    Redistribution,
    RunsLayout,
    SortedRuns,
    StepCounters,
    StepState,
)
from headrace.core.api.state_backend import StateOwnership
from headrace.core.api.state_sizes import StateSize
from headrace.core.operators.joins.factory import build_join
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.keyed_factory import build_keyed_operator
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_keyed_operation, get_two_input_operation
from headrace.core.plan.states import get_step_state
from headrace.core.types.elements import EVENT_TIME
from headrace.core.types.row_order import add_row_order
from headrace.state.memory.backend import MemoryBackend
from tests.support.paths import WINDOW_CODE
from tests.support.plans import SOURCE, over_orders, plan_of

AWAITED = f"trigger: {{python: '{WINDOW_CODE}:Awaited', of: id}}"


@dataclass
class Noted:
    """A state that records the states opened in it."""

    inner: StepState
    opened: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    clock_us: int = 0
    counters: StepCounters = field(default_factory=StepCounters)
    buffered_sizes: dict[str, Callable[[], StateSize]] = field(default_factory=dict)

    def open_runs(self, name: str, layout: RunsLayout) -> SortedRuns:
        self.opened[name] = "runs", frozenset(layout.columns)
        return self.inner.open_runs(name, layout)

    def open_table(
        self,
        name: str,
        columns: Mapping[str, pl.DataType],
        group: tuple[str, ...] | None = None,
    ) -> KeyedTable:
        self.opened[name] = "table", frozenset(columns)
        return self.inner.open_table(name, columns, group)

    def open_entries(self, name: str, spread: Redistribution) -> Entries:
        return self.inner.open_entries(name, spread)

    def get_restored_columns(self, name: str) -> Mapping[str, pl.DataType] | None:
        return self.inner.get_restored_columns(name)

    def measure_sizes(self) -> Mapping[str, StateSize]:
        return self.inner.measure_sizes()

    def freeze(self) -> FrozenState:
        return self.inner.freeze()

    def close(self) -> None:
        self.inner.close()


def opened(part: nodes.Step) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the states that the operator of a step opens when a row arrives."""
    operation = get_keyed_operation(part)
    assert operation is not None
    state = Noted(MemoryBackend().open_state(StateOwnership("s", 0, range(8), 8)))
    place = KeyedContext("s", state, lambda: 0, is_ordered=False, read_streams=frozenset())
    row = {"id": [1], "name": ["x"], "price": [1], EVENT_TIME: [datetime(2026, 1, 1, tzinfo=UTC)]}
    frame = pl.DataFrame(row).with_columns(
        pl.col(EVENT_TIME).cast(pl.Datetime("us", "UTC")), pl.col("price").cast(pl.Decimal(10, 2))
    )
    list(build_keyed_operator(operation, place).process(add_row_order(frame, pl.lit(1))))
    return state.opened


@pytest.mark.parametrize(
    "step",
    [
        "key: name, window: {tumble: 10s}, aggregate: {n: count(*), total: sum(price)}",
        "key: name, window: {slide: 10s, every: 2s, lateness: 1m}, aggregate: {n: max(id)}",
        "window: {cumulate: 10s, every: 2s}, aggregate: {n: last(id)}",
        "window: global, aggregate: {n: count(distinct id)}",
        "key: name, window: {session: 10s}, aggregate: {n: count(*)}",
        "key: name, window: {session: 10s, lateness: 1m}, aggregate: {n: count(*)}",
        "key: name, window: {session: 10s, trigger: {count: 2}}, aggregate: {n: count(*)}",
        "window: {session: 1s, trigger: {count: 2}, accumulate: false}, aggregate: {n: count(*)}",
        "key: name, window: {count: 10}, aggregate: {n: count(*)}",
        "key: name, window: {count: 10, every: 3}, aggregate: {n: count(*)}",
        "key: name, aggregate: {n: count(*), m: avg(price)}, having: n > 1",
        "key: name, window: {tumble: 10s, trigger: {every: 1s}}, aggregate: {n: count(*)}",
        "key: name, window: {tumble: 10s, trigger: {count: 3}}, aggregate: {n: count(*)}",
        "key: name, window: {tumble: 10s, trigger: {count: 3}, accumulate: false}, "
        "aggregate: {n: count(*)}",
        f"key: name, window: {{tumble: 10s, {AWAITED}}}, aggregate: {{n: count(*)}}",
        f"key: name, window: {{session: 10s, {AWAITED}}}, aggregate: {{n: count(*)}}",
        "key: name, window: {tumble: 10s, evict: {last: 3}}, aggregate: {n: sum(id)}",
        "key: name, window: {session: 10s, evict: {within: 3s}}, aggregate: {n: sum(id)}",
        "key: name, window: {count: 10, evict: {last: 3}}, aggregate: {n: sum(id)}",
        "key: name, top: {n: 3, by: id}",
        "key: name, window: {tumble: 10s}, top: {n: 3, by: id}",
        "key: name, window: {session: 10s}, top: {n: 3, by: id}",
        "key: name, window: {count: 10}, top: {n: 3, by: id}",
        "dedup: {key: name}",
        "dedup: {key: name, ttl: 1h}",
        "dedup: {key: name, keep: last}",
        "dedup: {key: name, order: event_time}",
        "dedup: {key: name, order: event_time, ttl: 1h, keep: first}",
        "dedup: {key: name, order: event_time, keep: last}",
    ],
)
def test_described_states_are_the_opened_states(tmp_path: Path, step: str) -> None:
    part = plan_of(tmp_path, over_orders(step)).part("s")
    assert isinstance(part, nodes.Step)
    kept = get_step_state(part, 8)
    found = opened(part)
    declared = {state.name: state.shape for state in kept.states} if kept else {}
    assert declared == {name: shape for name, (shape, _) in found.items()}


CHANGES = """  mine: {from: orders, key: name, aggregate: {n: count(*)}}
  theirs: {from: orders, key: name, aggregate: {m: sum(id)}}
"""
OF = "left: {from: orders, as: a}, right: {from: orders, as: b}, on: a.id = b.id"


@pytest.mark.parametrize(
    "step",
    [
        f"join: {{{OF}, within: 1h, type: full}}, select: {{id: a.id, name: b.name}}",
        f"join: {{{OF}}}, window: {{tumble: 1h}}, select: {{id: a.id}}",
        f"join: {{{OF}}}, window: {{session: 1h}}, select: {{id: a.id}}",
        f"join: {{{OF}}}, window: {{session: 1h, lateness: 1m}}, select: {{id: a.id}}",
        f"join: {{{OF}, as_of: true}}, select: {{id: a.id, name: b.name}}",
        f"join: {{{OF}, as_of: true, ttl: 1h, type: left}}, select: {{id: a.id, name: b.name}}",
        "join: {left: mine, right: theirs, on: mine.name = theirs.name}, "
        "select: {name: mine.name, n: n, m: m}",
        "join: {left: mine, right: theirs, on: mine.name = theirs.name, type: anti}",
    ],
)
def test_described_states_of_a_join_are_the_opened_states(tmp_path: Path, step: str) -> None:
    ends = "sinks:\n  out: {from: s, console: {}}\n"
    before = CHANGES if "mine" in step else ""
    part = plan_of(tmp_path, f"{SOURCE}steps:\n{before}  s: {{{step}}}\n{ends}").part("s")
    join = get_two_input_operation(part)
    kept = get_step_state(part, 8)
    assert join is not None and kept is not None
    state = Noted(MemoryBackend().open_state(StateOwnership("s", 0, range(8), 8)))
    build_join(
        join, KeyedContext("s", state, lambda: 0, is_ordered=False, read_streams=frozenset())
    )
    assert {each.name: each.shape for each in kept.states} == {
        name: shape for name, (shape, _) in state.opened.items()
    }


@pytest.mark.parametrize(
    ("aggregate", "size"),
    [
        ("count(*)", "8 bytes"),
        ("max(name)", "a value"),
        ("first(id)", "32 bytes"),
        ("max_by(name, id)", "32 bytes and a value"),
        ("collect_list(id)", "32 bytes for each of its values"),
        ("collect_set(name)", "a value for each of its distinct values"),
        ("count(distinct id)", "8 bytes for each of its distinct values"),
        ("median(id)", "16 bytes for each of its distinct values"),
        ("approx_count_distinct(id)", "at most 2,048 bytes"),
        ("max_by(id, id, 3)", "at most 120 bytes"),
        ("max_by(name, id, 3)", "at most 96 bytes and 3 values"),
    ],
)
def test_the_size_of_an_aggregate_is_fixed_or_grows(
    tmp_path: Path, aggregate: str, size: str
) -> None:
    plan = plan_of(tmp_path, over_orders(f'key: price, aggregate: {{a: "{aggregate}"}}'))
    summary = get_step_state(plan.part("s"), plan.key_groups)
    assert summary is not None
    ((found,),) = (state.sizes for state in summary.states)
    assert str(found) == f"{aggregate} {size}"


def test_rows_that_are_kept_as_they_came_have_no_sizes_of_aggregates(tmp_path: Path) -> None:
    evicting = "key: name, window: {tumble: 1m, evict: {last: 3}}, aggregate: {n: count(*)}"
    plan = plan_of(tmp_path, over_orders(evicting))
    summary = get_step_state(plan.part("s"), plan.key_groups)
    assert summary is not None
    assert not any(state.sizes for state in summary.states)
