"""Translation of a plan into DataFrames: one for each stream, from the sources to the sinks.

An operation that Spark can run becomes a DataFrame operation; every other one runs as headrace's
operator inside the executors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.plan.changelog import infer_join_kind as kind_of_join
from headrace.core.plan.changelog import infer_kind as kind_after
from headrace.core.plan.layout import get_two_input_operation
from headrace.core.plan.nodes.matching import ConnectedMatch
from headrace.core.spark.columns import (
    Columns,
    columns_after_operation,
    format_ddl,
    join_columns,
    quote_column,
    stream_columns,
)
from headrace.core.spark.dataframe_operations import apply_keyed, apply_stateless, split_route
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.spark.expressions import try_analysis
from headrace.core.spark.joins import PartitionJoin, join_in_spark, partition_sides
from headrace.core.spark.partition_operators import (
    PartitionBroadcast,
    PartitionLookup,
    PartitionOperator,
    collect_rules,
    ensure_partition,
    partition_by_key,
)
from headrace.core.spark.sources import SourceInput, is_spark_scan, read_source
from headrace.core.types.elements import EVENT_TIME, ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """Rows between two operations: their columns, and whether they are a changelog."""

    frame: DataFrame
    columns: Columns
    kind: nodes.StreamKind
    is_costly: bool = True
    """Whether computing the rows a second time costs more than reading cached ones."""


@dataclass(slots=True)
class DataFrameBuilder:
    """One pass over a plan; `streams` holds all streams built so far."""

    spark: SparkSession
    plan: nodes.Plan
    context: ExecutorContext
    inputs: Mapping[str, SourceInput]
    """The input of each source, by name."""
    streams: dict[str, StreamFrame] = field(default_factory=dict)
    _reader_counts: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self._reader_counts = Counter(edge.stream for edge in self.plan.edges)

    def build(self) -> dict[str, DataFrame]:
        """Return the rows of each sink, by name."""
        for part in self.plan:
            if isinstance(part, nodes.Source):
                self._build_source(part)
            elif isinstance(part, nodes.Step):
                self._build_step(part)
        sinks = (part for part in self.plan if isinstance(part, nodes.Sink))
        return {sink.name: self.streams[sink.input].frame for sink in sinks}

    def _build_source(self, source: nodes.Source) -> None:
        frames = read_source(self.spark, source, self.inputs[source.name], self.context)
        costly = not all(map(is_spark_scan, self.inputs[source.name].splits))
        for stream in source.outputs:
            if stream.name in frames:
                self._add_stream(stream, frames[stream.name], stream_columns(stream), costly=costly)

    def _add_stream(
        self, stream: nodes.Stream, frame: DataFrame, columns: Columns, *, costly: bool = True
    ) -> None:
        there = {name: type for name, type in columns.items() if name in frame.columns}
        self._store_stream(stream.name, StreamFrame(frame, there, stream.kind, costly))

    def _store_stream(self, name: str, rows: StreamFrame) -> None:
        """Store the rows of a stream; several readers share one computation."""
        self.streams[name] = _cache_rows(rows) if self._reader_counts[name] > 1 else rows

    def _build_step(self, step: nodes.Step) -> None:
        inputs = [self.streams[name] for name in step.inputs]
        join, operations = get_two_input_operation(step), step.operations
        if join is not None:
            rows, operations = self._build_join(step, join, *inputs), operations[1:]
        else:
            rows = self._union_inputs(inputs)
        for operation in operations:
            if isinstance(operation, nodes.Route):
                self._build_route(step, operation, rows)
                return
            rows = self._apply_operation(step, operation, rows)
        for stream in step.outputs:
            if stream.name == step.name:
                self._store_stream(stream.name, rows)
            elif stream.name not in self.streams:
                self._add_stream(
                    stream, self._make_empty_frame(stream_columns(stream)), stream_columns(stream)
                )

    def _union_inputs(self, inputs: Sequence[StreamFrame]) -> StreamFrame:
        first = inputs[0]
        if len(inputs) == 1:
            return first
        columns = {n: t for n, t in first.columns.items() if all(n in r.columns for r in inputs)}
        names = [quote_column(name) for name in columns]
        frames = (rows.frame.select(*names) for rows in inputs)
        united = reduce(lambda one, other: one.union(other), frames)
        return StreamFrame(united, columns, first.kind, any(rows.is_costly for rows in inputs))

    def _build_join(
        self, step: nodes.Step, join: nodes.Join, left: StreamFrame, right: StreamFrame
    ) -> StreamFrame:
        timed = EVENT_TIME in left.columns and EVENT_TIME in right.columns
        columns = join_columns(
            join, timed, any(stream.has_row_order for stream in step.main_outputs)
        )
        kind = kind_of_join(join, left.kind, right.kind)
        frame = join_in_spark(join, left.frame, right.frame, columns)
        if frame is None:
            changes = kind if isinstance(kind, nodes.Upsert) else None
            alone = replace(step, operations=(join,))
            side_outputs = [
                s for s in _side_outputs(step, join) if s.name in self.context.read_streams
            ]
            outputs = ((step.name, columns), *((s.name, stream_columns(s)) for s in side_outputs))
            if isinstance(join.matching, ConnectedMatch) and join.matching.is_broadcast:
                rules = collect_rules(right.frame)
                of_rules = PartitionBroadcast(alone, outputs, changes, timed, self.context, rules)
                frames = of_rules.apply(
                    ensure_partition(_partition_and_sort(left, join.left.key, self.context))
                )
            else:
                work = PartitionJoin(alone, outputs, changes, timed, self.context)
                sides = (left.frame, left.columns), (right.frame, right.columns)
                frames = work.apply(partition_sides(join, sides, self.context))
            for stream in side_outputs:
                self._add_stream(stream, frames[stream.name], stream_columns(stream))
            frame = frames[step.name]
        return StreamFrame(frame, columns, kind)

    def _make_empty_frame(self, columns: Columns) -> DataFrame:
        return self.spark.createDataFrame([], format_ddl(columns))

    def _apply_operation(
        self, step: nodes.Step, operation: nodes.Operation, rows: StreamFrame
    ) -> StreamFrame:
        """Return the rows after an operation of a step."""
        ordered = any(stream.has_row_order for stream in step.main_outputs)
        kind, columns = (
            kind_after(operation, rows.kind),
            columns_after_operation(operation, rows.columns, ordered),
        )
        frame = _apply_in_spark(operation, rows, columns)
        costly = rows.is_costly or frame is None or isinstance(operation, nodes.KeyedOperation)
        if isinstance(operation, nodes.Lookup):
            frame = self._apply_lookup(step, operation, rows, columns)
        elif frame is None:
            frame = self._apply_operator(step, operation, rows, kind, columns)
        return StreamFrame(frame, columns, kind, costly)

    def _apply_lookup(
        self, step: nodes.Step, lookup: nodes.Lookup, rows: StreamFrame, columns: Columns
    ) -> DataFrame:
        """Return the rows of a lookup; missed and failed rows go to their own streams."""
        asides = [s for s in step.outputs if s.name in (step.on_error, lookup.miss_stream)]
        wanted = [stream for stream in asides if stream.name in self.context.read_streams]
        of = {
            s.name: rows.columns if s.name == lookup.miss_stream else stream_columns(s)
            for s in wanted
        }
        alone = replace(step, operations=(lookup,))
        outputs = ((step.name, columns), *of.items())
        frames = PartitionLookup(alone, lookup, outputs, self.context).apply(rows.frame)
        for stream in wanted:
            self._add_stream(stream, frames[stream.name], of[stream.name])
        return frames[step.name]

    def _apply_operator(
        self,
        step: nodes.Step,
        operation: nodes.Operation,
        rows: StreamFrame,
        kind: nodes.StreamKind,
        columns: Columns,
    ) -> DataFrame:
        """Return the rows that headrace's operator makes in the executors."""
        alone = replace(step, operations=(operation,))
        outputs = [(step.name, columns)]
        side_outputs = [
            s for s in _side_outputs(step, operation) if s.name in self.context.read_streams
        ]
        outputs += [(stream.name, stream_columns(stream)) for stream in side_outputs]
        frame, changes, in_time = rows.frame, None, False
        if isinstance(operation, nodes.KeyedOperation):
            changes = kind if isinstance(kind, nodes.Upsert) else None
            in_time = EVENT_TIME in rows.columns
            frame = _partition_and_sort(rows, operation.key, self.context)
        frames = PartitionOperator(alone, tuple(outputs), changes, in_time, self.context).apply(
            frame
        )
        for stream in side_outputs:
            self._add_stream(stream, frames[stream.name], stream_columns(stream))
        return frames[step.name]

    def _build_route(self, step: nodes.Step, route: nodes.Route, rows: StreamFrame) -> None:
        wanted = [stream for stream in step.outputs if stream.name in self.context.read_streams]
        frames = try_analysis(lambda: split_route(rows.frame, route, step.outputs))
        if frames is None:
            outputs = tuple((stream.name, rows.columns) for stream in wanted)
            alone = replace(step, operations=(route,))
            frames = PartitionOperator(alone, outputs, None, False, self.context).apply(rows.frame)
        elif rows.is_costly and len(wanted) > 1:
            rows = _cache_rows(rows)
            frames = split_route(rows.frame, route, step.outputs) or frames
        for stream in wanted:
            self._add_stream(stream, frames[stream.name], rows.columns, costly=rows.is_costly)


def _side_outputs(step: nodes.Step, operation: nodes.Operation) -> list[nodes.Stream]:
    """List the side outputs of an operation, except those that a batch never has."""
    body = nodes.find_process_body(operation)
    names = [step.on_error] if body or isinstance(operation, nodes.Map) else []
    if body is not None:
        names += [f"{step.name}.{name}" for name, _ in body.outputs]
    return [stream for stream in step.outputs if stream.name in names]


def _cache_rows(rows: StreamFrame) -> StreamFrame:
    """Cache the rows in the executors: in memory as far as possible, else on disk."""
    if not rows.is_costly:
        return rows
    return replace(rows, frame=rows.frame.persist(), is_costly=False)


def _apply_in_spark(
    operation: nodes.Operation, rows: StreamFrame, wanted: Columns
) -> DataFrame | None:
    """Return the rows that Spark computes by itself; None if they would differ from headrace's."""
    if isinstance(operation, nodes.KeyedOperation):
        return try_analysis(lambda: apply_keyed(rows.frame, operation, wanted))
    return try_analysis(lambda: apply_stateless(rows.frame, operation, rows.columns, wanted))


def _partition_and_sort(
    rows: StreamFrame, key: tuple[nodes.ComputedColumn, ...], context: ExecutorContext
) -> DataFrame:
    """Put the rows of a key into one partition, sorted as a stream would deliver them."""
    frame = partition_by_key(rows.frame, rows.columns, key, context)
    order = [name for name in (EVENT_TIME, ORDER) if name in rows.columns]
    return frame.sortWithinPartitions(*map(quote_column, order)) if order else frame
