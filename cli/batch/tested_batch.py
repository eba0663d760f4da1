"""The tests of pipelines on Spark: the rows of a test as bounded inputs, in one session for all.

Tests: tests/core/spark/test_pipeline_tests.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from headrace.cli.batch.batch_run import build_executor_context
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_tests.case_run import CaseRunner
from headrace.cli.pipeline_tests.fed_source import FED, FedInput, build_fed_connector
from headrace.cli.pipeline_tests.isolated_plan import MEMORY, SINK_SUFFIX, Planner
from headrace.cli.pipeline_tests.report import CaseResult
from headrace.cli.pipeline_tests.runner import Variant, VariantRun
from headrace.cli.pipeline_tests.simulated_job import SimulatedJob
from headrace.connectors.collected_rows import CollectedRows, CollectedRowsOptions
from headrace.connectors.memory import MemoryOptions
from headrace.connectors.memory_lookup import LookupTableData, MemoryLookupTable
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.api.user_code import UserCodeError
from headrace.core.pipeline.model import Pipeline
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, LookupSide
from headrace.core.plan.layout import build_edges
from headrace.core.plan.nodes import Plan
from headrace.core.spark.batch_job import run_batch
from headrace.core.spark.batch_plan import find_step_problems
from headrace.core.spark.errors import to_failure
from headrace.core.spark.installation import SparkUnavailable
from headrace.core.spark.session import open_session
from headrace.core.testing.bound_tests import BoundTest, Expected
from headrace.core.testing.stream_checks import Mismatch, check_rows
from headrace.core.testing.whole_results import NeedsTime, WholeResult, merge_expectations
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON_SPARK = "on Spark"


@contextmanager
def open_spark_tests() -> Iterator[SparkTests]:
    """Run tests on one Spark, which starts with the first test that it can run.

    Raises Refusal if it cannot start.
    """
    with ExitStack() as session:
        try:
            yield SparkTests(cache(lambda: session.enter_context(open_session("test"))))
        except SparkUnavailable as error:
            raise Refusal(error.message, error.hint, error.exit_status) from None


@dataclass(frozen=True, slots=True)
class SparkTests:
    """The session in which tests of any pipeline run."""

    start_spark: Callable[[], SparkSession]

    def build_run(
        self, here: CaseRunner, pipeline: Pipeline, *, is_also_here: bool
    ) -> Callable[[BoundTest], CaseResult]:
        """Return what runs a test of a pipeline, perhaps after it has passed here."""
        first = here if is_also_here else None
        return BatchCaseRunner(here.file, pipeline, here.planner, self.start_spark, first).run


@dataclass(frozen=True, slots=True)
class BatchCaseRunner:
    """Runs the tests of one pipeline on Spark."""

    file: str
    pipeline: Pipeline
    planner: Planner
    start_spark: Callable[[], SparkSession]
    first: CaseRunner | None = None
    """Runs each test before Spark does; None: it runs on Spark only."""

    def run(self, test: BoundTest) -> CaseResult:
        """Run a test; one that fails here is not run on Spark."""
        if self.first is None:
            return self._run(test)
        here = self.first.run(test)
        if here.mismatches:
            return here
        there = self._run(test)
        if there.skipped:
            return replace(here, skipped=there.skipped, has_run_here=True)
        return replace(there, seconds=here.seconds + there.seconds)

    def _run(self, test: BoundTest) -> CaseResult:
        """Run a test, unless it needs time between its events."""
        start = time.perf_counter()
        result = CaseResult(self.file, test.test.name.reveal(), 0.0)
        plan = self.planner.feed(test.fed_streams, test.streams).plan(1)
        try:
            expected = merge_expectations(test)
            self._check_steps(plan)
            fed = self._feed_job(test)
        except NeedsTime as reason:
            return replace(result, skipped=str(reason))
        mismatches = tuple(self._compare(test, plan, expected, fed))
        seconds = time.perf_counter() - start
        return replace(result, mismatches=mismatches, seconds=seconds, variant=ON_SPARK)

    def _check_steps(self, plan: Plan) -> None:
        """Raise NeedsTime if a batch rejects a step."""
        for problem in find_step_problems(self.pipeline, plan):
            raise NeedsTime(f"{problem.subject}: {problem.message}")

    def _feed_job(self, test: BoundTest) -> SimulatedJob:
        """Return a job that was given all events. Raises NeedsTime if rows are late in it."""
        events = tuple(each for each in test.events if not isinstance(each[1], Expected))
        run = VariantRun(replace(test, events=events), self.planner, Variant("", 1), 0)
        run.run()
        if run.job.count("late_rows"):
            raise NeedsTime("rows are late, and no row of a batch is")
        return run.job

    def _compare(
        self, test: BoundTest, plan: Plan, expected: WholeResult, fed: SimulatedJob
    ) -> Iterator[Mismatch]:
        names = [each.stream.name for each in expected.streams]
        tables = {name: CollectedRows() for name in names or _list_sink_streams(plan)}
        failure = self._run_batch(plan, tables, fed)
        for text in expected.failures:
            if text.reveal() not in failure:
                got = f"it failed with: {failure}" if failure else "it did not fail"
                message = f'the job was expected to fail with "{text}", and {got}'
                yield Mismatch(text.locate(), message)
        if failure and not expected.failures:
            hint = "expect: {fails: ...} expects it"
            yield Mismatch(test.test.location, f"the job has failed: {failure}", hint=hint)
        for each in () if failure else expected.streams:
            rows = tables[each.stream.name].take_rows(each.stream.schema).to_dicts()
            yield from check_rows(each, rows, is_ordered=False)

    def _run_batch(self, plan: Plan, tables: Mapping[str, CollectedRows], fed: SimulatedJob) -> str:
        """Run a plan over the events of a job; return the message with which it fails."""
        inputs = {name: FedInput(each.splits, each.no_rows) for name, each in fed.inputs.items()}
        lookups = {step: LookupTableData(rows) for step, rows in fed.tables.items()}
        connectors = {
            FED: build_fed_connector(inputs),
            MEMORY: _build_lookup_connector(lookups),
            **{_name_connector(name): t.build_connector(name) for name, t in tables.items()},
        }
        plan, folder = _collect_rows(plan, tables), self.planner.folder
        settings = self.pipeline.settings
        context = build_executor_context(plan, settings, folder, "0" * 32, connectors)
        spark = self.start_spark()
        try:
            run_batch(spark, plan, context)
        except (ConnectorError, UserCodeError) as error:
            return str(error)
        except Exception as error:
            failed = to_failure(error)
            return f"{failed.step}: {failed.message}" if failed.step else failed.message
        return ""


def _list_sink_streams(plan: Plan) -> list[str]:
    return [p.name.removesuffix(SINK_SUFFIX) for p in plan if isinstance(p, nodes.Sink)]


def _name_connector(stream: str) -> str:
    return f"rows of {stream}"


def _collect_rows(plan: Plan, tables: Mapping[str, CollectedRows]) -> Plan:
    """Return the plan whose sinks collect the rows of these streams in this process."""
    parts = list[nodes.PlanPart]()
    for part in plan:
        if not isinstance(part, nodes.Sink):
            parts.append(part)
            continue
        stream = part.name.removesuffix(SINK_SUFFIX)
        if stream in tables:
            tables[stream].kind = plan.streams[part.input].kind
            connector, options = _name_connector(stream), CollectedRowsOptions()
            parts.append(replace(part, connector=connector, options=options))
    return replace(plan, parts=tuple(parts), edges=build_edges(parts))


def _build_lookup_connector(tables: Mapping[str, LookupTableData]) -> Connector:
    """Build the connector of the lookup tables that a test gives."""

    def open_table(lookup: nodes.Lookup, context: RunContext) -> MemoryLookupTable:
        assert isinstance(lookup.options, MemoryOptions)
        return MemoryLookupTable(lookup, tables[str(lookup.options.data)])

    async def describe(lookup: nodes.Lookup, context: RunContext) -> str:
        return "it is there"

    side = LookupSide(MemoryOptions, open=open_table, describe_external=describe)
    return Connector(MEMORY, "Rows of a test.", lookup=side)
