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

from headrace.core.contracts import ConnectorError, Writer
from headrace.core.elements import DELETE
from headrace.core.plan import nodes
from headrace.core.spark.beside import Beside, beside
from headrace.core.spark.columns import Columns
from headrace.core.spark.committing import Written
from headrace.core.spark.inside import Inside
from headrace.core.spark.stage import staged
from headrace.core.types import BIGINT, STRING, Schema

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

HANDLES: Columns = {"handle": STRING, "rows": BIGINT}


@dataclass(frozen=True, slots=True)
class Writers:
    """The possible writers of a sink that counts writers."""

    beside: int
    """The most writers at a time."""
    tries: int
    """The most attempts of each."""

    @property
    def all(self) -> int:
        """The number of writers over all attempts."""
        return self.beside * self.tries


def write(
    rows: DataFrame, sink: nodes.Sink, schema: Schema, context: Inside, writers: Writers | None
) -> Written:
    """Write the rows in the executors; return when all output is prepared."""
    if writers is not None:
        rows = rows.coalesce(writers.beside)
    (done,) = staged(rows, sink.name, _Writing(sink, schema, context, writers), [HANDLES])
    said = done.collect()
    handles = tuple(orjson.loads(row.handle) for row in said if row.handle is not None)
    return Written(handles, sum(row.rows for row in said))


def complete(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Add the delete flag of a changelog, always false: a batch has only final rows."""
    import polars as pl

    if DELETE in schema and DELETE not in frame.columns:
        return frame.with_columns(pl.lit(False).alias(DELETE))
    return frame


@dataclass(frozen=True, slots=True)
class _Writing:
    """A `PartitionFunction` that writes rows and returns a handle to commit."""

    sink: nodes.Sink
    schema: Schema
    context: Inside
    writers: Writers | None

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Write the rows of a partition."""
        import polars as pl

        count = 0
        with beside() as loop, self._writer(loop, self._number(partition)) as writer:
            for frame in frames:
                if frame.height:
                    loop.run(writer.write(complete(frame, self.schema)))
                    count += frame.height
            handle = loop.run(writer.prepare())
        text = None if handle is None else orjson.dumps(handle).decode()
        types = {"handle": pl.String(), "rows": pl.Int64()}
        yield 0, pl.DataFrame({"handle": [text], "rows": [count]}, schema=types)

    @contextmanager
    def _writer(self, loop: Beside, number: int) -> Iterator[Writer]:
        """Open a writer; unprepared output is dropped at the end."""
        with self.context.surroundings() as surroundings:
            opened = self.context.sink(self.sink, self.schema, surroundings)
            try:
                writer = opened.writer(number)
                try:
                    yield writer
                finally:
                    loop.run(writer.close())
            finally:
                loop.run(opened.close())

    def _number(self, partition: int) -> int:
        """Return the writer's number, unique for each attempt."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if self.writers is None:
            return context.taskAttemptId()
        tried = context.attemptNumber()
        if tried >= self.writers.tries:
            raise ConnectorError(f"a task was already tried {tried} times", "run it again")
        return partition + self.writers.beside * tried
