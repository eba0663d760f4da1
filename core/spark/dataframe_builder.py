"""Translation of a plan into DataFrames: one for each stream, from the sources to the sinks.

An operation that Spark can run becomes a DataFrame operation; every other one runs as headrace's
operator inside the executors.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.plan.changelog import infer_kind as kind_after
from headrace.core.plan.join_kinds import infer_join_kind as kind_of_join
from headrace.core.plan.layout import get_loop, get_two_input_operation, is_broadcast
from headrace.core.plan.loop_bodies import find_loop_bodies, sort_for_rounds
from headrace.core.plan.nodes.matching import AsOfMatch, IntervalMatch, TableMatch
from headrace.core.plan.row_expressions import is_fallible_operation
from headrace.core.spark.columns import (
    Columns,
    columns_after_operation,
    format_ddl,
    get_changes_columns,
    join_columns,
    quote_column,
    stream_columns,
    to_spark_type,
)
from headrace.core.spark.dataframe_operations import apply_keyed, apply_stateless, split_route
from headrace.core.spark.distinct_keys import check_distinct_keys, may_repeat_keys
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
from headrace.core.spark.stream_frame import StreamFrame
from headrace.core.types.change_columns import BEFORE, CHANGE, CHANGE_NUMBER, INSERT, SEQUENCE
from headrace.core.types.elements import DELETE, EVENT_TIME, ORDER
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.core.api.user_metrics import MetricValues
    from headrace.core.spark.loop_checkpoints import LoopCheckpoints


@dataclass(slots=True)
class DataFrameBuilder:
    """One pass over a plan; `streams` holds all streams built so far."""

    spark: SparkSession
    plan: nodes.Plan
    context: ExecutorContext
    inputs: Mapping[str, SourceInput]
    """The input of each source, by name."""
    checkpoints: LoopCheckpoints | None = None
    """The stored rounds of loops; None: nothing may run, and of a loop there is only one round."""
    metrics: dict[str, MetricValues] = field(default_factory=dict)
    """The metrics of loops, by step."""
    streams: dict[str, StreamFrame] = field(default_factory=dict)
    _reader_counts: Counter[str] = field(init=False)
    _repeating_streams: set[str] = field(default_factory=set)
    """The streams that follow a full join, two of whose rows may have the same key."""

    def __post_init__(self) -> None:
        self._reader_counts = Counter(edge.stream for edge in self.plan.edges)

    def build(self) -> dict[str, DataFrame]:
        """Return the rows of each sink, by name."""
        for part in sort_for_rounds(self.plan):
            if isinstance(part, nodes.Source):
                self._build_source(part)
            elif isinstance(part, nodes.Step) and (loop := get_loop(part)) is not None:
                self._build_loop(part, loop)
            elif isinstance(part, nodes.Step):
                self._build_step(part)
        sinks = (part for part in self.plan if isinstance(part, nodes.Sink))
        return {sink.name: self.streams[sink.input].frame for sink in sinks}

    def _build_loop(self, head: nodes.Step, loop: nodes.Loop) -> None:
        """Run a loop to its end: it is known only then how many rounds there are."""
        # Loaded only for pipelines with loops.
        from headrace.core.spark.loops import LoopRounds, RowRounds, keep_partitions
        from headrace.core.spark.table_rounds import BulkRounds, DeltaRounds

        kind: type[LoopRounds] = RowRounds
        if loop.table is not None:
            kind = BulkRounds if loop.table.delta is None else DeltaRounds
        body = find_loop_bodies(self.plan)[head.name]
        rounds = kind(head, loop, body, self.context, self.streams, self._build_step)
        entered = _unite_rows([self.streams[name] for name in head.inputs]).frame
        if self.checkpoints is None:
            rounds.explain(entered)
        else:
            self.metrics[head.name] = rounds.metrics
            with keep_partitions(self.spark):
                rounds.run(entered, self.checkpoints)

    def _build_source(self, source: nodes.Source) -> None:
        frames = read_source(self.spark, source, self.inputs[source.name], self.context)
        costly = not all(map(is_spark_scan, self.inputs[source.name].splits))
        for stream in source.outputs:
            if stream.name in frames:
                columns = get_changes_columns(source, stream)
                self._add_stream(stream, frames[stream.name], columns, costly=costly)

    def _add_stream(
        self, stream: nodes.Stream, frame: DataFrame, columns: Columns, *, costly: bool = True
    ) -> None:
        there = {name: type for name, type in columns.items() if name in frame.columns}
        self._store_stream(stream.name, StreamFrame(frame, there, stream.kind, costly))

    def _store_stream(self, name: str, rows: StreamFrame) -> None:
        """Store the rows of a stream; several readers share one computation."""
        self.streams[name] = _cache_rows(rows) if self._reader_counts[name] > 1 else rows

    def _build_step(self, step: nodes.Step) -> None:
        emitted: dict[str, list[StreamFrame]] = defaultdict(list)
        for name, rows in self._apply_operations(step):
            emitted[name].append(rows)
        for stream in step.outputs:
            if stream.name in self.context.read_streams:
                assert stream.name in emitted or stream.name in step.side_outputs, stream.name
                rows = _unite_rows(emitted[stream.name] or [self._make_empty_stream(stream)])
                self._store_stream(stream.name, rows)

    def _apply_operations(self, step: nodes.Step) -> Iterator[tuple[str, StreamFrame]]:
        """Yield what the operations of a step emit: rows, each with the name of their stream.

        Several operations may emit rows of one stream, such as that of dead letters.
        """
        inputs = [self.streams[name] for name in step.inputs]
        join, operations = get_two_input_operation(step), step.operations
        if (join and may_repeat_keys(join)) or not self._repeating_streams.isdisjoint(step.inputs):
            self._repeating_streams |= {stream.name for stream in step.outputs}
        if join is None:
            emitted = {step.name: _unite_rows(inputs)}
        else:
            emitted, operations = self._build_join(step, join, *inputs), operations[1:]
        for operation in operations:
            rows = emitted.pop(step.name)
            yield from emitted.items()
            emitted = self._apply_operation(step, operation, rows)
        yield from emitted.items()

    def _build_join(
        self, step: nodes.Step, join: nodes.Join, left: StreamFrame, right: StreamFrame
    ) -> dict[str, StreamFrame]:
        """Return what a join emits: its rows and its side outputs, by stream."""
        timed = EVENT_TIME in left.columns and EVENT_TIME in right.columns
        columns = join_columns(join, timed, _orders_rows(step, join))
        if isinstance(join.matching, AsOfMatch) and DELETE in right.columns:
            # The row before an update has no event time, and is no version.
            right = replace(right, frame=right.frame.where(f"{EVENT_TIME} is not null"))
        kind = kind_of_join(join, left.kind, right.kind)
        match join.matching:
            case TableMatch(ttl_us):
                # The inputs are final tables, from which nothing is removed.
                bounds = () if ttl_us is None else (-ttl_us, ttl_us)
                join = replace(join, matching=IntervalMatch(*bounds))
        frame = join_in_spark(join, left.frame, right.frame, columns)
        if frame is not None:
            if may_repeat_keys(join) and isinstance(kind, nodes.Upsert):
                frame = check_distinct_keys(frame, kind.key, step.name)
            return {step.name: StreamFrame(frame, columns, kind)}
        changes = kind if isinstance(kind, nodes.Upsert) else None
        emitted = {step.name: (columns, kind), **self._describe_side_outputs(step, join)}
        outputs = tuple((name, of) for name, (of, _) in emitted.items())
        alone = replace(step, operations=(join,))
        if is_broadcast(join.matching):
            rules = collect_rules(right.frame)
            of_rules = PartitionBroadcast(alone, outputs, changes, timed, self.context, rules)
            frames = of_rules.apply(
                ensure_partition(_partition_and_sort(left, join.left.key, self.context))
            )
        else:
            work = PartitionJoin(alone, outputs, changes, timed, self.context)
            sides = (left.frame, left.columns), (right.frame, right.columns)
            frames = work.apply(partition_sides(join, sides, self.context))
        return {name: StreamFrame(frames[name], *of) for name, of in emitted.items()}

    def _make_empty_stream(self, stream: nodes.Stream) -> StreamFrame:
        """Return no rows: the stream is one of late rows, which a batch run does not have."""
        columns = stream_columns(stream)
        frame = self.spark.createDataFrame([], format_ddl(columns))
        return StreamFrame(frame, columns, stream.kind)

    def _apply_operation(
        self, step: nodes.Step, operation: nodes.Operation, rows: StreamFrame
    ) -> dict[str, StreamFrame]:
        """Return what an operation of a step emits: its rows and its side outputs, by stream."""
        if isinstance(operation, nodes.Route):
            return self._apply_route(step, operation, rows)
        kind = kind_after(operation, rows.kind)
        if isinstance(operation, nodes.ChangelogConversion):
            if operation.output == "upsert" and step.name in self._repeating_streams:
                key = [column.name for column in operation.key]
                distinct = check_distinct_keys(rows.frame, key, step.inputs[0])
                rows = replace(rows, frame=distinct)
            return {step.name: replace(_add_change_columns(operation, rows), kind=kind)}
        if isinstance(operation, nodes.WeightConversion):
            return {step.name: replace(rows, kind=kind)}
        columns = columns_after_operation(operation, rows.columns, _orders_rows(step, operation))
        frame = _apply_in_spark(operation, rows, columns)
        if frame is None:
            return self._apply_operator(step, operation, rows, (columns, kind))
        costly = rows.is_costly or isinstance(operation, nodes.KeyedOperation)
        return {step.name: StreamFrame(frame, columns, kind, costly)}

    def _apply_operator(
        self,
        step: nodes.Step,
        operation: nodes.Operation,
        rows: StreamFrame,
        result: tuple[Columns, nodes.StreamKind],
    ) -> dict[str, StreamFrame]:
        """Return what headrace's operator emits in the executors, by stream."""
        emitted = {step.name: result, **self._describe_side_outputs(step, operation)}
        if isinstance(operation, nodes.Lookup) and operation.miss_stream in emitted:
            # Rows without a match are input rows, also with columns that nobody reads.
            emitted[operation.miss_stream] = (rows.columns, nodes.Append())
        outputs = tuple((name, columns) for name, (columns, _) in emitted.items())
        alone, (_, kind) = replace(step, operations=(operation,)), result
        if isinstance(operation, nodes.Lookup):
            frames = PartitionLookup(alone, operation, outputs, self.context).apply(rows.frame)
        elif isinstance(operation, nodes.KeyedOperation):
            changes = kind if isinstance(kind, nodes.Upsert) else None
            in_time = EVENT_TIME in rows.columns
            work = PartitionOperator(alone, outputs, changes, in_time, self.context)
            partitions = _partition_and_sort(rows, operation.key, self.context)
            if isinstance(operation, nodes.Aggregate) and operation.emits_empty:
                partitions = ensure_partition(rows.frame).coalesce(1)
            frames = work.apply(partitions)
        else:
            work = PartitionOperator(alone, outputs, None, False, self.context)
            frames = work.apply(rows.frame)
        return {name: StreamFrame(frames[name], *of) for name, of in emitted.items()}

    def _apply_route(
        self, step: nodes.Step, route: nodes.Route, rows: StreamFrame
    ) -> dict[str, StreamFrame]:
        """Return the rows of each branch that has a reader, by stream."""
        branches = route.list_streams(step.name)
        wanted = [name for name in branches if name in self.context.read_streams]
        frames = try_analysis(lambda: split_route(rows.frame, route, step.name))
        if frames is None:
            outputs = tuple((name, rows.columns) for name in wanted)
            alone = replace(step, operations=(route,))
            frames = PartitionOperator(alone, outputs, None, False, self.context).apply(rows.frame)
        elif rows.is_costly and len(wanted) > 1:
            rows = _cache_rows(rows)
            frames = split_route(rows.frame, route, step.name) or frames
        return {name: replace(rows, frame=frames[name]) for name in wanted}

    def _describe_side_outputs(
        self, step: nodes.Step, operation: nodes.Operation
    ) -> dict[str, tuple[Columns, nodes.StreamKind]]:
        """Return columns and kind of an operation's side outputs that have a reader, by stream."""
        read = self.context.read_streams
        sides = (each for each in _side_outputs(step, operation) if each.name in read)
        return {stream.name: (stream_columns(stream), stream.kind) for stream in sides}


def _add_change_columns(conversion: nodes.ChangelogConversion, rows: StreamFrame) -> StreamFrame:
    """Return the rows of a final table as its changes: each is inserted."""
    from pyspark.sql import functions as f

    values = {CHANGE: INSERT, SEQUENCE: 1, CHANGE_NUMBER: 1, BEFORE: None}
    added = {field.name: field.type for field in conversion.added_columns}
    columns = {
        name: f.lit(values[name]).cast(str(to_spark_type(type))) for name, type in added.items()
    }
    return replace(rows, frame=rows.frame.withColumns(columns), columns={**rows.columns, **added})


def _orders_rows(step: nodes.Step, operation: nodes.Operation) -> bool:
    """Whether the rows that an operation emits carry their row order.

    A class numbers the rows of each of its outputs only for readers of that output.
    """
    of_class = nodes.find_process_body(operation) is not None
    outputs = (each for each in step.main_outputs if not of_class or each.name == step.name)
    return any(stream.has_row_order for stream in outputs)


def _side_outputs(step: nodes.Step, operation: nodes.Operation) -> list[nodes.Stream]:
    """List the outputs of an operation besides its rows, without those of late rows."""
    body = nodes.find_process_body(operation)
    match = nodes.find_match(operation)
    fails = isinstance(operation, nodes.Map | nodes.Lookup) or is_fallible_operation(operation)
    names = [step.on_error] if body or match or fails else []
    if body is not None:
        names += [f"{step.name}.{name}" for name, _ in body.outputs]
    if isinstance(operation, nodes.Lookup):
        names.append(operation.miss_stream)
    if match is not None and match.incomplete_to is not None:
        names.append(match.incomplete_to)
    return [stream for stream in step.outputs if stream.name in names]


def _unite_rows(parts: Sequence[StreamFrame]) -> StreamFrame:
    """Return the rows of all parts, with the columns that all of them have."""
    first = parts[0]
    if len(parts) == 1:
        return first
    columns = {n: t for n, t in first.columns.items() if all(n in r.columns for r in parts)}
    names = [quote_column(name) for name in columns]
    frames = (rows.frame.select(*names) for rows in parts)
    united = reduce(lambda one, other: one.union(other), frames)
    return StreamFrame(united, columns, first.kind, any(rows.is_costly for rows in parts))


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
