"""`headrace stop`: the end of a running job, to go on later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.completion import JobName
from headrace.cli.failures import unasked
from headrace.cli.pipelines import home_option

if TYPE_CHECKING:
    from headrace.state.storage.home import Home

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
    with unasked(job):
        from headrace.cli.control.client import client_of
        from headrace.cli.control.following import Failed, carried_out, ending
        from headrace.cli.control.naming import place

        client = client_of(job, home)
        client.reach("there is nothing to stop")
    body: dict[str, object] = {"drain": drain}
    if to is not None:
        body["savepoint"] = True if to == OWN else place(to)
    with ending(client) as until_ended:
        try:
            result = carried_out(client, "/v1/stop", body)
        except Failed as error:
            until_ended()
            if to is not None:
                error.hint = "\n      ".join(filter(None, (error.hint, _left(client.home))))
            raise
        until_ended()
    if to is not None:
        click.echo(result["path"])
    else:
        click.echo(_said(client.home.name, result), err=True)


def _left(home: Home) -> str:
    """What there is of a job that has ended without the savepoint that was wanted."""
    from headrace.core.snapshots import SnapshotError
    from headrace.state.storage.remote.looking import cabinet_of

    try:
        store = cabinet_of(home).looked_at()
        numbers = store.manifests() if store else []
    except SnapshotError:
        numbers = []
    if not numbers:
        return f"{home.name} has stopped"
    makes = f"headrace state export {home.name} makes the savepoint"
    return f"{home.name} has stopped with checkpoint {numbers[-1]}; {makes}"


def _said(name: str, result: dict[str, object]) -> str:
    if result["checkpoint"] is None:
        return f"{name} had come to its end"
    if result["drained"]:
        goes_on = f"run --resume-drained goes on from checkpoint {result['checkpoint']}"
        return f"{name} has stopped, drained; {goes_on}"
    return f"{name} has stopped; it goes on from checkpoint {result['checkpoint']}"
