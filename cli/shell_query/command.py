"""`headrace query`: runs a query over files, topics and stored state, and prints its final rows."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from headrace.cli.batch.options import add_batch_options, check_options
from headrace.cli.completion import PipelineFile
from headrace.cli.errors import Refusal
from headrace.cli.garbage_collection import suspend_garbage_collection
from headrace.cli.pipeline_file import add_home_option, add_set_option, paint_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.cli.shell_query.early_files import EarlyFiles
    from headrace.cli.shell_query.pipeline import QueryInputs, ShellQuery
    from headrace.core.errors.problems import Problem
    from headrace.core.job.launch import Watcher
    from headrace.core.job.signals import SignalHandler
    from headrace.core.pipeline.loader import LoadedPipeline

FORMATS = ("table", "json", "csv", "parquet")
SUFFIXES = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}


@click.command()
@click.argument("sql")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="The form of the rows; by default that of the name of FILE, else a table.",
)
@click.option(
    "-o",
    "--to",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write to this file; - is standard output.",
)
@click.option(
    "-f",
    "--file",
    "pipeline",
    type=PipelineFile(),
    help="A pipeline whose sources and steps are tables too.",
)
@add_set_option
@click.option(
    "--follow",
    is_flag=True,
    help="Do not stop at the end of topics and watched folders, but wait for more.",
)
@click.option(
    "--skip-bad",
    is_flag=True,
    help="Leave out the records of files that do not have the guessed columns, and count them.",
)
@add_home_option
@add_batch_options("Run on Spark, with the same rows.")
@click.pass_context
def query(
    ctx: click.Context,
    sql: str,
    form: str | None,
    to: str | None,
    pipeline: str | None,
    overrides: tuple[str, ...],
    follow: bool,
    skip_bad: bool,
    home: str,
    batch: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Query files, topics and stored state in SQL.

    A table is the path of files, as in "select city, count(*) as n from 'orders/*.jsonl' group by
    city": JSON, CSV with a header, or Parquet, also .gz and .zst. Their columns are guessed. With
    -f, the sources and steps of a pipeline are tables, and kafka.TOPIC is a topic that it reads.
    JOB.STEP and 'SAVEPOINT'.STEP are the state of a step, as for headrace state query.

    The final rows are printed when all input is read; after Ctrl-C, those of the rows so far. On a
    terminal, a table shows the rows until then. JSON has an object a line. Nothing is stored.
    """
    from headrace.cli.process_limits import check_system_limits, start_polars
    from headrace.core.job.signals import SignalHandler

    check_options(ctx)
    form = form or SUFFIXES.get(os.path.splitext(to or "")[1].lower(), "table")
    _check_output(form, to)
    _check_flags(ctx)
    signals = ctx.ensure_object(ExitStack).enter_context(SignalHandler())
    with ExitStack() as reading:
        with suspend_garbage_collection():
            check_system_limits(spark=batch)
            # A thread reads the first bytes while Polars is imported.
            early = _begin_early(sql, reading, is_begun=pipeline is None and not batch)
            start_polars()
            tables = _load_tables(pipeline, overrides)
            from headrace.cli.shell_query.pipeline import QueryInputs

            inputs = QueryInputs(tables, home, follow, skip_bad, early.guesses)
            planned = _plan_query(sql, inputs)
        if batch:
            from headrace.cli.batch.query_run import run_on_spark

            bad = run_on_spark(planned, signals, master, conf)
        else:
            is_shown = form == "table" and to in (None, "-")
            bad = _run_query(planned, early, signals, is_shown=is_shown)
    _write_rows(planned, form, None if to == "-" else to)
    _report_bad_records(bad)
    if signals.count and not follow:
        click.echo("stopped: these are the rows so far", err=True)


def _check_flags(ctx: click.Context) -> None:
    """Check that flags go together. Raises UsageError."""
    if ctx.params["overrides"] and ctx.params["pipeline"] is None:
        raise click.UsageError("--set changes a pipeline, which -f names", ctx)
    if ctx.params["batch"] and ctx.params["follow"]:
        raise click.UsageError("--follow does not go with --batch, which reads what is there", ctx)


def _begin_early(sql: str, reading: ExitStack, *, is_begun: bool) -> EarlyFiles:
    """Begin to read the files of the query, before what plans it is imported; `reading` ends it."""
    from headrace.cli.shell_query.early_files import EarlyFiles, begin_early

    return reading.enter_context(begin_early(sql)) if is_begun else EarlyFiles()


def _check_output(form: str, to: str | None) -> None:
    """Check that rows can be written, before they are read. Raises Refusal."""
    if to is None or to == "-":
        if form == "parquet" and sys.stdout.isatty():
            raise Refusal("wanted a file for parquet, got a terminal", "--to FILE names it")
        return
    folder = os.path.dirname(to) or "."
    if not os.path.isdir(folder):
        raise Refusal(f"there is no folder {folder} for {to}", f"mkdir -p {folder}")
    if not os.access(to if os.path.exists(to) else folder, os.W_OK):
        raise Refusal(f"cannot write {to}: permission denied")


def _run_query(
    planned: ShellQuery, early: EarlyFiles, signals: SignalHandler, *, is_shown: bool
) -> dict[str, int]:
    """Run the query; its files are read from now on, while the modules of the run are loaded.

    Returns the number of bad records of each source.
    """
    from headrace.cli.shell_query.file_read_ahead import begin_files

    with begin_files(planned, early) as reading:
        with suspend_garbage_collection():
            from headrace.cli.shell_query.execution import run_tasks
        return run_tasks(reading, signals, _choose_watchers(reading) if is_shown else ())


def _choose_watchers(planned: ShellQuery) -> tuple[Watcher, ...]:
    """Return what draws the rows so far, if they can be drawn."""
    from functools import partial

    from headrace.cli.shell_query.live_table import can_draw, watch_rows

    return (partial(watch_rows, planned),) if can_draw() else ()


def _write_rows(planned: ShellQuery, form: str, to: str | None) -> None:
    from headrace.cli.state.sql_tables import Table
    from headrace.cli.state.table_output import write_table
    from headrace.core.types.data_types import Schema

    rows = planned.order.apply(planned.rows.take_rows(planned.schema), planned.sort)
    fields = tuple(field for field in planned.schema if field.name in rows.columns)
    write_table(Table(rows, Schema(fields)), "jsonl" if form == "json" else form, to)


def _report_bad_records(bad: Mapping[str, int]) -> None:
    """Print how many records of each source or step were left out."""
    from headrace.core.errors.rendering import format_count

    for name, number in bad.items():
        if number:
            click.echo(f"{name}: left out {format_count(number, 'bad record')}", err=True)


def _plan_query(sql: str, inputs: QueryInputs) -> ShellQuery:
    """Plan the query; print its problems, and end the command with its errors."""
    from headrace.cli.shell_query.pipeline import RejectedSql, plan_query

    try:
        planned = plan_query(sql, inputs)
    except RejectedSql as rejected:
        _print_problems(rejected.problems)
        click.get_current_context().exit(2)
    if inputs.skips_bad_records and not planned.guessed:
        raise click.UsageError(
            "--skip-bad is for files that no pipeline describes, and the query reads none; "
            "for a source of a pipeline: --set sources.NAME.on_error=skip"
        )
    _print_problems(planned.warnings)
    return planned


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
