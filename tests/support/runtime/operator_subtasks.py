"""The operators of one step run directly, in parallel subtasks, and restarted at any time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import polars as pl

from headrace.connectors.memory import InMemoryData
from headrace.core.api.state import NO_CLOCK_US, SLOT, FrozenState, RunsLayout
from headrace.core.api.state_backend import StateOwnership
from headrace.core.dataflow.operator_factory import (
    OperatorContext,
    SubtaskOperators,
    SubtaskSlice,
    compile_steps,
)
from headrace.core.dataflow.output_edges import KeyPartitioner
from headrace.core.operators.operator import OperatorChain, Output
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.plan.states import get_step_state
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US
from headrace.core.types.row_order import add_row_order, number_rows
from headrace.state.memory.backend import MemoryBackend, MemoryState
from headrace.state.memory.sorted_runs import MemoryRuns
from tests.support.reference import random_pipelines

Shown: TypeAlias = "Counter[tuple[str, str]]"
"""Emitted rows, each with its stream."""


def plan_of(step: str) -> Plan:
    """The plan of a pipeline of one step, over the rows of the reference's pipelines."""
    ends = "  rest: {from: late, memory: {data: late}}\n" if "late_to: late" in step else ""
    return planned(
        f"sources:\n  rows: {{memory: {{data: in}}, schema: {random_pipelines.SCHEMA},"
        " event_time: at}\n"
        f"steps:\n  step: {{from: rows, {step}}}\n"
        f"sinks:\n  out: {{from: step, memory: {{data: out}}}}\n{ends}"
    )


def planned(text: str) -> Plan:
    """The plan of a text; its step runs in two subtasks, so that rows are partitioned by key."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "p.yaml"
        file.write_text(f"name: test\nsettings: {{parallelism: 2}}\n{text}")
        plan, problems = build_plan(
            load_pipeline(file, {"memory": InMemoryData({}).build_connector()}, env={})
        )
    assert plan is not None, problems
    return plan


@dataclass(frozen=True)
class Event:
    """The wall clock advances; then rows or a watermark arrive at one subtask or at all."""

    wall_us: int
    rows: tuple[dict[str, Any], ...] = ()
    watermark_us: int | None = None
    only: int | None = None
    side: int = 0
    """By which of the inputs rows come."""


def script(chance: random.Random, length: int, subtasks: int = 0, *, sides: int = 1) -> list[Event]:
    """Rows and watermarks, some rows late; with `subtasks`, watermarks that come apart for each."""
    reached = [random_pipelines.BEGIN] * max(subtasks, 1)
    events = []
    for _ in range(length):
        wall_us = chance.choice([0, 100_000, 1_000_000, 3_000_000])
        at = chance.randrange(len(reached))
        match chance.randrange(5):
            case 0 | 1 | 2:
                rows = tuple(_row(chance, reached[at]) for _ in range(chance.randint(1, 6)))
                side = chance.randrange(sides) if sides > 1 else 0
                events.append(Event(wall_us, rows, side=side))
            case 3:
                reached[at] += timedelta(seconds=chance.choice([0, 0.5, 2, 5]))
                only = at if subtasks else None
                events.append(Event(wall_us, (), _us(reached[at]), only))
            case _:
                events.append(Event(chance.randint(0, 8_000_000)))
    return events


def _row(chance: random.Random, reached: datetime) -> dict[str, Any]:
    return {
        "k": chance.choice([None, 1, 2, -7, 30, 31]),
        "s": chance.choice([None, "", "a", "größe"]),
        "v": chance.choice([None, *range(-5, 6)]),
        "x": chance.choice([None, 0.0, 0.5, -2.25, float("nan"), float("inf")]),
        "at": reached + timedelta(seconds=chance.randint(-30, 40) / 4),
    }


END = [Event(20_000_000), Event(0, (), MAX_WATERMARK_US)]


def list_declared_names(plan: Plan, step: str) -> frozenset[str]:
    """Return the names of the states that a plan declares for a step."""
    summary = get_step_state(plan.part(step), plan.key_groups)
    return frozenset(state.name for state in summary.states) if summary else frozenset()


class HeldToContract(MemoryBackend):
    """State in memory that looks at what operators make of the rows they put together."""

    def open_state(self, owner: StateOwnership) -> MemoryState:
        return HeldState(owner, self._blobs)


class HeldState(MemoryState):
    def open_runs(self, name: str, layout: RunsLayout) -> MemoryRuns:
        return super().open_runs(name, replace(layout, merge=lambda rows: _merged(layout, rows)))


def _merged(layout: RunsLayout, rows: pl.DataFrame) -> pl.DataFrame:
    """Merge rows, and check that they keep their latest time, whichever part is merged."""
    by = [*layout.key, SLOT]
    for part in (rows, rows.gather_every(2), rows.gather_every(2, 1)):
        found = layout.merge(part)
        assert found.join(part, on=by, how="semi", nulls_equal=True).height == found.height
        assert _latest(found, layout.key).equals(_latest(part, layout.key))
    return layout.merge(rows)


def _latest(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    last = pl.col(SLOT).max()
    return rows.group_by(key).agg(last).sort(*key, SLOT) if key else rows.select(last)


@dataclass
class Subtasks:
    """The subtasks of a plan's step, over state in memory."""

    plan: Plan
    parallelism: int
    now_us: int = 10**15
    came: int = 0
    compiled: list[SubtaskOperators] = field(default_factory=list)
    reached_us: list[int] = field(default_factory=list)
    """The watermark of each subtask since its start: each watermark arrives once."""

    def __post_init__(self) -> None:
        self._begin(())

    def said(self, event: Event) -> Shown:
        """Return the output of an event."""
        found: Shown = Counter()
        for stream, frame in self._answers(event):
            found.update((stream, row) for row in _shown(frame))
        return found

    def freeze(self) -> tuple[FrozenState, ...]:
        """Snapshot the states of all subtasks."""
        for chain in self._chains():
            chain.flush_to_state()
        parts = (each.states.get("step", []) for each in self.compiled)
        frozen = tuple(state.freeze() for states in parts for state in states)
        declared = list_declared_names(self.plan, "step")
        assert all(each.names <= declared for each in frozen), (declared, frozen)
        return frozen

    def begin_anew(self, parallelism: int) -> None:
        """Restart as after a crash, from a snapshot, with this many subtasks.

        The old subtasks run on until they are closed, and their output is dropped.
        """
        frozen = self.freeze()
        now_us, came, reached_us = self.now_us, self.came, min(self.reached_us)
        for event in script(random.Random(self.came), 2, sides=self.sides):
            self.said(event)
        for each in self.compiled:
            each.close()
        self.now_us, self.came, self.parallelism = now_us, came, parallelism
        self._begin(frozen)
        # A repeated watermark is the next one after a start: timers in the past would fire by it.
        self.reached_us = [reached_us] * parallelism

    @property
    def sides(self) -> int:
        """The number of inputs."""
        return sum(edge.consumer == "step" for edge in self.plan.edges)

    def _begin(self, restored: tuple[FrozenState, ...]) -> None:
        step = self.plan.part("step")
        assert isinstance(step, nodes.Step)
        read = frozenset(stream.name for stream in step.outputs)
        setting = OperatorContext(lambda: self.now_us, Path(), read, HeldToContract())
        groups = self.plan.key_groups
        seats = (
            SubtaskSlice(at, self.parallelism, groups, {"step": restored})
            for at in range(self.parallelism)
        )
        self.compiled = [compile_steps([step], setting, seat) for seat in seats]
        self.reached_us = [NO_CLOCK_US] * self.parallelism

    def _chains(self) -> Iterator[OperatorChain]:
        for each in self.compiled:
            assert each.chain is not None
            yield each.chain

    def _answers(self, event: Event) -> Iterator[Output]:
        yield from self._wait(self.now_us + event.wall_us)
        chains = list(self._chains())
        if event.rows:
            for at, rows in self._dealt(event.rows, event.side):
                yield from chains[at].process(rows, event.side)
        if event.watermark_us is not None:
            for at, chain in enumerate(chains):
                if event.only in (None, at) and event.watermark_us > self.reached_us[at]:
                    self.reached_us[at] = event.watermark_us
                    yield from chain.advance(event.watermark_us)

    def _wait(self, until_us: int) -> Iterator[Output]:
        """Advance the wall clock, with a tick whenever an operator asks for one."""
        for _ in range(10_000):
            due = [(due_us, chain) for chain in self._chains() if (due_us := chain.next_tick_us())]
            due_us, chain = min(due, key=lambda each: each[0], default=(until_us + 1, None))
            if chain is None or due_us > until_us:
                self.now_us = until_us
                return
            self.now_us = max(self.now_us, due_us)
            yield from chain.tick(self.now_us)
        raise AssertionError("an operator is due without end")

    def _dealt(
        self, rows: Sequence[dict[str, Any]], side: int
    ) -> Iterable[tuple[int, pl.DataFrame]]:
        """Return the rows of each subtask."""
        edges = (edge for edge in self.plan.edges if edge.consumer == "step")
        (edge,) = (edge for edge in edges if edge.side == side)
        frame = random_pipelines.frame(list(rows)).with_columns(pl.col("at").alias(EVENT_TIME))
        if self.plan.streams[edge.stream].has_row_order:
            frame = add_row_order(frame, number_rows(0, 0, self.came, frame.height))
        self.came += frame.height
        if edge.exchange == "broadcast":
            return [(at, frame) for at in range(self.parallelism)]
        partitioner = KeyPartitioner(edge.key, self.plan.key_groups, self.parallelism)
        return partitioner.compute_partitions(frame)


def _shown(frame: pl.DataFrame) -> Iterable[str]:
    """The rows as text: their columns may come in any order, and zero has no sign."""
    return (repr(sorted(row.items())).replace("-0.0", "0.0") for row in frame.rows(named=True))


def _us(time: datetime) -> int:
    return (time - datetime.fromtimestamp(0, time.tzinfo)) // timedelta(microseconds=1)
