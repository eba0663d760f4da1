"""Sources of a batch: the driver finds the splits, executors read them.

The driver fixes the splits before anything is read, so that every read of a split gives the same
rows. Splits are packed in groups into a bounded number of tasks: not one task per file, nor one
that all others wait for. Each row of a Spark range is the number of a group. The result does not
depend on the grouping. Files that Spark reads by itself are checked at the end: it does not notice
that one changed, as headrace's own readers do.

Spark may read anything twice: after a failed task, after a stage's output was lost, or once for
each sink. So the counts of rows and bad records of a group are stored under the group's number: a
second read stores the same counts again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import BatchSplit, Chunk
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.plan import nodes
from headrace.core.sources import chunk_rows
from headrace.core.sources.row_times import RowTimes
from headrace.core.sources.table_changes import TableRecords
from headrace.core.spark.arrow_functions import map_partitions
from headrace.core.spark.columns import Columns, add_hidden_columns, format_ddl, stream_columns
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.spark.parquet_scan import (
    FILE_METADATA,
    PRESENCE_COLUMN,
    is_scannable,
    scan_files,
)
from headrace.core.types.data_types import BOOLEAN
from headrace.core.types.elements import DELETE, SEQUENCE
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession


TASKS_PER_CORE = 4


MIN_TASK_BYTES, MAX_TASK_BYTES = 4 << 20, 64 << 20
"""The least and the most bytes of a task."""


OPEN_COST_BYTES = 64 << 10
"""Opening a split takes as long as reading this many bytes."""


def pack_tasks(pieces: Sequence[BatchSplit], cores: int) -> list[tuple[BatchSplit, ...]]:
    """Pack splits, in their order, into groups of about the same size."""
    total = sum(map(_estimate_size, pieces))
    task_bytes = min(max(total / (cores * TASKS_PER_CORE), MIN_TASK_BYTES), MAX_TASK_BYTES)
    groups: list[list[BatchSplit]] = []
    room = 0.0
    for piece in pieces:
        if not groups or room < _estimate_size(piece) / 2:
            groups.append([])
            room = task_bytes
        groups[-1].append(piece)
        room -= _estimate_size(piece)
    return [tuple(group) for group in groups]


def _estimate_size(piece: BatchSplit) -> int:
    return piece.size + OPEN_COST_BYTES


class SourceCounts(NamedTuple):
    """Rows and bad records read from a source."""

    rows: int
    bad_records: int


GroupCounts: TypeAlias = "dict[tuple[str, int], SourceCounts]"
"""Counts by source and group number."""


class CountsMerger:
    """Parameters by which pyspark merges counts."""

    def zero(self, value: GroupCounts) -> GroupCounts:
        """Return empty counts."""
        return {}

    def addInPlace(self, value1: GroupCounts, value2: GroupCounts) -> GroupCounts:
        """Merge two sets of counts."""
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Counts of a run: executors add to them, the driver reads them. Can be pickled."""

    accumulator: Accumulator[GroupCounts]

    def add(self, source: str, group: int, read: SourceCounts) -> None:
        """Add the counts of a group that was read to its end."""
        self.accumulator.add({(source, group): read})

    def sum_by_source(self) -> Mapping[str, SourceCounts]:
        """Sum the counts of each source."""
        found: dict[str, SourceCounts] = {}
        for (source, _), read in self.accumulator.value.items():
            before = found.get(source, SourceCounts(0, 0))
            found[source] = SourceCounts(
                before.rows + read.rows, before.bad_records + read.bad_records
            )
        return found


def create_counts(spark: SparkSession) -> BatchCounts:
    """Create empty counts."""
    return BatchCounts(spark.sparkContext.accumulator({}, CountsMerger()))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class SourceInput:
    """The input of a source: its splits, fixed by the driver."""

    number: int
    """The source's number in the plan."""
    splits: tuple[BatchSplit, ...]
    counts: BatchCounts
    now_us: int
    """The arrival time of bad records (microseconds), the same for every read."""


async def find_inputs(
    spark: SparkSession, plan: nodes.Plan, context: ExecutorContext, counts: BatchCounts
) -> dict[str, SourceInput]:
    """Find the current input of each source. Raises ConnectorError."""
    sources = [part for part in plan if isinstance(part, nodes.Source)]
    now_us, many = time.time_ns() // 1000, spark.sparkContext.defaultParallelism
    there = {}
    with context.open_run_context() as run_context:
        for number, source in enumerate(sources):
            with attribute_errors_to(source.name):
                pieces = await context.open_split_reader(source, run_context).plan_splits(many)
            there[source.name] = SourceInput(number, tuple(_number_splits(pieces)), counts, now_us)
    return there


def _number_splits(pieces: Sequence[BatchSplit]) -> Iterator[BatchSplit]:
    """Number the splits within their source."""
    numbers: dict[str, int] = {}
    for piece in pieces:
        number = numbers.setdefault(piece.split.name, len(numbers))
        yield replace(piece, split=replace(piece.split, number=number))


def read_source(
    spark: SparkSession, source: nodes.Source, there: SourceInput, context: ExecutorContext
) -> dict[str, DataFrame]:
    """Return the streams of a source that have a reader, by name."""
    wanted = {
        s.name: _read_columns(source, s) for s in source.outputs if s.name in context.read_streams
    }
    by_spark = FILE_METADATA not in source.schema and not source.times and source.table is None
    files = [piece for piece in there.splits if by_spark and is_spark_scan(piece)]
    others = [piece for piece in there.splits if not (by_spark and is_spark_scan(piece))]
    if not files:
        return _read_in_executors(spark, source, there, others, wanted, context)
    there.counts.add(
        source.name, -1, SourceCounts(sum(f.parquet.rows for f in files if f.parquet), 0)
    )
    empty = {
        name: spark.createDataFrame([], format_ddl(columns)) for name, columns in wanted.items()
    }
    streams = _read_in_executors(spark, source, there, others, wanted, context) if others else empty
    if source.name in wanted:
        frame = scan_files(spark, source, there.number, files, wanted[source.name])
        streams[source.name] = frame.union(streams[source.name]) if others else frame
    return streams


def is_spark_scan(piece: BatchSplit) -> bool:
    """Whether the split is a file that Spark reads by itself."""
    return piece.parquet is not None and is_scannable(piece.parquet.path)


def _read_columns(source: nodes.Source, stream: nodes.Stream) -> Columns:
    """Return the columns of a stream that are read."""
    if stream.name != source.name:
        return stream_columns(stream)
    types = {field.name: field.type for field in source.schema}
    read = {name: types[name] for name in source.decoded_columns}
    if source.table is not None:
        read = {n: type for n, type in read.items() if n not in source.table.metadata}
        read[DELETE] = BOOLEAN
        if source.table.sequence is not None:
            read[SEQUENCE] = source.table.sequence.value.type
    return add_hidden_columns(read, stream.has_event_time, stream.has_row_order) or {
        PRESENCE_COLUMN: BOOLEAN
    }


def _read_in_executors(
    spark: SparkSession,
    source: nodes.Source,
    there: SourceInput,
    pieces: Sequence[BatchSplit],
    wanted: dict[str, Columns],
    context: ExecutorContext,
) -> dict[str, DataFrame]:
    groups = pack_tasks(pieces, spark.sparkContext.defaultParallelism)
    work = _ReadFunction(source, replace(there, splits=()), tuple(groups), context, tuple(wanted))
    numbers = spark.range(0, len(groups), 1, max(len(groups), 1))
    frames = map_partitions(numbers, source.name, work, list(wanted.values()))
    return dict(zip(wanted, frames, strict=True))


@dataclass(frozen=True, slots=True)
class _ReadFunction:
    """A `PartitionFunction` that reads the groups whose numbers it gets."""

    source: nodes.Source
    source_input: SourceInput
    groups: tuple[tuple[BatchSplit, ...], ...]
    context: ExecutorContext
    stream_names: tuple[str, ...]

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Read the rows of the splits, and their bad records."""
        with self.context.open_run_context() as run_context:
            reader = self.context.open_split_reader(self.source, run_context)
            times, records = RowTimes(self.source), TableRecords(self.source)
            for frame in frames:
                for group in frame["id"]:
                    rows = bad = 0
                    for piece in self.groups[group]:
                        for first, read in reader.read(piece):
                            chunk = times.add_to(records.convert(read))
                            yield from self._convert_chunk(chunk, first)
                            rows, bad = rows + chunk.frame.height, bad + len(chunk.bad_records)
                    self.source_input.counts.add(self.source.name, group, SourceCounts(rows, bad))

    def _convert_chunk(self, chunk: Chunk, first: int) -> Iterator[tuple[int, pl.DataFrame]]:
        if chunk.bad_records:
            yield from self._handle_bad_records(chunk, first)
        frame = chunk.frame
        if frame.height and self.source.name in self.stream_names:
            if self.source.outputs[0].has_row_order:
                frame = chunk_rows.number_chunk_rows(self.source_input.number, chunk, first)
            yield (
                self.stream_names.index(self.source.name),
                _ensure_column(chunk_rows.add_event_time(self.source, frame)),
            )

    def _handle_bad_records(self, chunk: Chunk, first: int) -> Iterator[tuple[int, pl.DataFrame]]:
        to = self.source.on_error
        if to == "fail":
            raise chunk_rows.build_bad_record_error(chunk)
        if to != "skip" and to in self.stream_names:
            there = self.source_input
            letters = chunk_rows.build_dead_letters(
                self.source, there.number, chunk, first, there.now_us
            )
            yield self.stream_names.index(to), letters


def _ensure_column(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with at least one column."""
    import polars as pl

    return (
        frame
        if frame.width
        else pl.DataFrame({PRESENCE_COLUMN: pl.repeat(True, frame.height, eager=True)})
    )


STABLE_FILES_HINT = "a file must not change while it is read: write new files next to it"


def check_files_unchanged(read: Mapping[str, SourceInput]) -> None:
    """Check that the files of these sources are unchanged. Raises ConnectorError."""
    for source, found in read.items():
        with attribute_errors_to(source):
            for piece in filter(is_spark_scan, found.splits):
                _check_file(piece)


def _check_file(piece: BatchSplit) -> None:
    file, name = piece.parquet, piece.split.name
    assert file is not None
    try:
        there = os.stat(file.path)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = (
            "vanished while it was read"
            if is_missing
            else f"cannot be seen any more: {error.strerror}"
        )
        raise ConnectorError(f"{name} {why}", STABLE_FILES_HINT, split=name) from error
    if (there.st_size, there.st_mtime_ns) != (file.size, file.modified_ns):
        raise ConnectorError(f"{name} was changed while it was read", STABLE_FILES_HINT, split=name)
