"""Sinks of a batch: one writer of the connector writes each partition, inside an executor.

Prepared output is not visible before the driver commits it, after all sinks are written. Spark may
retry a task while an earlier attempt still runs: so each attempt has its own writer, and only the
output of the attempt that Spark accepts is committed. Writers run on an event loop in a thread of
its own, which keeps running while Spark computes the next rows. On a loop that runs only while a
caller waits for it, a broker's answer would stay unread until the next rows arrive, and the request
would seem to time out.

Sinks that print are different: executors have no terminal, and printed rows cannot be taken back.
So rows stay cached in the executors until all other sinks are written. The driver then fetches them
in batches and prints them, in the order of their partitions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sinks import SinkWriter
from headrace.core.plan import nodes
from headrace.core.spark.arrow_functions import map_partitions
from headrace.core.spark.columns import Columns
from headrace.core.spark.committer import PreparedOutput
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.types.data_types import BIGINT, BINARY, INT, STRING, Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BackgroundLoop:
    """An event loop that other threads submit work to."""

    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


@contextmanager
def run_background_loop() -> Iterator[BackgroundLoop]:
    """Run a loop until the `with` ends; unfinished work is cancelled then."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever, name="headrace-loop", daemon=True)
        thread.start()
        try:
            yield BackgroundLoop(loop)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


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
    reports = done.collect()
    handles = tuple(orjson.loads(row.handle) for row in reports if row.handle is not None)
    return PreparedOutput(handles, sum(row.rows for row in reports))


def add_delete_flag(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Add the delete flag of a changelog, always false: a batch run has only final rows."""
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
        with self.context.open_run_context() as run_context:
            # Every task has both halves: there is no link to the driver.
            coordinator = self.context.open_sink(self.sink, self.schema, run_context)
            try:
                description = loop.run(coordinator.describe_for_workers())
                link = CoordinatorLink(coordinator.answer, description)
                writers = self.context.open_writers(self.sink, self.schema, run_context, link)
                writer = writers.create_writer(number)
                try:
                    yield writer
                finally:
                    loop.run(writer.close())
                    loop.run(writers.close())
            finally:
                loop.run(coordinator.close())

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


PACKED_COLUMNS: Columns = {"part": INT, "at": BIGINT, "rows": BIGINT, "data": BINARY}


ROWS_PER_PACK = 20_000
"""Rows that are packed into one."""


FETCH_BYTES = 64 << 20
"""Bytes that are fetched to the driver at a time, approximately."""


@dataclass(frozen=True, slots=True)
class PackedRows:
    """All rows of a printing sink, computed and cached in the executors."""

    packed_frame: DataFrame
    rows: int
    bytes: int

    def fetch_frames(self) -> Iterator[pl.DataFrame]:
        """Fetch the rows, in order."""
        import polars as pl

        many = 1 + self.bytes // FETCH_BYTES
        ranged = self.packed_frame.repartitionByRange(many, "part", "at")
        for row in ranged.sortWithinPartitions("part", "at").toLocalIterator():
            yield pl.read_ipc_stream(BytesIO(row.data))


def pack_rows(rows: DataFrame, sink: str) -> PackedRows:
    """Compute the rows of a sink, and cache them."""
    (packed,) = map_partitions(rows, sink, _pack_partition, [PACKED_COLUMNS])
    packed = packed.persist()
    (made,) = packed.selectExpr("sum(rows) AS rows", "sum(octet_length(data)) AS bytes").collect()
    return PackedRows(packed, made.rows or 0, made.bytes or 0)


def _pack_partition(
    partition: int, frames: Iterator[pl.DataFrame]
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Pack many rows into one (a `PartitionFunction`)."""
    at = 0
    for frame in frames:
        for some in frame.iter_slices(ROWS_PER_PACK):
            yield 0, _pack_frame(partition, at, some)
            at += 1


def _pack_frame(partition: int, at: int, rows: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    data = BytesIO()
    rows.write_ipc_stream(data, compression="zstd")
    one = {"part": [partition], "at": [at], "rows": [rows.height], "data": [data.getvalue()]}
    return pl.DataFrame(one)
