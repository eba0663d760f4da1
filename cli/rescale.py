"""`headrace rescale`: changes the parallelism of a running job."""

from __future__ import annotations

from collections.abc import Sequence

import click

from headrace.cli.completion import JobName
from headrace.cli.failures import report_unsent
from headrace.cli.group import WholeNumber
from headrace.cli.pipelines import add_home_option


@click.command()
@click.argument("job", type=JobName())
@click.option("--parallelism", type=WholeNumber(1), help="Subtasks of each part.")
@click.option(
    "--step",
    "parts",
    metavar="NAME=N",
    multiple=True,
    help="Subtasks of one step or sink, kept by later rescales; may be repeated.",
)
@add_home_option
@click.pass_context
def rescale(
    ctx: click.Context, job: str, parallelism: int | None, parts: Sequence[str], home: str
) -> None:
    """Change the parallelism of a running job.

    JOB is the name of a pipeline or its file. The job takes a checkpoint and restarts from it with
    the new numbers of subtasks, in the same process; the length of the pause is printed. A step
    that has its own `parallelism` keeps it unless --step names it. The next run takes the
    parallelism of the file again. Ctrl-C ends only the waiting, not the rescale.
    """
    if parallelism is None and not parts:
        raise click.UsageError("wanted --parallelism, or --step, or both", ctx)
    body: dict[str, object] = {"parts": dict(_parse_part(each, ctx) for each in parts)}
    if parallelism is not None:
        body["parallelism"] = parallelism
    with report_unsent(job):
        from headrace.cli.control.client import find_client
        from headrace.cli.control.following import carry_out

        client = find_client(job, home)
        client.wait_for_job("headrace run --parallelism starts it with another parallelism")
    result = carry_out(client, "/v1/rescale", body)
    if result["checkpoint"] is None:
        click.echo(f"{client.home.name} has that parallelism already")
    else:
        click.echo(f"{client.home.name} paused for {result['stood_still_s']:.2f} s")


def _parse_part(said: str, ctx: click.Context) -> tuple[str, int]:
    """Parse a part and its number of subtasks.

    >>> _parse_part("totals=4", click.Context(rescale))
    ('totals', 4)
    """
    name, equals, number = said.partition("=")
    if not name or not equals or not number.isascii() or not number.isdigit():
        raise click.UsageError(f'--step: wanted NAME=N, as in totals=4, got "{said}"', ctx)
    return name, int(number)
