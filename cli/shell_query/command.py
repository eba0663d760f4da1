"""`headrace query`: runs a query over files, and prints its final rows."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from headrace.cli.completion import PipelineFile
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import add_set_option, paint_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.cli.shell_query.pipeline import ShellQuery
    from headrace.core.errors.problems import Problem
    from headrace.core.job.signals import SignalHandler
    from headrace.core.pipeline.loader import LoadedPipeline

FORMATS = ("table", "json", "csv", "parquet")


@click.command()
@click.argument("sql")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--to", metavar="FILE", type=click.Path(dir_okay=False), help="Write to this file.")
@click.option(
    "-f",
    "--file",
    "pipeline",
    type=PipelineFile(),
    help="A pipeline whose sources and steps are tables too.",
)
@add_set_option
@click.pass_context
def query(
    ctx: click.Context,
    sql: str,
    form: str,
    to: str | None,
    pipeline: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Query files in SQL.

    A table is the path of files, as in "select city, count(*) as n from 'orders/*.jsonl' group by
    city": JSON, CSV with a header, or Parquet, also .gz and .zst. Their columns are guessed from
    the first file. With -f, the sources and steps of a pipeline are tables as well.

    The final rows are printed when all input is read; after Ctrl-C, those of the rows so far. JSON
    has an object a line. Nothing is stored.
    """
    from headrace.cli.process_limits import check_process_limits
    from headrace.core.job.signals import SignalHandler

    if form == "parquet" and to is None:
        raise Refusal("wanted a file for parquet", "--to FILE names it")
    if overrides and pipeline is None:
        raise click.UsageError("--set changes a pipeline, which -f names", ctx)
    signals = ctx.ensure_object(ExitStack).enter_context(SignalHandler())
    check_process_limits()
    from headrace.cli.shell_query.pipeline import RejectedSql, plan_query
    from headrace.cli.state.sql_tables import Table
    from headrace.cli.state.table_output import write_table
    from headrace.core.types.data_types import Schema

    given = _load_tables(pipeline, overrides)
    try:
        planned = plan_query(sql, given)
    except RejectedSql as rejected:
        _print_problems(rejected.problems)
        ctx.exit(2)
    _print_problems(planned.warnings)
    _run_job(planned, signals, ctx)
    rows = planned.order.apply(planned.rows.take_rows(planned.schema), planned.sort)
    fields = tuple(field for field in planned.schema if field.name in rows.columns)
    write_table(Table(rows, Schema(fields)), "jsonl" if form == "json" else form, to)


def _load_tables(path: str | None, overrides: Sequence[str]) -> LoadedPipeline | None:
    """Load the pipeline whose parts are tables; print its errors and end the command."""
    if path is None:
        return None
    from headrace.connectors.registry import REGISTRY
    from headrace.core.pipeline.loader import load_pipeline

    loaded = load_pipeline(path, REGISTRY, overrides=overrides)
    if not loaded.is_valid:
        _print_problems(loaded.problems)
        click.get_current_context().exit(2)
    return loaded


def _print_problems(problems: Iterable[Problem]) -> None:
    for problem in problems:
        click.echo(paint_problem(problem), err=True)


def _run_job(planned: ShellQuery, signals: SignalHandler, ctx: click.Context) -> None:
    """Run the job to its end; report a failure and end the command."""
    from tempfile import TemporaryDirectory

    from headrace.cli.run_report import choose_report
    from headrace.connectors.standard_output import redirect_prints
    from headrace.core.api.failures import ConnectorError, format_refusal
    from headrace.core.api.user_code import UserCodeError
    from headrace.core.job.launch import JobInterrupted, LaunchOptions, launch_job
    from headrace.core.job.signals import INTERRUPTED_STATUS
    from headrace.state.backends import open_backend

    report = choose_report("query", "text", quiet=True)
    launch = LaunchOptions(planned.folder, signals=signals)
    try:
        with TemporaryDirectory(prefix="headrace-") as folder, redirect_prints():
            backend = open_backend(planned.pipeline.settings.state, folder)
            outcome = launch_job(planned.plan, planned.connectors, backend, launch)
    except ConnectorError as error:
        raise Refusal(format_refusal(error), error.hint, error.exit_status) from None
    except UserCodeError as error:
        raise Refusal(error.message, error.hint) from None
    except JobInterrupted:
        ctx.exit(INTERRUPTED_STATUS)
    if outcome.failure:
        report.report_failure(outcome.failure)
        ctx.exit(1)
