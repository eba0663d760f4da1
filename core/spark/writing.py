"""Sinks inside executors: one writer of the connector writes each partition.

Prepared output is not visible before the driver commits it, after all sinks are written. Spark may
retry a task while an earlier attempt still runs: so each attempt has its own writer, and only the
output of the attempt that Spark accepts is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from headrace.core.contracts import ConnectorError, SinkWriter
from headrace.core.elements import DELETE
from headrace.core.plan import nodes
from headrace.core.spark.beside import BackgroundLoop, run_background_loop
from headrace.core.spark.columns import Columns
from headrace.core.spark.committing import PreparedOutput
from headrace.core.spark.inside import ExecutorContext
from headrace.core.spark.stage import map_partitions
from headrace.core.types import BIGINT, STRING, Schema

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

HANDLE_COLUMNS: Columns = {"handle": STRING, "rows": BIGINT}


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """The possible writers of a sink that counts writers."""

    concurrent_writers: int
    """The most writers at a time."""
    max_attempts: int
    """The most attempts of each."""

    @property
    def total(self) -> int:
        """The number of writers over all attempts."""
        return self.concurrent_writers * self.max_attempts


def write_partitions(
    rows: DataFrame,
    sink: nodes.Sink,
    schema: Schema,
    context: ExecutorContext,
    writers: WriterLimits | None,
) -> PreparedOutput:
    """Write the rows in the executors; return when all output is prepared."""
    if writers is not None:
        rows = rows.coalesce(writers.concurrent_writers)
    (done,) = map_partitions(
        rows, sink.name, _WriteFunction(sink, schema, context, writers), [HANDLE_COLUMNS]
    )
    said = done.collect()
    handles = tuple(orjson.loads(row.handle) for row in said if row.handle is not None)
    return PreparedOutput(handles, sum(row.rows for row in said))


def add_delete_flag(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Add the delete flag of a changelog, always false: a batch has only final rows."""
    import polars as pl

    if DELETE in schema and DELETE not in frame.columns:
        return frame.with_columns(pl.lit(False).alias(DELETE))
    return frame


@dataclass(frozen=True, slots=True)
class _WriteFunction:
    """A `PartitionFunction` that writes rows and returns a handle to commit."""

    sink: nodes.Sink
    schema: Schema
    context: ExecutorContext
    limits: WriterLimits | None

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Write the rows of a partition."""
        import polars as pl

        count = 0
        with (
            run_background_loop() as loop,
            self._open_writer(loop, self._writer_number(partition)) as writer,
        ):
            for frame in frames:
                if frame.height:
                    loop.run(writer.write(add_delete_flag(frame, self.schema)))
                    count += frame.height
            handle = loop.run(writer.prepare())
        text = None if handle is None else orjson.dumps(handle).decode()
        types = {"handle": pl.String(), "rows": pl.Int64()}
        yield 0, pl.DataFrame({"handle": [text], "rows": [count]}, schema=types)

    @contextmanager
    def _open_writer(self, loop: BackgroundLoop, number: int) -> Iterator[SinkWriter]:
        """Open a writer; unprepared output is dropped at the end."""
        with self.context.open_run_context() as surroundings:
            opened = self.context.open_sink(self.sink, self.schema, surroundings)
            try:
                writer = opened.create_writer(number)
                try:
                    yield writer
                finally:
                    loop.run(writer.close())
            finally:
                loop.run(opened.close())

    def _writer_number(self, partition: int) -> int:
        """Return the writer's number, unique for each attempt."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if self.limits is None:
            return context.taskAttemptId()
        tried = context.attemptNumber()
        if tried >= self.limits.max_attempts:
            raise ConnectorError(f"a task was already tried {tried} times", "run it again")
        return partition + self.limits.concurrent_writers * tried
