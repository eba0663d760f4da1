"""`headrace stop`: the end of a running job, to go on later."""

from __future__ import annotations

import click

from headrace.cli.completion import JobName
from headrace.cli.pipelines import home_option

OWN = ""
"""`--savepoint` without a folder."""


@click.command()
@click.argument("job", type=JobName())
@click.option(
    "--savepoint",
    "to",
    metavar="[DIR]",
    is_flag=False,
    flag_value=OWN,
    help="Make a savepoint of its last checkpoint, in this folder or among those of the job, and "
    "print its path.",
)
@click.option(
    "--drain",
    is_flag=True,
    help="Finish all that was read first, as if time were over: every window and timer fires. "
    "For the end of a job: to go on from there takes run --resume-drained.",
)
@home_option
def stop(job: str, to: str | None, drain: bool, home: str) -> None:
    """Stop a running job, with a checkpoint to go on from.

    JOB is the name of a pipeline or its file. It does what the first Ctrl-C does to a run, and
    waits until the job's process has ended. A Ctrl-C ends only the waiting. A second stop joins
    the first.
    """
    from headrace.cli.control.client import Client
    from headrace.cli.control.following import carried_out, ending
    from headrace.cli.control.naming import home_of, place

    client = Client(home_of(job, home))
    client.reach("there is nothing to stop")
    body: dict[str, object] = {"drain": drain}
    if to is not None:
        body["savepoint"] = True if to == OWN else place(to)
    with ending(client) as until_ended:
        result = carried_out(client, "/v1/stop", body)
        until_ended()
    if to is not None:
        click.echo(result["path"])
    else:
        click.echo(_said(client.home.name, result), err=True)


def _said(name: str, result: dict[str, object]) -> str:
    if result["checkpoint"] is None:
        return f"{name} had come to its end"
    if result["drained"]:
        goes_on = f"run --resume-drained goes on from checkpoint {result['checkpoint']}"
        return f"{name} has stopped, drained; {goes_on}"
    return f"{name} has stopped; it goes on from checkpoint {result['checkpoint']}"
