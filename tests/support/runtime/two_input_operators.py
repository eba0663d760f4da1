"""Operators of two inputs run directly: partitioned by key, and restarted at any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from headrace.core.api.state import FrozenState, StepState
from headrace.core.api.state_backend import StateBackend, StateOwnership
from headrace.core.expressions import type_expression
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.joins.factory import build_join
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, TwoInputOperator
from headrace.core.plan.nodes import ComputedColumn, Filter, Join, JoinSide, JoinType
from headrace.core.plan.nodes.matching import JoinMatching
from headrace.core.types.data_types import Field, Schema, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, MAX_WATERMARK_US, WEIGHT
from headrace.core.types.key_groups import compute_owned_groups, partition_by_owner
from headrace.core.types.row_order import add_row_order
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import Clock, computed

GROUPS = 16
Row = tuple[object, ...]


def join(
    left: tuple[Schema, Sequence[str]],
    right: tuple[Schema, Sequence[str]],
    matching: JoinMatching,
    type: JoinType = "inner",
    only: str | None = None,
) -> Join:
    """A join of inputs, each with the columns by which it meets the other.

    After the join the columns keep their names, with the prefixes `l_` and `r_`.
    """
    sides = []
    whole: list[Field] = []
    for (schema, key), letter in ((left, "l"), (right, "r")):
        kept = computed(schema, **{f"{letter}_{name}": name for name in schema.names})
        sides.append(JoinSide(letter, computed(schema, *key), kept))
        whole += (Field(each.name, each.value.type) for each in kept)
    condition = Filter(type_expression(only, Schema(tuple(whole))), only) if only else None
    return Join(sides[0], sides[1], type, matching, condition, "", ("late_l", "late_r"))


@dataclass
class Inputs:
    """Subtasks of a join; their output and their late rows are returned."""

    operation: Join
    schemas: tuple[Schema, Schema]
    timed: bool = True
    ordered: bool = True
    clock: Clock = field(default_factory=Clock)
    parallelism: int = 1
    backend: StateBackend = field(default_factory=MemoryBackend)
    came: int = 0
    weight: int | None = None
    """The weight of rows; None: they have none."""

    def __post_init__(self) -> None:
        self._begin(())

    def rows(
        self,
        side: int,
        rows: Sequence[Row],
        times: Sequence[int] | None = None,
        deletes: Sequence[bool] | None = None,
    ) -> list[Output]:
        """Rows of one side, with times in microseconds."""
        frame = self.frame(side, rows, times, deletes)
        key: tuple[ComputedColumn, ...] = self.operation.keys[side]
        keys = frame.select(to_expr(each.value).alias(each.name) for each in key)
        outs: list[Output] = []
        for at, part in partition_by_owner(frame, keys, GROUPS, self.parallelism):
            operator = self.operators[at]
            takes = operator.process_right if side else operator.process
            outs += _full(takes(part))
        return outs

    def frame(
        self,
        side: int,
        rows: Sequence[Row],
        times: Sequence[int] | None = None,
        deletes: Sequence[bool] | None = None,
    ) -> pl.DataFrame:
        """The rows as they come."""
        types = {each.name: to_polars(each.type) for each in self.schemas[side]}
        frame = pl.DataFrame(list(rows), schema=types, orient="row")
        if times is not None:
            stamps = pl.Series(EVENT_TIME, list(times), dtype=pl.Int64)
            frame = frame.with_columns(stamps.cast(pl.Datetime("us", "UTC")))
        if deletes is not None:
            frame = frame.with_columns(pl.Series(DELETE, list(deletes), dtype=pl.Boolean))
        if self.weight is not None:
            frame = frame.with_columns(pl.lit(self.weight, dtype=pl.Int64).alias(WEIGHT))
        frame = add_row_order(frame, pl.int_range(self.came, self.came + frame.height, eager=True))
        self.came += len(rows)
        return frame

    def time(self, watermark_us: int = MAX_WATERMARK_US) -> list[Output]:
        """Advance the watermark."""
        return [out for each in self.operators for out in _full(each.advance(watermark_us))]

    def tick(self, now_us: int) -> list[Output]:
        """Advance the wall clock."""
        self.clock.now_us = now_us
        return [out for each in self.operators for out in _full(each.tick(now_us))]

    def begin_anew(self, parallelism: int) -> None:
        """Restart as after a crash."""
        for operator in self.operators:
            operator.flush_to_state()
        frozen = tuple(state.freeze() for state in self.states)
        for side in (0, 1):  # These rows come before the crash and are forgotten.
            lost = [(None,) * len(self.schemas[side])]
            self.rows(side, lost, [MAX_WATERMARK_US // 2] if self.timed else None)
        self.parallelism = parallelism
        self._begin(frozen)

    @property
    def late(self) -> int:
        """The number of late rows."""
        return sum(state.counters.late for state in self.states)

    def _begin(self, frozen: tuple[FrozenState, ...]) -> None:
        self.states: list[StepState] = []
        self.operators: list[TwoInputOperator] = []
        for at in range(self.parallelism):
            groups = compute_owned_groups(at, self.parallelism, GROUPS)
            state = self.backend.open_state(StateOwnership("step", at, groups, GROUPS, frozen))
            read = frozenset({"late_l", "late_r"})
            self.states.append(state)
            place = KeyedContext("out", state, self.clock, self.ordered, read)
            self.operators.append(build_join(self.operation, place))


def shown(outputs: Sequence[Output], stream: str = "out") -> list[Row]:
    """The rows of a stream, without hidden columns, sorted."""
    hidden = (EVENT_TIME, DELETE, "__order")
    frames = [frame.drop(hidden, strict=False) for name, frame in outputs if name == stream]
    return sorted((row for frame in frames for row in frame.rows()), key=repr)


def _full(outputs: Iterator[Output]) -> list[Output]:
    return [(name, frame) for name, frame in outputs if frame.height]


def plain(outputs: Sequence[Output]) -> list[Row]:
    """Return the output, sorted, with bounds in microseconds."""
    frames = [
        (name, frame.with_columns(pl.col("^window_.*$").cast(pl.Int64))) for name, frame in outputs
    ]
    return shown(frames)


def kept(inputs: Inputs) -> int:
    """Return the number of stored rows."""
    return sum(each.pending_rows for each in inputs.operators)
