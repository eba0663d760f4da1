"""Loops in a batch: round by round, until no row goes round any more.

If the rows that come of each row inside do not depend on the other rows that go round, a round
begins with the rows that came back last. Otherwise it begins with all rows that have gone round so
far, and the loop ends when they do not become more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import TYPE_CHECKING, Literal

from headrace.core.api.failures import ConnectorError
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.expressions import TypedExpression, type_expression
from headrace.core.operators.table_rounds import make_repeated_key_error
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_two_input_operation
from headrace.core.spark.columns import quote_column, stream_columns
from headrace.core.spark.dataframe_operations import split_route
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.spark.expressions import try_analysis
from headrace.core.spark.partition_operators import PartitionOperator
from headrace.core.spark.stream_frame import StreamFrame
from headrace.core.types.data_types import BIGINT, Schema
from headrace.core.types.data_types import Field as Column
from headrace.core.types.elements import ORDER
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEAVES, OVER, INSIDE = "leaves", "over", "else"
ROW_OPERATIONS = (nodes.Explode, nodes.Filter, nodes.Project, nodes.Map, nodes.Lookup, nodes.Route)
"""The operations of which the result for a row depends on that row alone."""


@dataclass(slots=True)
class LoopRounds:
    """The rounds of one loop; `build_step` adds the outputs of a step inside to `streams`."""

    head: nodes.Step
    loop: nodes.Loop
    body: Mapping[str, nodes.Step]
    context: ExecutorContext
    streams: MutableMapping[str, StreamFrame]
    build_step: Callable[[nodes.Step], None]
    _parts: dict[str, list[DataFrame]] = field(default_factory=dict)

    def run(self, entered: DataFrame, *, once: bool = False) -> None:
        """Run the rounds, and add the outputs of the head; `once`: show only the first round."""
        if self.loop.table is not None:
            if self.loop.table.delta is None:
                self._run_over_table(self.loop.table, entered, once=once)
            else:
                self._run_delta(self.loop.table, self.loop.table.delta, once=once)
            return
        entered = self._add_rounds(entered, first=True)
        if not once:
            entered = entered.localCheckpoint()
            self._store_outside()
        by_row = is_by_row(self.head.name, self.body)
        self._parts = {LEAVES: [], OVER: [], INSIDE: []}
        rows, count = entered, 0
        while True:
            frames = self._divide(rows if once else rows.localCheckpoint())
            if not by_row:
                self._parts = {name: [] for name in self._parts}
            for name, frame in frames.items():
                self._parts[name].append(frame)
            before, count = count, 0 if once else frames[INSIDE].count()
            if once or count == (0 if by_row else before):
                break
            self._store(nodes.name_loop_stream(self.head.name), frames[INSIDE])
            for step in self.body.values():
                self.build_step(step)
            rows = self._add_rounds(self.streams[self.loop.feedback].frame, first=False)
            rows = rows if by_row else entered.unionByName(rows)
        self._finish(check_over=not once)

    def _run_over_table(self, table: nodes.TableRounds, entered: DataFrame, *, once: bool) -> None:
        """Run rounds that each compute a table from that of the round before."""
        inside, names = nodes.name_loop_stream(self.head.name), self.head.outputs[0].schema.names
        columns = [*map(quote_column, names)]
        rows = entered.select(*columns)
        if not once:
            rows = rows.localCheckpoint()
            self._store_outside()
        for _ in range(1 if once else table.count):
            self._store(inside, rows)
            for step in self.body.values():
                self.build_step(step)
            before, rows = rows, self.streams[self.loop.feedback].frame.select(*columns)
            if once:
                break
            rows = rows.localCheckpoint()
            is_same = rows.exceptAll(before).isEmpty() and before.exceptAll(rows).isEmpty()
            if is_same or self._is_until(table, rows, before):
                break
        self._store(self.head.name, rows)

    def _run_delta(self, table: nodes.TableRounds, delta: nodes.DeltaInputs, *, once: bool) -> None:
        """Run rounds that each replace rows of the solution by their key."""
        workset_stream, solution_stream = self.loop.list_inner_streams(self.head.name)
        key = [*table.key]
        solution, workset = (self._select_rows(name) for name in (delta.solution, delta.workset))
        if not once:
            solution, workset = solution.localCheckpoint(), workset.localCheckpoint()
            self._store_outside()
            self._check_keys(solution, key, delta.solution, 1)
        for round in range(1, 2 if once else table.count + 1):
            self._store(workset_stream, workset)
            self._store(solution_stream, solution)
            for step in self.body.values():
                self.build_step(step)
            rows = self._select_rows(self.loop.feedback)
            if once:
                solution = rows
                break
            rows = rows.localCheckpoint()
            self._check_keys(rows, key, self.loop.feedback, round)
            before, workset = solution, rows.exceptAll(_join_by(solution, rows, key, "semi"))
            workset = workset.localCheckpoint()
            if workset.isEmpty():
                break
            solution = _join_by(before, workset, key, "anti").unionByName(workset)
            solution = solution.localCheckpoint()
            if self._is_until(table, workset, before):
                break
        self._store(self.head.name, solution)

    def _select_rows(self, stream: str) -> DataFrame:
        """Return the rows of a stream with the columns of the loop alone."""
        names = self.head.outputs[0].schema.names
        return self.streams[stream].frame.select(*map(quote_column, names))

    def _check_keys(self, rows: DataFrame, key: Sequence[str], stream: str, round: int) -> None:
        """Raise ConnectorError if two rows have the same key."""
        from pyspark.sql.functions import expr

        counted = rows.groupBy(*map(quote_column, key)).agg(expr("count(*)").alias("__rows"))
        repeated = counted.where("__rows > 1").drop("__rows").first()
        if repeated is not None:
            values = dict(zip(key, repeated, strict=True))
            with attribute_errors_to(self.head.name):
                raise make_repeated_key_error(stream, round, values)

    def _is_until(self, table: nodes.TableRounds, after: DataFrame, before: DataFrame) -> bool:
        """Whether `until` holds for a round and the one before."""
        from pyspark.sql.functions import col, struct

        if table.until is None:
            return False
        names = self.head.outputs[0].schema.names
        rows = after
        if table.key:
            key = [col(quote_column(name)).alias(f"__{name}") for name in table.key]
            fields = [col(quote_column(name)) for name in names]
            found = before.select(*key, struct(*fields).alias(nodes.BEFORE_COLUMN))
            found = found.dropDuplicates([f"__{name}" for name in table.key])
            same = [after[name].eqNullSafe(found[f"__{name}"]) for name in table.key]
            rows = after.join(found, same, "left")
        first = rows.selectExpr(f"({self.loop.text}) as done").first()
        return first is not None and first["done"] is True

    def _store_outside(self) -> None:
        """Store what the steps inside read from outside, so that no round computes it again."""
        inside = {stream.name for step in self.body.values() for stream in step.outputs}
        inside.update(self.loop.list_inner_streams(self.head.name))
        for name in {name for step in self.body.values() for name in step.inputs} - inside:
            rows = self.streams[name]
            self.streams[name] = replace(rows, frame=rows.frame.persist(), is_costly=False)

    def _finish(self, *, check_over: bool) -> None:
        """Add the outputs of the head."""
        over = nodes.name_over_stream(self.head.name)
        if check_over and self._parts[OVER] and over not in self.context.read_streams:
            with attribute_errors_to(self.head.name):
                self._check_over(self._parts[OVER])
        names = {LEAVES: self.head.name, OVER: over, INSIDE: nodes.name_loop_stream(self.head.name)}
        for part, frames in self._parts.items():
            if frames:
                self._store(names[part], reduce(lambda one, other: one.union(other), frames))

    def _check_over(self, frames: Iterable[DataFrame]) -> None:
        for frame in frames:
            if found := frame.take(1):
                shown = {name: found[0][name] for name in self.head.outputs[0].schema.names}
                message = (
                    f"a row has come back {self.loop.max_rounds} times and does not leave: {shown}"
                )
                hint = "a step or sink with from: NAME.over takes such rows"
                raise ConnectorError(message, hint, final=True)

    def _store(self, name: str, frame: DataFrame) -> None:
        out = next(each for each in self.head.outputs if each.name == name)
        if self.loop.table is not None and out.has_row_order:
            # The rows of a table have no order: they all have the same place.
            place = "named_struct('time', 0L, 'at', 0L, 'part', 0L)"
            frame = frame.selectExpr("*", f"{place} as {ORDER}")
        self.streams[name] = StreamFrame(frame, stream_columns(out), out.kind)

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


def _join_by(
    rows: DataFrame, others: DataFrame, key: Sequence[str], how: Literal["semi", "anti"]
) -> DataFrame:
    """Return the rows whose key is among those of other rows, or is not."""
    from pyspark.sql.functions import col

    names = {name: f"__{name}" for name in key}
    keys = others.select(*(col(quote_column(name)).alias(other) for name, other in names.items()))
    same = [rows[quote_column(n)].eqNullSafe(keys[quote_column(o)]) for n, o in names.items()]
    return rows.join(keys, same, how)


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
