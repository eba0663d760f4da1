"""A batch run: its input is fixed, sinks are written one by one, and all output is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.core.bench import Bench
from headrace.core.blame import blamed
from headrace.core.connector import SinkSide
from headrace.core.contracts import Surroundings
from headrace.core.ends import Ends, open_ends
from headrace.core.plan import nodes
from headrace.core.spark import committing
from headrace.core.spark.build import Building
from headrace.core.spark.committing import Kept, NothingKept, Written
from headrace.core.spark.counts import Counts, Read, counts
from headrace.core.spark.inside import Inside
from headrace.core.spark.planning import of_batch
from headrace.core.spark.printing import Printable, printable
from headrace.core.spark.reading import Found, found
from headrace.core.spark.tries import quiet, writers
from headrace.core.spark.unchanged import check_unchanged
from headrace.core.spark.writing import Writers, complete, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a batch."""

    rows: Mapping[str, int]
    """Rows written to each sink."""
    read: Mapping[str, Read] = field(default_factory=dict)
    """Rows and bad records of each source."""


def _silent(line: str) -> None:
    """Ignore the line."""


def completed(
    plan: nodes.Plan, context: Inside, log: Kept, tell: Tell = _silent, *, fresh: bool = False
) -> Outcome | None:
    """Complete the commit of a previous run that had written everything; None if there is none.

    If `fresh`, its uncommitted output is dropped instead. Raises ConnectorError.
    """
    if not (is_over := log.finished()) and log.recorded() is None:
        return None
    written = {} if (said := log.recorded()) is None else committing.read(said)
    with _opened(plan, context, log, tell) as (runner, ends, _):
        if fresh and not is_over:
            runner.run(committing.sweep(ends))
            log.forget()
            return None
        if not is_over:
            runner.run(committing.complete(ends, written))
        runner.run(committing.end(ends, log))
    return Outcome({name: each.rows for name, each in written.items()})


def run_batch(
    spark: SparkSession,
    plan: nodes.Plan,
    context: Inside,
    tell: Tell = _silent,
    log: Kept | None = None,
) -> Outcome:
    """Run a plan once over all existing rows. Raises ConnectorError before anything is read.

    However it ends, no task is left running, and no partial output remains.
    """
    log = log or NothingKept()
    plan = _counted(of_batch(plan), context, writers(spark.sparkContext))
    with _opened(plan, context, log, tell) as (runner, ends, seen):
        counted = counts(spark)
        to_read = runner.run(_begun(ends, spark, plan, context, counted))
        noted = {name: note for name in ends.sinks if (note := log.notes.read(name)) is not None}
        there = replace(context, job=log.job, noted=noted)
        try:
            written = _Writing(spark, plan, there, runner, ends, seen).all(to_read)
        except BaseException:
            quiet(spark.sparkContext)
            runner.run(committing.sweep(ends))
            raise
        finally:
            with suppress(Exception):  # Spark itself may have ended
                spark.catalog.clearCache()
        quiet(spark.sparkContext)
        runner.run(committing.commit(ends, log, written))
    sinks = [part.name for part in plan if isinstance(part, nodes.Sink)]
    return Outcome({name: written[name].rows for name in sinks}, _read(plan, counted))


def _read(plan: nodes.Plan, counted: Counts) -> dict[str, Read]:
    """Return the counts of each source in the order of the file, including empty sources."""
    given = counted.by_source()
    sources = (part.name for part in plan if isinstance(part, nodes.Source))
    return {name: given.get(name, Read(0, 0)) for name in sources}


@dataclass(slots=True)
class _Seen:
    """Whether the reader of printed rows has gone away."""

    over: bool = False

    def stop(self) -> None:
        """Stop printing: the reader has gone away."""
        self.over = True


@contextmanager
def _opened(
    plan: nodes.Plan, context: Inside, log: Kept, tell: Tell
) -> Iterator[tuple[asyncio.Runner, Ends, _Seen]]:
    """Open the driver's sources and sinks."""
    seen = _Seen()
    with asyncio.Runner() as runner, ThreadPoolExecutor(2) as threads:
        surroundings = Surroundings(
            context.folder,
            log.job,
            Bench(threads),
            stop=seen.stop,
            pipeline=context.pipeline,
            notes=log.notes,
            tell=tell,
        )
        ends = open_ends(plan, context.connectors, surroundings)
        try:
            yield runner, ends, seen
        finally:
            runner.run(ends.close())


def side_of(sink: nodes.Sink, context: Inside) -> SinkSide:
    """Return the sink side of the sink's connector."""
    side = context.connectors[sink.connector].sink
    assert side is not None
    return side


def _counted(plan: nodes.Plan, context: Inside, counted: Writers) -> nodes.Plan:
    """Set the parallelism of sinks that count writers to the number of possible writers."""
    parts = (
        replace(part, parallelism=counted.all)
        if isinstance(part, nodes.Sink) and side_of(part, context).counts_writers
        else part
        for part in plan
    )
    return replace(plan, parts=tuple(parts))


async def _begun(
    ends: Ends, spark: SparkSession, plan: nodes.Plan, context: Inside, counted: Counts
) -> dict[str, Found]:
    """Check that output can be written, then find the input."""
    await ends.check_sinks()
    return await found(spark, plan, context, counted)


@dataclass(slots=True)
class _Writing:
    """One pass over the sinks of a plan: write all rows, then print those of printing sinks."""

    spark: SparkSession
    plan: nodes.Plan
    context: Inside
    runner: asyncio.Runner
    ends: Ends
    seen: _Seen

    def all(self, to_read: Mapping[str, Found]) -> dict[str, Written]:
        """Write all sinks; return the output to commit, in commit order."""
        rows = Building(self.spark, self.plan, self.context, to_read).build()
        printables: dict[str, Printable] = {}
        written: dict[str, Written] = {}
        for sink in self._in_turn():
            self.spark.sparkContext.setJobDescription(f"sink {sink.name}")
            if side_of(sink, self.context).prints:
                printables[sink.name] = printable(rows[sink.name], sink.name)
            else:
                written[sink.name] = self._written(sink, rows[sink.name])
        check_unchanged(to_read)
        for name, each in printables.items():
            self._print(name, each)
        # Sinks that may reject a commit for good come first, while nothing is committed yet.
        return dict(reversed(written.items())) | {
            name: Written((), each.rows) for name, each in printables.items()
        }

    def _in_turn(self) -> list[nodes.Sink]:
        """Order the sinks: those with open transactions or directly visible output come last."""
        sinks = [part for part in self.plan if isinstance(part, nodes.Sink)]
        return sorted(sinks, key=lambda sink: side_of(sink, self.context).counts_writers)

    def _written(self, sink: nodes.Sink, rows: DataFrame) -> Written:
        side, schema = side_of(sink, self.context), self.plan.streams[sink.input].written
        counted = writers(self.spark.sparkContext) if side.counts_writers else None
        done = write(rows, sink, schema, self.context, counted)
        return replace(done, handles=side.together(done.handles))

    def _print(self, name: str, rows: Printable) -> None:
        sink = self.plan.part(name)
        assert isinstance(sink, nodes.Sink)
        schema = self.plan.streams[sink.input].written
        writer = self.ends.sinks[name].writer(0)
        with blamed(name):
            for frame in rows.frames():
                self.runner.run(writer.write(complete(frame, schema)))
                if self.seen.over:
                    break
