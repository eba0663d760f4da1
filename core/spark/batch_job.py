"""A batch run: its input is fixed, sinks are written one by one, and all output is committed.

It can also be explained without being run, sink by sink: a `MapInArrow` in Spark's plan is
headrace's code in an executor, named after its part of the pipeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.checkpoint.connector_documents import check_handles
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.plan import nodes
from headrace.core.plan.connector import SinkSide
from headrace.core.spark import committer
from headrace.core.spark.batch_plan import to_batch_plan
from headrace.core.spark.committer import BatchCommitLog, EphemeralCommitLog, PreparedOutput
from headrace.core.spark.dataframe_builder import DataFrameBuilder
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.spark.loop_checkpoints import LoopCheckpoints
from headrace.core.spark.sinks import (
    PackedRows,
    WriterLimits,
    add_delete_flag,
    pack_rows,
    write_partitions,
)
from headrace.core.spark.sources import (
    BatchCounts,
    SourceCounts,
    SourceInput,
    check_files_unchanged,
    create_counts,
    find_inputs,
)
from headrace.core.spark.spark_jobs import limit_writers, wait_for_tasks
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.connectors import OpenConnectors, open_connectors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.core.api.user_metrics import MetricValues


LineSink = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of a batch."""

    sink_rows: Mapping[str, int]
    """Rows written to each sink."""
    source_counts: Mapping[str, SourceCounts] = field(default_factory=dict)
    """Rows and bad records of each source."""
    metrics: Mapping[str, MetricValues] = field(default_factory=dict)
    """The metrics of loops, by step."""


def _ignore_line(line: str) -> None:
    """Ignore the line."""


def complete_previous_run(
    plan: nodes.Plan,
    context: ExecutorContext,
    log: BatchCommitLog,
    report: LineSink = _ignore_line,
    *,
    fresh: bool = False,
) -> BatchOutcome | None:
    """Complete the commit of a previous run that had written everything; None if there is none.

    If `fresh`, its uncommitted output is dropped instead. Raises ConnectorError.
    """
    if not (is_over := log.is_finished()) and log.read_record() is None:
        return None
    record = log.read_record()
    written = {} if record is None else committer.decode_record(record)
    if not fresh:
        _check_written(written, plan, context, log)
    with _open_connectors(plan, context, log, report) as (runner, ends, *_):
        if fresh and not is_over:
            runner.run(committer.remove_uncommitted(ends))
            log.forget()
            return None
        if not is_over:
            runner.run(committer.complete_commit(ends, written))
        runner.run(committer.finish_batch(ends, log))
    return BatchOutcome({name: each.rows for name, each in written.items()})


def _check_written(
    written: Mapping[str, committer.PreparedOutput],
    plan: nodes.Plan,
    context: ExecutorContext,
    log: BatchCommitLog,
) -> None:
    """Check the output that a previous run recorded. Raises DamagedSnapshot."""
    for part in plan:
        if isinstance(part, nodes.Sink) and part.name in written:
            handles = written[part.name].handles
            check_handles(part, handles, context.connectors, log.record_path, committer.FRESH_HINT)


def check_output(
    plan: nodes.Plan, context: ExecutorContext, log: BatchCommitLog, report: LineSink = _ignore_line
) -> None:
    """Check before Spark is started that output can be written. Raises ConnectorError.

    Sinks that count writers are left out: Spark knows the number.
    """
    with _open_connectors(to_batch_plan(plan), context, log, report) as (runner, ends, *_):
        sinks = (part for part in plan if isinstance(part, nodes.Sink))
        ready = [s.name for s in sinks if not sink_side(s, context).needs_writer_count]
        runner.run(ends.check_sinks(ready))


def run_batch(
    spark: SparkSession,
    plan: nodes.Plan,
    context: ExecutorContext,
    report: LineSink = _ignore_line,
    log: BatchCommitLog | None = None,
    checkpoint_every_s: float | None = None,
    metrics: dict[str, MetricValues] | None = None,
) -> BatchOutcome:
    """Run a plan once over all existing rows. Raises ConnectorError before anything is read.

    `metrics` takes those of loops, by step, while they run.

    However it ends, no task is left running, and no partial output remains. The rounds of loops are
    stored in the log with this time between them at least; None: never.
    """
    log = log or EphemeralCommitLog()
    checkpoints = LoopCheckpoints(spark, log, checkpoint_every_s, report)
    plan = _set_writer_counts(to_batch_plan(plan), context, limit_writers(spark.sparkContext))
    with _open_connectors(plan, context, log, report) as (
        runner,
        ends,
        run_context,
        seen,
    ):
        counted = create_counts(spark)
        to_read = runner.run(_check_and_find_inputs(ends, spark, plan, context, counted))
        checkpoints.open(plan, to_read, context.folder)
        noted = {name: note for name in ends.sinks if (note := log.notes.read(name)) is not None}
        read_streams = frozenset(edge.stream for edge in plan.edges)
        there = replace(context, job=log.job, sink_notes=noted, read_streams=read_streams)
        try:
            metrics = {} if metrics is None else metrics
            sinks = _SinkPass(
                spark, plan, there, runner, ends, run_context, seen, checkpoints, metrics
            )
            written = sinks.write_sinks(to_read)
        except BaseException:
            wait_for_tasks(spark.sparkContext)
            runner.run(committer.remove_uncommitted(ends))
            raise
        finally:
            with suppress(Exception):  # Spark itself may have ended
                spark.catalog.clearCache()
        wait_for_tasks(spark.sparkContext)
        runner.run(committer.commit_output(ends, log, written))
        checkpoints.close()
    names = [part.name for part in plan if isinstance(part, nodes.Sink)]
    sink_rows = {name: written[name].rows for name in names}
    return BatchOutcome(sink_rows, _count_sources(plan, counted), metrics)


def _count_sources(plan: nodes.Plan, counted: BatchCounts) -> dict[str, SourceCounts]:
    """Return the counts of each source in the order of the file, including empty sources."""
    counts = counted.sum_by_source()
    sources = (part.name for part in plan if isinstance(part, nodes.Source))
    return {name: counts.get(name, SourceCounts(0, 0)) for name in sources}


@dataclass(slots=True)
class _PrintStatus:
    """Whether the reader of printed rows has gone away."""

    is_closed: bool = False

    def stop(self) -> None:
        """Stop printing: the reader has gone away."""
        self.is_closed = True


@contextmanager
def _open_connectors(
    plan: nodes.Plan, context: ExecutorContext, log: BatchCommitLog, report: LineSink
) -> Iterator[tuple[asyncio.Runner, OpenConnectors, RunContext, _PrintStatus]]:
    """Open the driver's sources and sinks."""
    seen = _PrintStatus()
    with asyncio.Runner() as runner, ThreadPoolExecutor(2) as threads:
        run_context = RunContext(
            context.folder,
            log.job,
            KernelExecutor(threads),
            request_stop=seen.stop,
            pipeline_name=context.pipeline,
            notes=log.notes,
            notify_user=report,
        )
        ends = open_connectors(plan, context.connectors, run_context)
        try:
            yield runner, ends, run_context, seen
        finally:
            runner.run(ends.close())


def sink_side(sink: nodes.Sink, context: ExecutorContext) -> SinkSide:
    """Return the sink side of the sink's connector."""
    side = context.connectors[sink.connector].sink
    assert side is not None
    return side


def _set_writer_counts(
    plan: nodes.Plan, context: ExecutorContext, counted: WriterLimits
) -> nodes.Plan:
    """Set the parallelism of sinks that count writers to the number of possible writers."""
    parts = (
        replace(part, parallelism=counted.total)
        if isinstance(part, nodes.Sink) and sink_side(part, context).needs_writer_count
        else part
        for part in plan
    )
    return replace(plan, parts=tuple(parts))


async def _check_and_find_inputs(
    ends: OpenConnectors,
    spark: SparkSession,
    plan: nodes.Plan,
    context: ExecutorContext,
    counted: BatchCounts,
) -> dict[str, SourceInput]:
    """Check that output can be written, then find the input."""
    await ends.check_sinks()
    return await find_inputs(spark, plan, context, counted)


@dataclass(slots=True)
class _SinkPass:
    """One pass over the sinks of a plan: write all rows, then print those of printing sinks."""

    spark: SparkSession
    plan: nodes.Plan
    context: ExecutorContext
    runner: asyncio.Runner
    connectors: OpenConnectors
    run_context: RunContext
    print_status: _PrintStatus
    checkpoints: LoopCheckpoints
    metrics: dict[str, MetricValues]
    """The metrics of loops, by step."""

    def write_sinks(self, to_read: Mapping[str, SourceInput]) -> dict[str, PreparedOutput]:
        """Write all sinks; return the output to commit, in commit order."""
        rows = DataFrameBuilder(
            self.spark, self.plan, self.context, to_read, self.checkpoints, self.metrics
        ).build()
        printables: dict[str, PackedRows] = {}
        written: dict[str, PreparedOutput] = {}
        for sink in self._order_sinks():
            self.spark.sparkContext.setJobDescription(f"sink {sink.name}")
            if sink_side(sink, self.context).prints_rows:
                printables[sink.name] = pack_rows(rows[sink.name], sink.name)
            else:
                written[sink.name] = self._write_sink(sink, rows[sink.name])
        check_files_unchanged(to_read)
        for name, each in printables.items():
            self._print_rows(name, each)
        # Sinks that may reject a commit for good come first, while nothing is committed yet.
        return dict(reversed(written.items())) | {
            name: PreparedOutput((), each.rows) for name, each in printables.items()
        }

    def _order_sinks(self) -> list[nodes.Sink]:
        """Order the sinks: those with open transactions or directly visible output come last."""
        sinks = [part for part in self.plan if isinstance(part, nodes.Sink)]
        return sorted(sinks, key=lambda sink: sink_side(sink, self.context).needs_writer_count)

    def _write_sink(self, sink: nodes.Sink, rows: DataFrame) -> PreparedOutput:
        side, schema = sink_side(sink, self.context), self.plan.streams[sink.input].sink_schema
        counted = limit_writers(self.spark.sparkContext) if side.needs_writer_count else None
        done = write_partitions(rows, sink, schema, self.context, counted)
        return replace(done, handles=side.merge_handles(done.handles))

    def _print_rows(self, name: str, rows: PackedRows) -> None:
        sink = self.plan.part(name)
        assert isinstance(sink, nodes.Sink)
        schema = self.plan.streams[sink.input].sink_schema
        coordinator = self.connectors.sinks[name]
        link = CoordinatorLink(coordinator.answer)
        writers = self.context.open_writers(sink, schema, self.run_context, link)
        writer = writers.create_writer(0)
        with attribute_errors_to(name):
            for frame in rows.fetch_frames():
                self.runner.run(writer.write(add_delete_flag(frame, schema)))
                if self.print_status.is_closed:
                    break


def explain_sinks(
    spark: SparkSession, plan: nodes.Plan, context: ExecutorContext
) -> dict[str, str]:
    """Return Spark's physical plan of the rows of each sink. Raises ConnectorError.

    Sources are inspected but not read: how a file is read depends on its format.
    """
    plan = to_batch_plan(plan)
    context = replace(context, read_streams=frozenset(edge.stream for edge in plan.edges))
    to_read = asyncio.run(find_inputs(spark, plan, context, create_counts(spark)))
    rows = DataFrameBuilder(spark, plan, context, to_read).build()
    return {name: _format_plan(spark, frame) for name, frame in rows.items()}


def _format_plan(spark: SparkSession, rows: DataFrame) -> str:
    """Return the text that `explain` of a DataFrame prints."""
    java = spark.sparkContext._jvm
    assert java is not None
    text: str = java.PythonSQLUtils.explainString(rows._jdf.queryExecution(), "simple")
    return text.strip()
