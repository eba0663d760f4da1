"""`headrace savepoint`: a savepoint of a running job."""

from __future__ import annotations

import click

from headrace.cli.completion import JobName
from headrace.cli.failures import unasked
from headrace.cli.pipelines import home_option


@click.command()
@click.argument("job", type=JobName())
@click.option(
    "--to",
    metavar="DIR",
    help="The savepoint's folder, which must be new or empty; by default one named after the time, "
    "among those of the job.",
)
@home_option
def savepoint(job: str, to: str | None, home: str) -> None:
    """Take a savepoint of a running job.

    JOB is the name of a pipeline or its file. The job takes a checkpoint, goes on, and writes a
    savepoint of it: a folder that is whole in itself, may be moved, and is never removed by
    headrace. Its path is printed when it is whole, alone, on standard output. A Ctrl-C ends only
    the waiting.
    """
    with unasked(job):
        from headrace.cli.control.client import client_of
        from headrace.cli.control.following import carried_out
        from headrace.cli.control.naming import place

        client = client_of(job, home)
        client.reach(f"headrace state export {client.home.name} makes one of its newest checkpoint")
    body = {} if to is None else {"to": place(to)}
    click.echo(carried_out(client, "/v1/savepoints", body)["path"])
