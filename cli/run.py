"""`headrace run`: a pipeline, run to its end or until somebody asks it to stop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.completion import PipelineFile
from headrace.cli.pipelines import check, painted, set_option

if TYPE_CHECKING:
    from headrace.core.job import Outcome
    from headrace.core.plan import Plan


@click.command()
@click.argument("pipeline", type=PipelineFile())
@set_option
@click.option("--parallelism", type=click.IntRange(1), help="Subtasks of each part.")
@click.option("--limit", type=click.IntRange(1), help="Read only so many rows of each source.")
@click.option("--quiet", is_flag=True, help="Say nothing but what goes wrong.")
@click.pass_context
def run(
    ctx: click.Context,
    pipeline: str,
    overrides: Sequence[str],
    parallelism: int | None,
    limit: int | None,
    quiet: bool,
) -> None:
    """Run a pipeline.

    It ends when its sources do, or at the first Ctrl-C or SIGTERM, when what was read is finished
    and written; the second Ctrl-C ends it at once.
    """
    from headrace.connectors.registry import REGISTRY
    from headrace.core.contracts import ConnectorError
    from headrace.core.launch import Interrupted, launch

    if parallelism is not None:
        overrides = (*overrides, f"settings.parallelism={parallelism}")
    checked = check(pipeline, overrides)
    for problem in checked.problems:
        if problem.severity == "error" or not quiet:
            click.echo(painted(problem), err=True)
    if checked.plan is None:
        ctx.exit(2)
    try:
        outcome = launch(checked.plan, REGISTRY, Path(pipeline).parent, limit=limit)
    except ConnectorError as error:
        click.echo(f"{pipeline}: {error.message}", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
        ctx.exit(error.exit_status)
    except Interrupted:
        click.echo("stopped at once: what was not written yet is lost", err=True)
        ctx.exit(130)
    _say(pipeline, checked.plan, outcome, quiet)
    if outcome.failure:
        ctx.exit(1)


def _say(pipeline: str, plan: Plan, outcome: Outcome, quiet: bool) -> None:
    if failure := outcome.failure:
        at = f", {failure.split}" if failure.split else ""
        at += f" at {failure.position}" if failure.position is not None else ""
        click.echo(f"{pipeline}: {failure.step}{at}: {failure.message}", err=True)
        for more in (failure.hint, failure.defect):
            if more:
                click.echo(f"  {more}", err=True)
        return
    if quiet:
        return
    for part in plan:
        count = outcome.parts[part.name]
        bad = f", {count.bad} bad" if count.bad else ""
        click.echo(f"{part.name}: {count.rows_in:,} in, {count.rows_out:,} out{bad}", err=True)
    click.echo(f"{'stopped' if outcome.stopped else 'done'} in {outcome.seconds:.1f} s", err=True)
