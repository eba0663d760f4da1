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

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.plan import nodes
from headrace.core.plan.changes import after as kind_after
from headrace.core.plan.changes import joined as kind_of_join
from headrace.core.plan.layout import two_sided
from headrace.core.plan.matching import Connected
from headrace.core.spark.columns import Columns, after, ddl, of_join, of_stream, quoted
from headrace.core.spark.expressions import attempted
from headrace.core.spark.inside import Inside
from headrace.core.spark.joining import OperatedJoin, dealt, native_join
from headrace.core.spark.keyed import by_key
from headrace.core.spark.looking_up import OperatedLookup
from headrace.core.spark.native import routed, row_by_row
from headrace.core.spark.operating import Operated, grouped
from headrace.core.spark.reading import Found, is_scanned, read
from headrace.core.spark.ruled import OperatedRuled, gathered, somewhere

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows between two operations: their columns, and whether they are a changelog."""

    frame: DataFrame
    columns: Columns
    kind: nodes.Kind
    costly: bool = True
    """Whether computing the rows a second time costs more than reading cached ones."""


@dataclass(slots=True)
class Building:
    """One pass over a plan; `streams` holds all streams built so far."""

    spark: SparkSession
    plan: nodes.Plan
    context: Inside
    found: Mapping[str, Found]
    """The input of each source, by name."""
    streams: dict[str, Rows] = field(default_factory=dict)
    _readers: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self._readers = Counter(edge.stream for edge in self.plan.edges)

    def build(self) -> dict[str, DataFrame]:
        """Return the rows of each sink, by name."""
        for part in self.plan:
            if isinstance(part, nodes.Source):
                self._source(part)
            elif isinstance(part, nodes.Step):
                self._step(part)
        sinks = (part for part in self.plan if isinstance(part, nodes.Sink))
        return {sink.name: self.streams[sink.input].frame for sink in sinks}

    def _source(self, source: nodes.Source) -> None:
        frames = read(self.spark, source, self.found[source.name], self.context)
        costly = not all(map(is_scanned, self.found[source.name].pieces))
        for stream in source.outputs:
            if stream.name in frames:
                self._put(stream, frames[stream.name], of_stream(stream), costly=costly)

    def _put(
        self, stream: nodes.Stream, frame: DataFrame, columns: Columns, *, costly: bool = True
    ) -> None:
        there = {name: type for name, type in columns.items() if name in frame.columns}
        self._keep(stream.name, Rows(frame, there, stream.kind, costly))

    def _keep(self, name: str, rows: Rows) -> None:
        """Store the rows of a stream; several readers share one computation."""
        self.streams[name] = _made_once(rows) if self._readers[name] > 1 else rows

    def _step(self, step: nodes.Step) -> None:
        inputs = [self.streams[name] for name in step.inputs]
        join, operations = two_sided(step), step.operations
        if join is not None:
            rows, operations = self._joined(step, join, *inputs), operations[1:]
        else:
            rows = self._united(inputs)
        for operation in operations:
            if isinstance(operation, nodes.Route):
                self._routed(step, operation, rows)
                return
            rows = self._after(step, operation, rows)
        for stream in step.outputs:
            if stream.name == step.name:
                self._keep(stream.name, rows)
            elif stream.name not in self.streams:
                self._put(stream, self._nothing(of_stream(stream)), of_stream(stream))

    def _united(self, inputs: Sequence[Rows]) -> Rows:
        first = inputs[0]
        if len(inputs) == 1:
            return first
        columns = {n: t for n, t in first.columns.items() if all(n in r.columns for r in inputs)}
        names = [quoted(name) for name in columns]
        frames = (rows.frame.select(*names) for rows in inputs)
        united = reduce(lambda one, other: one.union(other), frames)
        return Rows(united, columns, first.kind, any(rows.costly for rows in inputs))

    def _joined(self, step: nodes.Step, join: nodes.Join, left: Rows, right: Rows) -> Rows:
        timed = EVENT_TIME in left.columns and EVENT_TIME in right.columns
        columns = of_join(join, timed, any(stream.ordered for stream in step.rows))
        kind = kind_of_join(join, left.kind, right.kind)
        frame = native_join(join, left.frame, right.frame, columns)
        if frame is None:
            changes = kind if isinstance(kind, nodes.Upsert) else None
            alone = replace(step, operations=(join,))
            side_outputs = [s for s in _beside(step, join) if s.name in self.context.read]
            outputs = ((step.name, columns), *((s.name, of_stream(s)) for s in side_outputs))
            if isinstance(join.matching, Connected) and join.matching.everywhere:
                rules = gathered(right.frame)
                of_rules = OperatedRuled(alone, outputs, changes, timed, self.context, rules)
                frames = of_rules.over(somewhere(_dealt(left, join.left.key, self.context)))
            else:
                work = OperatedJoin(alone, outputs, changes, timed, self.context)
                sides = (left.frame, left.columns), (right.frame, right.columns)
                frames = work.over(dealt(join, sides, self.context))
            for stream in side_outputs:
                self._put(stream, frames[stream.name], of_stream(stream))
            frame = frames[step.name]
        return Rows(frame, columns, kind)

    def _nothing(self, columns: Columns) -> DataFrame:
        return self.spark.createDataFrame([], ddl(columns))

    def _after(self, step: nodes.Step, operation: nodes.Operation, rows: Rows) -> Rows:
        """Return the rows after an operation of a step."""
        ordered = any(stream.ordered for stream in step.rows)
        kind, columns = kind_after(operation, rows.kind), after(operation, rows.columns, ordered)
        frame = _native(operation, rows, columns)
        costly = rows.costly or frame is None or isinstance(operation, nodes.Keyed)
        if isinstance(operation, nodes.Lookup):
            frame = self._looked_up(step, operation, rows, columns)
        elif frame is None:
            frame = self._operated(step, operation, rows, kind, columns)
        return Rows(frame, columns, kind, costly)

    def _looked_up(
        self, step: nodes.Step, lookup: nodes.Lookup, rows: Rows, columns: Columns
    ) -> DataFrame:
        """Return the rows of a lookup; missed and failed rows go to their own streams."""
        asides = [s for s in step.outputs if s.name in (step.on_error, lookup.missed)]
        wanted = [stream for stream in asides if stream.name in self.context.read]
        of = {s.name: rows.columns if s.name == lookup.missed else of_stream(s) for s in wanted}
        alone = replace(step, operations=(lookup,))
        outputs = ((step.name, columns), *of.items())
        frames = OperatedLookup(alone, lookup, outputs, self.context).over(rows.frame)
        for stream in wanted:
            self._put(stream, frames[stream.name], of[stream.name])
        return frames[step.name]

    def _operated(
        self,
        step: nodes.Step,
        operation: nodes.Operation,
        rows: Rows,
        kind: nodes.Kind,
        columns: Columns,
    ) -> DataFrame:
        """Return the rows that headrace's operator makes in the executors."""
        alone = replace(step, operations=(operation,))
        outputs = [(step.name, columns)]
        side_outputs = [s for s in _beside(step, operation) if s.name in self.context.read]
        outputs += [(stream.name, of_stream(stream)) for stream in side_outputs]
        frame, changes, in_time = rows.frame, None, False
        if isinstance(operation, nodes.Keyed):
            changes = kind if isinstance(kind, nodes.Upsert) else None
            in_time = EVENT_TIME in rows.columns
            frame = _dealt(rows, operation.key, self.context)
        frames = Operated(alone, tuple(outputs), changes, in_time, self.context).over(frame)
        for stream in side_outputs:
            self._put(stream, frames[stream.name], of_stream(stream))
        return frames[step.name]

    def _routed(self, step: nodes.Step, route: nodes.Route, rows: Rows) -> None:
        wanted = [stream for stream in step.outputs if stream.name in self.context.read]
        frames = attempted(lambda: routed(rows.frame, route, step.outputs))
        if frames is None:
            outputs = tuple((stream.name, rows.columns) for stream in wanted)
            alone = replace(step, operations=(route,))
            frames = Operated(alone, outputs, None, False, self.context).over(rows.frame)
        elif rows.costly and len(wanted) > 1:
            rows = _made_once(rows)
            frames = routed(rows.frame, route, step.outputs) or frames
        for stream in wanted:
            self._put(stream, frames[stream.name], rows.columns, costly=rows.costly)


def _beside(step: nodes.Step, operation: nodes.Operation) -> list[nodes.Stream]:
    """List the side outputs of an operation, except those that a batch never has."""
    body = nodes.body_of(operation)
    names = [step.on_error] if body or isinstance(operation, nodes.Map) else []
    if body is not None:
        names += [f"{step.name}.{name}" for name, _ in body.outputs]
    return [stream for stream in step.outputs if stream.name in names]


def _made_once(rows: Rows) -> Rows:
    """Cache the rows in the executors: in memory as far as possible, else on disk."""
    if not rows.costly:
        return rows
    return replace(rows, frame=rows.frame.persist(), costly=False)


def _native(operation: nodes.Operation, rows: Rows, wanted: Columns) -> DataFrame | None:
    """Return the rows that Spark computes by itself; None if they would differ from headrace's."""
    if isinstance(operation, nodes.Keyed):
        return attempted(lambda: by_key(rows.frame, operation, wanted))
    return attempted(lambda: row_by_row(rows.frame, operation, rows.columns, wanted))


def _dealt(rows: Rows, key: tuple[nodes.Computed, ...], context: Inside) -> DataFrame:
    """Put the rows of a key into one partition, sorted as a stream would deliver them."""
    frame = grouped(rows.frame, rows.columns, key, context)
    order = [name for name in (EVENT_TIME, ORDER) if name in rows.columns]
    return frame.sortWithinPartitions(*map(quoted, order)) if order else frame
