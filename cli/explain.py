"""`headrace explain`: shows the plan of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headrace.cli.batch.options import add_batch_options, check_options
from headrace.cli.completion import PipelineFile
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import add_set_option, check_pipeline, paint_problem

if TYPE_CHECKING:
    from headrace.cli.pipeline_file import CheckedPipeline
    from headrace.core.errors.problems import Problem
    from headrace.core.plan.nodes import Plan


@click.command()
@click.argument("pipeline", type=PipelineFile())
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "dot", "json"]),
    default="text",
    help="mermaid and dot draw a graph; json is for other programs.",
)
@add_set_option
@add_batch_options("Also show Spark's plan. Sources are inspected, but nothing is run.")
@click.pass_context
def explain(
    ctx: click.Context,
    pipeline: str,
    form: str,
    overrides: Sequence[str],
    batch: bool,
    master: str | None,
    conf: Sequence[str],
) -> None:
    """Show what would run: steps, schemas, tasks, exchanges."""
    check_options(ctx)
    if batch and form in ("mermaid", "dot"):
        raise click.UsageError(f"Spark's plan is text: --batch has no --format {form}", ctx)
    checked = check_pipeline(pipeline, overrides)
    _print_problems(checked.problems)
    if checked.plan is None or not checked.is_valid:
        ctx.exit(2)

    from headrace.core.plan.explain import explain as explained

    text = explained(checked.plan, form)
    text = _add_workers(text, checked, checked.plan, form, batch=batch)
    if batch:
        from headrace.cli.process_limits import check_process_limits

        check_process_limits(spark=True)
        text = _add_spark_plan(text, checked, checked.plan, form, master, conf, ctx)
    click.echo(text, nl=False)


def _print_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        click.echo(paint_problem(problem), err=True)


def _add_workers(text: str, checked: CheckedPipeline, plan: Plan, form: str, *, batch: bool) -> str:
    """Add the workers and their subtasks; in a graph they are not shown."""
    if form not in ("text", "json"):
        return text
    from headrace.cli.explain_workers import plan_workers

    workers = plan_workers(checked.pipeline, plan, batch=batch)
    if form == "text":
        lines = "" if workers.is_plain else "\n".join(("", *workers.format_lines(), ""))
        return text + lines
    import orjson

    document = {**orjson.loads(text), "workers": workers.build_document()}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _add_spark_plan(
    text: str,
    checked: CheckedPipeline,
    plan: Plan,
    form: str,
    master: str | None,
    conf: Sequence[str],
    ctx: click.Context,
) -> str:
    """Add Spark's own plan to the explanation."""
    from headrace.cli.batch.batch_run import (
        explain_on_spark,
        find_batch_problems,
        format_spark_plans,
    )
    from headrace.core.api.failures import ConnectorError, format_refusal
    from headrace.core.spark.installation import SparkUnavailable

    if refusals := find_batch_problems(checked, plan):
        _print_problems(refusals)
        ctx.exit(2)
    try:
        plans = explain_on_spark(checked, plan, master, conf)
    except SparkUnavailable as error:
        raise Refusal(error.message, error.hint, error.exit_status) from error
    except ConnectorError as error:
        raise Refusal(format_refusal(error), error.hint, error.exit_status) from error
    if form == "text":
        return text + format_spark_plans(plans)
    import orjson

    both = orjson.dumps({**orjson.loads(text), "spark": plans}, option=orjson.OPT_INDENT_2)
    return both.decode() + "\n"
