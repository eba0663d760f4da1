"""headrace's operators inside executors, for operations that Spark cannot run as DataFrames.

Rows of a key are in one partition, in the order of event time. So time advances with the rows, and
state stays as small as in a stream. A changelog becomes the last row of each key.

A lookup step looks up the rows of each partition separately, as a subtask does. For a `process`
with a `broadcast`, every partition gets all broadcast rules before its rows; the operator holds
each rule until event time reaches it, so the order of the rules does not matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY
from headrace.core.dataflow.operator_factory import SubtaskSlice, compile_steps
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.expressions.checked_expressions import CheckedExpressions
from headrace.core.expressions.typed import NOWHERE, ColumnReference, is_fallible
from headrace.core.operators.changelog.weighted_rows import merge_rows, repeat_rows
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.lookup.client import LookupClient
from headrace.core.operators.lookup.lookup_join import look_up_rows
from headrace.core.operators.operator import OFFLOAD, OperatorChain, Output
from headrace.core.plan import nodes
from headrace.core.spark.arrow_functions import map_partitions
from headrace.core.spark.columns import Columns
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.spark.expressions import translate_column, try_analysis
from headrace.core.types.data_types import DOUBLE, FLOAT, INT
from headrace.core.types.elements import DELETE, EVENT_TIME, MAX_WATERMARK_US, WEIGHT
from headrace.core.types.frames import concat_chunks
from headrace.core.types.key_groups import compute_key_groups
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


KEY_GROUP = "__group"
"""The column of a row's key group."""


COMPACT_AFTER_ROWS = 200_000
"""Changelog rows are compacted to the last row of each key after this many rows."""


@dataclass(frozen=True, slots=True)
class PartitionOperator:
    """An operation of a step, as a step of its own: it has one input, and the step's outputs."""

    step: nodes.Step
    outputs: tuple[tuple[str, Columns], ...]
    """The output streams that have a reader, with their columns."""
    upsert: nodes.Upsert | None
    """The key by which output rows replace each other; None if they do not."""
    is_time_ordered: bool
    """Whether rows arrive in the order of their event time."""
    context: ExecutorContext

    def apply(self, rows: DataFrame) -> dict[str, DataFrame]:
        """Return the output streams of rows that are partitioned and sorted as needed."""
        names, columns = zip(*self.outputs, strict=True)
        return dict(zip(names, map_partitions(rows, self.step.name, self, columns), strict=True))

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Process the rows of a partition (a `PartitionFunction`)."""
        with self.context.open_operator_context() as setting:
            compiled = compile_steps((self.step,), setting, self._subtask_slice(partition))
            assert compiled.chain is not None
            try:
                yield from self._number_outputs(self._process(compiled.chain, frames))
            finally:
                compiled.close()

    def _subtask_slice(self, partition: int) -> SubtaskSlice:
        """Return the operator's subtask slice: a partition runs as a single subtask."""
        return SubtaskSlice(0, 1, self.context.key_groups)

    def _process(self, chain: OperatorChain, frames: Iterator[pl.DataFrame]) -> Iterator[Output]:
        for frame in frames:
            yield from chain.process(frame)
            if self.is_time_ordered and frame.height:
                yield from chain.advance(frame[EVENT_TIME].to_physical()[-1])
        yield from chain.advance(MAX_WATERMARK_US)

    def _number_outputs(self, outputs: Iterator[Output]) -> Iterator[tuple[int, pl.DataFrame]]:
        numbers = {name: at for at, (name, _) in enumerate(self.outputs)}
        last = _LastRows(self.upsert.key) if self.upsert else None
        weighted: list[pl.DataFrame] = []
        for stream, frame in outputs:
            if stream == OFFLOAD or stream not in numbers:
                continue
            if last is not None and DELETE in frame.columns:
                last.put(frame)
            elif WEIGHT in frame.columns:
                weighted.append(frame)
            else:
                yield numbers[stream], frame
        if last is not None and (rows := last.rows()) is not None:
            yield numbers[self.step.name], rows
        if weighted:
            yield numbers[self.step.name], repeat_rows(merge_rows(concat_chunks(weighted)))


class _LastRows:
    """The last row of each key of a changelog; a deleted key has no row."""

    def __init__(self, key: tuple[str, ...]) -> None:
        self._key = key
        self._frames: list[pl.DataFrame] = []
        self._rows = 0
        self._compact_at = COMPACT_AFTER_ROWS

    def put(self, frame: pl.DataFrame) -> None:
        """Add changelog rows, in their order."""
        self._frames.append(frame)
        self._rows += frame.height
        if self._rows > self._compact_at:
            self._frames = [self._compact()]
            self._rows = self._frames[0].height
            self._compact_at = max(COMPACT_AFTER_ROWS, 2 * self._rows)

    def rows(self) -> pl.DataFrame | None:
        """Return the remaining rows; None if there were no changelog rows."""
        import polars as pl

        if not self._frames:
            return None
        return self._compact().filter(~pl.col(DELETE)).drop(DELETE)

    def _compact(self) -> pl.DataFrame:
        import polars as pl

        whole = pl.concat(self._frames, how="diagonal")
        if not self._key:
            return whole.tail(1)
        return whole.unique(self._key, keep="last", maintain_order=True)


def partition_by_key(
    rows: DataFrame,
    columns: Columns,
    key: tuple[nodes.ComputedColumn, ...],
    context: ExecutorContext,
) -> DataFrame:
    """Partition the rows by key."""
    if not key:
        return rows.repartition(1)
    texts = [text for each in key if (text := translate_column(each)) is not None]
    if len(texts) == len(key):
        dealt = try_analysis(lambda: rows.repartition(*map(normalize_key, texts, key)))
        if dealt is not None:
            return dealt
    return add_key_group(rows, columns, key, context).repartition(KEY_GROUP).drop(KEY_GROUP)


def add_key_group(
    rows: DataFrame,
    columns: Columns,
    key: tuple[nodes.ComputedColumn, ...],
    context: ExecutorContext,
) -> DataFrame:
    """Add the key group of each row."""
    work = _KeyGroupFunction(key, context.key_groups)
    (rows,) = map_partitions(rows, "key", work, [{**columns, KEY_GROUP: INT}])
    return rows


def normalize_key(text: str, column: nodes.ComputedColumn) -> Column:
    """Return the column of a key as it is hashed: zero has no sign."""
    from pyspark.sql.functions import expr

    floats = column.value.type in (FLOAT, DOUBLE)
    return expr(f"({text}) + 0.0D" if floats else text)


@dataclass(frozen=True, slots=True)
class _KeyGroupFunction:
    """A `PartitionFunction` that adds the key group of each row."""

    key: tuple[nodes.ComputedColumn, ...]
    key_groups: int

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Add the key group of each row; a key that fails is null here, and the row fails later."""
        import polars as pl

        key, values = self.key, {f"__key{at}": each.value for at, each in enumerate(self.key)}
        if any(map(is_fallible, values.values())):
            limited, key = CheckedExpressions(values), _refer_to_columns(key, values)
            pieces = (piece for frame in frames for piece in limited.evaluate(frame))
            frames = (piece.rows.hstack(piece.values) for piece in pieces)
        grouping = GroupingKey(key)
        for frame in frames:
            rows = grouping.encode_keys(grouping.project_rows(frame, ()))
            groups = compute_key_groups(rows[KEY], self.key_groups)
            added = frame.with_columns(groups.cast(pl.Int32).alias(KEY_GROUP))
            yield 0, added.drop(values, strict=False)


def _refer_to_columns(
    key: Sequence[nodes.ComputedColumn], names: Iterable[str]
) -> tuple[nodes.ComputedColumn, ...]:
    """Return the key over columns that hold its values."""
    return tuple(
        replace(each, value=ColumnReference(each.value.type, True, NOWHERE, name))
        for each, name in zip(key, names, strict=True)
    )


@dataclass(frozen=True, slots=True)
class PartitionLookup:
    """The lookup of a step, as a step of its own; `outputs` are the streams that have a reader."""

    step: nodes.Step
    lookup: nodes.Lookup
    outputs: tuple[tuple[str, Columns], ...]
    context: ExecutorContext

    def apply(self, rows: DataFrame) -> dict[str, DataFrame]:
        """Return the output streams of these rows, by name."""
        names, columns = zip(*self.outputs, strict=True)
        return dict(zip(names, map_partitions(rows, self.step.name, self, columns), strict=True))

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Look up the rows of a partition (a `PartitionFunction`)."""
        numbers = {name: at for at, (name, _) in enumerate(self.outputs)}
        with (
            self.context.open_operator_context() as setting,
            self.context.open_run_context() as run_context,
        ):
            compiled = compile_steps(
                (self.step,), setting, SubtaskSlice(0, 1, self.context.key_groups)
            )
            stage = compiled.lookup_join
            assert stage is not None, self.step.name
            with attribute_errors_to(self.step.name), asyncio.Runner() as runner:
                client = LookupClient(
                    self.lookup, self.context.open_lookup_table(self.lookup, run_context)
                )
                try:
                    runner.run(client.table.check())
                    before = compiled.chain_before_lookup
                    for stream, rows in _prepare_rows(before, stage.input_stream, frames):
                        outputs = (
                            runner.run(look_up_rows(stage, client, rows))
                            if stream == stage.input_stream
                            else [(stream, rows)]
                        )
                        for name, out in outputs:
                            if name in numbers:
                                yield numbers[name], out
                finally:
                    runner.run(client.close())


def _prepare_rows(
    chain: OperatorChain | None, stream: str, frames: Iterator[pl.DataFrame]
) -> Iterator[Output]:
    """Yield the output of the operators before a lookup, of the rows of its input stream."""
    for frame in frames:
        if chain is None:
            yield stream, frame
        else:
            yield from chain.process(frame)


RULES_INPUT = 1


@dataclass(frozen=True, slots=True)
class PartitionBroadcast(PartitionOperator):
    """headrace's operator of a process with broadcast rules, over partitions of the rows."""

    rules: bytes
    """The rows of the right input, as an Arrow file."""

    def _subtask_slice(self, partition: int) -> SubtaskSlice:
        # Exactly one partition reports the rules that failed.
        groups = self.context.key_groups
        return SubtaskSlice(min(partition, groups - 1), groups, groups)

    def _process(self, chain: OperatorChain, frames: Iterator[pl.DataFrame]) -> Iterator[Output]:
        import polars as pl

        yield from chain.process(pl.read_ipc(BytesIO(self.rules)), RULES_INPUT)
        yield from PartitionOperator._process(self, chain, frames)


def collect_rules(rules: DataFrame) -> bytes:
    """Collect all rules in the driver, as an Arrow file."""
    import polars as pl

    frame = pl.from_arrow(rules.toArrow())
    assert isinstance(frame, pl.DataFrame)
    file = BytesIO()
    frame.write_ipc(file)
    return file.getvalue()


def ensure_partition(rows: DataFrame) -> DataFrame:
    """Ensure that there is a partition: a rule fails even if there are no rows."""
    alone = rows.sparkSession.range(0, 1, 1, 1)
    return rows.union(alone.mapInArrow(_make_no_rows, rows.schema))


def _make_no_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return no rows, a fact that Spark's planner cannot know."""
    for _ in batches:
        yield from ()
