"""The run of a query at the shell on Spark."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from headrace.cli.batch.batch_run import build_executor_context
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import paint_problem
from headrace.cli.shell_query.execution import convert_refusal, end_with
from headrace.cli.shell_query.pipeline import ShellQuery
from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import Failure
from headrace.core.api.user_code import UserCodeError
from headrace.core.errors.interrupts import INTERRUPTED_STATUS
from headrace.core.job.signals import SignalHandler
from headrace.core.spark.batch_job import BatchOutcome, run_batch
from headrace.core.spark.batch_plan import find_problems
from headrace.core.spark.errors import to_failure
from headrace.core.spark.installation import SparkUnavailable
from headrace.core.spark.session import open_session
from headrace.core.spark.settings import parse_conf
from headrace.core.spark.spark_jobs import BatchCancellation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_on_spark(
    planned: ShellQuery, signals: SignalHandler, master: str | None, conf: Sequence[str]
) -> dict[str, int]:
    """Run the query as a batch on Spark; return the number of bad records of each source.

    Reports a failure, and ends the command with it.
    """
    _check_batch(planned)
    cancellation = BatchCancellation()
    try:
        with (
            signals.send_to_job(cancellation.request, end=None),
            open_session("query", master, parse_conf(conf)) as spark,
        ):
            # pyspark installs a handler of SIGINT as well.
            signals.reinstall()
            with cancellation.cancel_jobs(spark.sparkContext):
                done = _run_in_session(planned, spark)
    except SparkUnavailable as error:
        raise Refusal(error.message, error.hint, error.exit_status) from None
    except (ConnectorError, UserCodeError) as error:
        raise convert_refusal(error) from None
    if cancellation.is_requested:
        click.get_current_context().exit(INTERRUPTED_STATUS)
    if isinstance(done, Failure):
        end_with(planned, done)
    return {name: bad for name, (_, bad) in done.source_counts.items()}


def _check_batch(planned: ShellQuery) -> None:
    """Print why a batch rejects the query, and end the command."""
    problems = find_problems(planned.pipeline, planned.plan, planned.connectors)
    for problem in problems:
        click.echo(paint_problem(replace(problem, subject="")), err=True)
    if problems:
        click.get_current_context().exit(2)


def _run_in_session(planned: ShellQuery, spark: SparkSession) -> BatchOutcome | Failure:
    """Run the query; return its outcome or its failure. Raises ConnectorError, UserCodeError."""
    plan, settings = planned.plan, planned.pipeline.settings
    context = build_executor_context(
        plan, settings, planned.folder, uuid.uuid4().hex, planned.connectors
    )
    try:
        return run_batch(spark, plan, context)
    except (ConnectorError, UserCodeError):
        raise
    except Exception as error:
        # Exceptions of pyspark request their text from Java, so it is read while Java runs.
        return to_failure(error)
