"""Loops in a batch: round by round, until no row goes round any more.

If the rows that come of each row inside do not depend on the other rows that go round, a round
begins with the rows that came back last. Otherwise it begins with all rows that have gone round so
far, and the loop ends when they do not become more.

The rows of a round are computed and stored in the executors, so that Spark's plan does not grow
from round to round. From time to time they are also stored for a later run (`loop_checkpoints`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import field, replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.api.user_metrics import (
    ROUND_ROWS_CHANGED,
    ROUND_SECONDS,
    ROUNDS,
    ROWS_CHANGED,
    MetricValues,
    RoundFigures,
)
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.expressions import TypedExpression, type_expression
from headrace.core.expressions.typed import ColumnReference
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_two_input_operation
from headrace.core.spark.columns import quote_column, stream_columns
from headrace.core.spark.dataframe_operations import split_route
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.spark.expressions import try_analysis
from headrace.core.spark.loop_checkpoints import LoopCheckpoints, StoredRound
from headrace.core.spark.partition_operators import PartitionOperator
from headrace.core.spark.stream_frame import StreamFrame
from headrace.core.types.data_types import BIGINT, Schema
from headrace.core.types.data_types import Field as Column
from headrace.core.types.elements import ORDER
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEAVES, OVER, INSIDE, ROWS = "leaves", "over", "else", "rows"
ADAPTIVE_SETTING = "spark.sql.adaptive.enabled"
"""The setting by which Spark plans a query again after each of its stages."""
BROADCAST_ROWS = 50_000
"""The most rows that are sent to all executors rather than shuffled."""
UNITED_ROUNDS = 20
"""The rounds after which the rows that have left are stored as one table."""
ROW_OPERATIONS = (nodes.Explode, nodes.Filter, nodes.Project, nodes.Map, nodes.Lookup, nodes.Route)
"""The operations of which the result for a row depends on that row alone."""


@dataclass(slots=True)
class LoopRounds(ABC):
    """The rounds of one loop; `build_step` adds the outputs of a step inside to `streams`."""

    head: nodes.Step
    loop: nodes.Loop
    body: Mapping[str, nodes.Step]
    context: ExecutorContext
    streams: MutableMapping[str, StreamFrame]
    build_step: Callable[[nodes.Step], None]
    metrics: MetricValues = field(default_factory=MetricValues)
    """The number of rounds, and the figures of the last one."""
    _round_began_s: float = 0.0

    @abstractmethod
    def run(self, entered: DataFrame, checkpoints: LoopCheckpoints) -> None:
        """Run the rounds, and add the outputs of the head."""

    @abstractmethod
    def explain(self, entered: DataFrame) -> None:
        """Add the outputs of the head after one round, without running it."""

    def _restore_metrics(self, stored: StoredRound | None) -> None:
        """Continue the metrics from a stored round. If it has no total, there is none."""
        counters = self.metrics.counters
        counters[ROUNDS] = stored.number if stored else 0
        changed = stored.rows_changed if stored else 0
        if self.loop.table is not None and changed is not None:
            counters[ROWS_CHANGED] = changed

    def _make_stored_round(self, number: int, tables: Mapping[str, DataFrame]) -> StoredRound:
        return StoredRound(number, tables, self.metrics.counters.get(ROWS_CHANGED))

    def _begin_round(self, spark: SparkSession, number: int) -> None:
        """Name Spark's jobs after the round from now on."""
        self._round_began_s = time.monotonic()
        spark.sparkContext.setJobDescription(f"loop {self.head.name}, round {number}")

    def _end_round(self, number: int, changes: int | None = None) -> None:
        """Update the metrics after a round.

        `changes` is the number of rows that it has added or removed, if the loop is over a table.
        """
        seconds = round(time.monotonic() - self._round_began_s, 3)
        self.metrics.counters[ROUNDS] = number
        if changes is not None:
            if ROWS_CHANGED in self.metrics.counters:
                self.metrics.counters[ROWS_CHANGED] += changes
            self.metrics.gauges[ROUND_ROWS_CHANGED] = changes
            self.metrics.record_round(RoundFigures(number, changes, seconds))
        self.metrics.gauges[ROUND_SECONDS] = seconds

    def _build_body(self) -> None:
        for step in self.body.values():
            self.build_step(step)

    def _compute(self, rows: DataFrame) -> DataFrame:
        """Compute rows and forget where they came from; free what the steps inside have cached."""
        rows = store_rows(rows)
        outside = {id(self.streams[name].frame) for name in self._list_outside()}
        for step in self.body.values():
            for stream in step.outputs:
                there = self.streams.get(stream.name)
                if there and there.frame.is_cached and id(there.frame) not in outside:
                    there.frame.unpersist()
        return rows

    def _list_outside(self) -> set[str]:
        """Return the streams that the steps inside read from outside."""
        inside = {stream.name for step in self.body.values() for stream in step.outputs}
        inside.update(self.loop.list_inner_streams(self.head.name))
        return {name for step in self.body.values() for name in step.inputs} - inside

    def _store_outside(self) -> None:
        """Compute what the steps inside read from outside, so that no round does it again.

        The plans of rounds do not have its plan, which Spark would analyse for each operation.
        """
        for name in self._list_outside():
            rows = self.streams[name]
            stored = store_by_key(rows.frame, self._find_join_key(name))
            if is_planned_once(stored.sparkSession) and stored.count() > BROADCAST_ROWS:
                # Spark takes the size of compressed files for that of the rows.
                stored = stored.hint("merge")
            self.streams[name] = replace(rows, frame=stored, is_costly=False)

    def _find_join_key(self, stream: str) -> Sequence[str]:
        """Return the columns by which a step inside joins a stream; none: there is no such step."""
        for step in self.body.values():
            join = get_two_input_operation(step)
            if join is None or stream not in step.inputs:
                continue
            key = join.keys[step.inputs.index(stream)]
            values = [each.value for each in key if not each.text]
            names = [each.name for each in values if isinstance(each, ColumnReference)]
            if len(names) == len(key):
                return names
        return ()

    def _store(self, name: str, frame: DataFrame) -> None:
        out = next(each for each in self.head.outputs if each.name == name)
        if self.loop.table is not None and out.has_row_order:
            # The rows of a table have no order: they all have the same place.
            place = "named_struct('time', 0L, 'at', 0L, 'part', 0L)"
            frame = frame.selectExpr("*", f"{place} as {ORDER}")
        self.streams[name] = StreamFrame(frame, stream_columns(out), out.kind)


@dataclass(slots=True)
class RowRounds(LoopRounds):
    """The rounds of a loop over rows."""

    _parts: dict[str, list[DataFrame]] = field(default_factory=dict)
    """The rows of all rounds so far, by where they go."""

    def run(self, entered: DataFrame, checkpoints: LoopCheckpoints) -> None:
        """Run the rounds, and add the outputs of the head."""
        spark, name = entered.sparkSession, self.head.name
        by_row = is_by_row(name, self.body)
        stored, number, count = checkpoints.restore(name), 0, 0
        entered = self._add_rounds(entered, first=True)
        if stored is None or not by_row:
            entered = entered.localCheckpoint()
        self._store_outside()
        rows = entered
        if stored is not None:
            number, rows, count = stored.number, stored.tables[ROWS], -1
            self._parts = {part: [each] for part, each in stored.tables.items() if part != ROWS}
        self._restore_metrics(stored)
        while True:
            self._begin_round(spark, number + 1)
            inside = self._add_parts(rows, by_row=by_row)
            before, count = count, inside.count()
            if count == (0 if by_row else before):
                break
            number += 1
            self._store(nodes.name_loop_stream(name), inside)
            self._build_body()
            rows = self._add_rounds(self.streams[self.loop.feedback].frame, first=False)
            rows = self._compute(rows if by_row else entered.unionByName(rows))
            self._end_round(number)
            if checkpoints.is_due:
                parts = {part: _unite(frames) for part, frames in self._parts.items() if frames}
                checkpoints.store(name, self._make_stored_round(number, {ROWS: rows, **parts}))
        self._finish(check_over=True)

    def explain(self, entered: DataFrame) -> None:
        """Add the outputs of the head after one round, without running it."""
        self._add_parts(self._add_rounds(entered, first=True), by_row=True)
        self._finish(check_over=False)

    def _add_parts(self, rows: DataFrame, *, by_row: bool) -> DataFrame:
        """Add the rows of a round to their parts; return those that go round."""
        frames = self._divide(rows)
        for name, frame in frames.items():
            former = self._parts.get(name, []) if by_row else []
            if len(former) >= UNITED_ROUNDS:
                partitions = count_partitions(rows.sparkSession)
                former = [_unite(former).coalesce(partitions).localCheckpoint()]
            self._parts[name] = [*former, frame]
        return frames[INSIDE]

    def _finish(self, *, check_over: bool) -> None:
        """Add the outputs of the head."""
        over = nodes.name_over_stream(self.head.name)
        if check_over and self._parts.get(OVER) and over not in self.context.read_streams:
            with attribute_errors_to(self.head.name):
                self._check_over(self._parts[OVER])
        names = {LEAVES: self.head.name, OVER: over, INSIDE: nodes.name_loop_stream(self.head.name)}
        for part, frames in self._parts.items():
            if frames:
                self._store(names[part], _unite(frames))

    def _check_over(self, frames: Iterable[DataFrame]) -> None:
        for frame in frames:
            if found := frame.take(1):
                shown = {name: found[0][name] for name in self.head.outputs[0].schema.names}
                message = (
                    f"a row has come back {self.loop.max_rounds} times and does not leave: {shown}"
                )
                over = nodes.name_over_stream(self.head.name)
                hint = f"a step or sink with from: {over} takes such rows"
                raise ConnectorError(message, hint, final=True)

    def _add_rounds(self, rows: DataFrame, *, first: bool) -> DataFrame:
        """Return rows that enter, or come back, with their number of rounds."""
        from pyspark.sql.functions import coalesce, col, lit

        name = nodes.ROUNDS_COLUMN
        if self.loop.has_rounds:
            count = lit(0) if first else coalesce(col(name), lit(0)) + 1
            rows = rows.withColumn(name, count.cast("bigint"))
        columns = [c for c in stream_columns(self.head.outputs[0]) if c in rows.columns]
        return rows.select(*map(quote_column, columns))

    def _divide(self, rows: DataFrame) -> dict[str, DataFrame]:
        """Return the rows that leave, that have gone round too often, and all others."""
        loop, branches = self.loop, list[tuple[str, TypedExpression, str]]()
        if loop.until is not None:
            branches.append((LEAVES, loop.until, loop.text))
        if loop.max_rounds is not None:
            text = f"{nodes.ROUNDS_COLUMN} >= {loop.max_rounds}"
            schema = Schema((Column(nodes.ROUNDS_COLUMN, BIGINT),))
            branches.append((OVER, type_expression(text, schema), text))
        route = nodes.Route(tuple(branches))
        names = route.list_streams(self.head.name)
        frames = try_analysis(lambda: split_route(rows, route, self.head.name))
        if frames is None:
            columns = stream_columns(self.head.outputs[0])
            context = replace(self.context, read_streams=frozenset(names))
            alone = replace(self.head, operations=(route,))
            outputs = tuple((name, columns) for name in names)
            frames = PartitionOperator(alone, outputs, None, False, context).apply(rows)
        return {name.removeprefix(f"{self.head.name}."): frames[name] for name in names}


@contextmanager
def keep_partitions(spark: SparkSession) -> Iterator[None]:
    """Let tables stay partitioned by key from round to round, so that Spark shuffles them once.

    A stored table is known to be partitioned only if Spark plans its query as a whole. Planning
    again after each stage merges small partitions; none are too small if a shuffle makes no more
    of them than tasks run at a time.
    """
    setting = spark.conf.get(ADAPTIVE_SETTING) or "true"
    if count_partitions(spark) <= spark.sparkContext.defaultParallelism:
        spark.conf.set(ADAPTIVE_SETTING, "false")
    try:
        yield
    finally:
        spark.conf.set(ADAPTIVE_SETTING, setting)


def is_planned_once(spark: SparkSession) -> bool:
    """Whether Spark plans queries as a whole, and so knows how stored tables are partitioned."""
    return spark.conf.get(ADAPTIVE_SETTING) == "false"


def store_by_key(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Compute rows, and partition and sort them by a key if later queries know of that."""
    spark = rows.sparkSession
    if key and is_planned_once(spark):
        columns = [*map(quote_column, key)]
        rows = rows.repartition(count_partitions(spark), *columns).sortWithinPartitions(*columns)
    return store_rows(rows)


def store_rows(rows: DataFrame) -> DataFrame:
    """Compute rows, and forget where they came from.

    They have other names meanwhile: Spark drops an alias that gives a column the name it has, and
    then no longer knows that the rows are partitioned by this column.
    """
    others = (f"__{name}" for name in rows.columns)
    return rows.toDF(*others).localCheckpoint().toDF(*rows.columns)


def count_partitions(spark: SparkSession) -> int:
    """Return the number of partitions that a shuffle makes."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def _unite(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), frames)


def is_by_row(head: str, body: Mapping[str, nodes.Step]) -> bool:
    """Whether what comes of a row inside does not depend on the other rows that go round."""
    inside = {stream.name for step in body.values() for stream in step.outputs}
    inside.add(nodes.name_loop_stream(head))
    return all(_is_step_by_row(step, inside) for step in body.values())


def _is_step_by_row(step: nodes.Step, inside: Collection[str]) -> bool:
    join = get_two_input_operation(step)
    if join is not None:
        is_other_outside = step.inputs[1] not in inside
        if join.type not in ("inner", "left", "semi", "anti") or not is_other_outside:
            return False
    others = step.operations[1:] if join is not None else step.operations
    return all(isinstance(each, ROW_OPERATIONS) for each in others)
