"""`headrace explain`: what would run."""

from __future__ import annotations

from collections.abc import Sequence

import click

from headrace.cli.completion import PipelineFile
from headrace.cli.pipelines import check, painted, set_option


@click.command()
@click.argument("pipeline", type=PipelineFile())
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "dot", "json"]),
    default="text",
    help="mermaid and dot draw a graph, json is for other programs.",
)
@set_option
@click.pass_context
def explain(ctx: click.Context, pipeline: str, form: str, overrides: Sequence[str]) -> None:
    """Show what would run: steps, schemas, tasks, exchanges."""
    checked = check(pipeline, overrides)
    for problem in checked.problems:
        click.echo(painted(problem), err=True)
    if checked.plan is None or not checked.ok:
        ctx.exit(2)

    from headrace.core.plan import explain as explained

    click.echo(explained(checked.plan, form), nl=False)
