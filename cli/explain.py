"""`headrace explain`: shows the plan of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headrace.cli.batch.options import batch_options, check_options
from headrace.cli.completion import PipelineFile
from headrace.cli.failures import Refusal
from headrace.cli.pipelines import check, painted, set_option

if TYPE_CHECKING:
    from headrace.cli.pipelines import Checked
    from headrace.core.plan import Plan
    from headrace.core.problems import Problem


@click.command()
@click.argument("pipeline", type=PipelineFile())
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "dot", "json"]),
    default="text",
    help="mermaid and dot draw a graph; json is for other programs.",
)
@set_option
@batch_options("Also show Spark's plan. Sources are inspected, but nothing is run.")
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
    checked = check(pipeline, overrides)
    _said(checked.problems)
    if checked.plan is None or not checked.ok:
        ctx.exit(2)

    from headrace.core.plan import explain as explained

    text = explained(checked.plan, form)
    if batch:
        text = _with_spark(text, checked, checked.plan, form, master, conf, ctx)
    click.echo(text, nl=False)


def _said(problems: Sequence[Problem]) -> None:
    for problem in problems:
        click.echo(painted(problem), err=True)


def _with_spark(
    text: str,
    checked: Checked,
    plan: Plan,
    form: str,
    master: str | None,
    conf: Sequence[str],
    ctx: click.Context,
) -> str:
    """Add Spark's own plan to the explanation."""
    from headrace.cli.batch.explaining import as_text, on_spark
    from headrace.cli.batch.running import refused
    from headrace.core.contracts import ConnectorError
    from headrace.core.spark.absent import NoSpark
    from headrace.core.telling import refusal

    if refusals := refused(checked, plan):
        _said(refusals)
        ctx.exit(2)
    try:
        plans = on_spark(checked, plan, master, conf)
    except NoSpark as error:
        raise Refusal(error.message, error.hint, error.exit_status) from error
    except ConnectorError as error:
        raise Refusal(refusal(error), error.hint, error.exit_status) from error
    if form == "text":
        return text + as_text(plans)
    import orjson

    both = orjson.dumps({**orjson.loads(text), "spark": plans}, option=orjson.OPT_INDENT_2)
    return both.decode() + "\n"
