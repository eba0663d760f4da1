"""Samples of the rows of a stream, in the subtasks of one process.

Where a stream leaves a task, or passes from one operator to the next, its rows are sampled there.
Steps that one operator computes together have no rows between them: then the rows before that
operator are sampled, and the operations up to the step are computed again for the sample.

A subtask passes each batch to the taps of its stream; it only keeps a slice, until there are
enough rows for this second. All else is done by `flush`, a few times a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.taps import TapError, TapSample
from headrace.core.dataflow.segments import Segment, cut_segments
from headrace.core.expressions import find_columns, to_expr
from headrace.core.expressions.typed import PROCESSING_TIME
from headrace.core.operators.changelog.weighted_rows import expand_weights
from headrace.core.operators.stateless_operators import ProjectionOperator
from headrace.core.plan import nodes
from headrace.core.plan.taps import CheckedTap
from headrace.core.types.elements import DELETE, WEIGHT
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

MAX_SHOWN_ROWS = 20
"""The most rows a second that a tap shows."""

MAX_EXAMINED_ROWS = 1000
"""The most rows a second whose condition is computed."""

ColumnOperations = tuple[tuple[str, nodes.Filter | nodes.Project], ...]


@dataclass(frozen=True, slots=True)
class TapPoint:
    """The place in a task where the rows of a stream are sampled."""

    operator: int | None = None
    """The operator of the chain that reads them; None: they leave the task."""
    operations: ColumnOperations = ()
    """The operations between the sampled rows and the stream, which are computed again."""


def find_tap_point(plan: nodes.Plan, task: nodes.Task, stream: str) -> TapPoint:
    """Find the place where the rows of a stream of a task are sampled."""
    parts = [plan.part(name) for name in task.parts]
    segments = cut_segments([part for part in parts if isinstance(part, nodes.Step)])
    if segments and isinstance(parts[0], nodes.Source) and stream == parts[0].name:
        return TapPoint(0)
    # A lookup begins a task; the chain runs what follows it.
    first = 1 + max((at for at, each in enumerate(segments) if _is_lookup(each)), default=-1)
    for at, segment in enumerate(segments[first:]):
        if segment.input_stream == stream:
            return TapPoint(at)
        names = [step for step, _ in segment.columns]
        if stream in names and names[-1] != stream:
            until = len(names) - names[::-1].index(stream)
            return TapPoint(at, segment.columns[:until])
    return TapPoint()


def _is_lookup(segment: Segment) -> bool:
    return isinstance(segment.operation, nodes.Lookup)


class RowTap:
    """A tap in one process: takes slices of batches, and makes samples of them."""

    def __init__(self, tap: CheckedTap, point: TapPoint, now_us: Callable[[], int]) -> None:
        self.tap = tap
        self.point = point
        self._now_us = now_us
        self._operator = None
        if point.operations:
            self._operator = ProjectionOperator(tap.stream.name, point.operations, now_us)
        self._condition = None if tap.condition is None else to_expr(tap.condition)
        self._lock = threading.Lock()  # a long batch is processed in a thread
        self._frames: list[pl.DataFrame] = []
        self._passed = 0
        """The rows that have passed since the last flush."""
        self._room = self._budget = 0
        self.start_second()

    def start_second(self) -> None:
        """Allow as many rows as a second may have."""
        is_selective = self._condition is not None or self._operator is not None
        with self._lock:
            self._room = MAX_SHOWN_ROWS
            self._budget = MAX_EXAMINED_ROWS if is_selective else MAX_SHOWN_ROWS

    def offer(self, frame: pl.DataFrame) -> None:
        """Take a slice of a batch, if more rows are wanted."""
        with self._lock:
            self._passed += frame.height
            if self._budget > 0 and frame.height:
                self._frames.append(frame.head(self._budget))
                self._budget -= min(frame.height, self._budget)

    def flush(self) -> TapSample | None:
        """Return a sample of the rows that have passed since the last one; None: none have."""
        with self._lock:
            frames, self._frames = self._frames, []
            passed, self._passed = self._passed, 0
        if not passed:
            return None
        dropped = passed - sum(frame.height for frame in frames)
        if not frames:
            return TapSample(self.tap.request, None, dropped)
        rows = self._select_rows(frames)
        shown = rows.head(self._room)
        self._room -= shown.height
        return TapSample(self.tap.request, shown, dropped + rows.height - shown.height)

    def _select_rows(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the rows of the stream that meet the condition, with its columns."""
        import polars as pl

        rows = pl.concat(frames, how="diagonal")
        if self._operator is not None:
            ((_, rows),) = self._operator.process(rows)
        if WEIGHT in rows.columns:
            most = pl.col(WEIGHT).clip(-MAX_SHOWN_ROWS, MAX_SHOWN_ROWS)
            rows = expand_weights(rows.with_columns(most))
        schema = self.tap.stream.sink_schema
        if DELETE in schema.names and DELETE not in rows.columns:
            rows = rows.with_columns(pl.lit(False).alias(DELETE))
        if self._condition is not None:
            self._check_columns(rows)
            rows = rows.with_columns(pl.lit(self._now_us()).alias(PROCESSING_TIME))
            rows = rows.filter(self._condition)
        return rows.select(name for name in schema.names if name in rows.columns)

    def _check_columns(self, rows: pl.DataFrame) -> None:
        """Check that the rows have the columns that the condition reads. Raises TapError."""
        assert self.tap.condition is not None
        missing = sorted(find_columns(self.tap.condition) - {*rows.columns, PROCESSING_TIME})
        if missing:
            message = f"the job leaves out {', '.join(missing)}: nothing reads it later"
            there = ", ".join(name for name in self.tap.stream.schema.names if name in rows.columns)
            raise TapError("invalid_condition", f"where: {message}", f"there are {there}")
