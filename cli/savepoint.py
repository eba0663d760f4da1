"""`headrace savepoint`: takes a savepoint of a running job."""

from __future__ import annotations

import click

from headrace.cli.completion import JobName
from headrace.cli.failures import report_unsent
from headrace.cli.pipelines import add_home_option


@click.command()
@click.argument("job", type=JobName())
@click.option(
    "--to",
    metavar="DIR",
    help="The savepoint's folder, which must be new or empty; by default a folder among the job's "
    "savepoints, named after the time.",
)
@add_home_option
def savepoint(job: str, to: str | None, home: str) -> None:
    """Take a savepoint of a running job.

    JOB is the name of a pipeline or its file. The job takes a checkpoint, and writes a savepoint
    of it while it continues. A savepoint is a self-contained folder that may be moved, and that
    headrace never removes. When it is complete, its path alone is printed on standard output.
    Ctrl-C ends only the waiting, not the savepoint.
    """
    with report_unsent(job):
        from headrace.cli.control.client import find_client
        from headrace.cli.control.following import carry_out
        from headrace.cli.control.naming import resolve_savepoint_folder

        client = find_client(job, home)
        export = f"headrace state export {client.home.name}"
        client.wait_for_job(f"{export} makes a savepoint of its newest checkpoint")
    body = {} if to is None else {"to": resolve_savepoint_folder(to)}
    click.echo(carry_out(client, "/v1/savepoints", body)["path"])
