"""`headrace stop`: stops a running job, which can be resumed later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.completion import JobName
from headrace.cli.failures import report_unsent
from headrace.cli.pipelines import add_home_option

if TYPE_CHECKING:
    from headrace.state.storage.home import Home

DEFAULT_FOLDER = ""
"""The value of `--savepoint` without a folder."""


@click.command()
@click.argument("job", type=JobName())
@click.option(
    "--savepoint",
    "to",
    metavar="[DIR]",
    is_flag=False,
    flag_value=DEFAULT_FOLDER,
    help="Make a savepoint of its last checkpoint, in this folder or among the job's savepoints, "
    "and print its path.",
)
@click.option(
    "--drain",
    is_flag=True,
    help="First process all rows that were read, as at the end of time: every window and timer "
    "fires. For the end of a job: to resume, use run --resume-drained.",
)
@add_home_option
def stop(job: str, to: str | None, drain: bool, home: str) -> None:
    """Stop a running job, with a checkpoint to resume from.

    JOB is the name of a pipeline or its file. The command has the same effect as the first Ctrl-C
    in a run, and waits until the job's process has ended. Ctrl-C ends only the waiting. A second
    stop joins the first.
    """
    with report_unsent(job):
        from headrace.cli.control.client import find_client
        from headrace.cli.control.following import OperationFailed, carry_out, watch_process
        from headrace.cli.control.naming import resolve_savepoint_folder

        client = find_client(job, home)
        client.wait_for_job("there is nothing to stop")
    body: dict[str, object] = {"drain": drain}
    if to is not None:
        body["savepoint"] = True if to == DEFAULT_FOLDER else resolve_savepoint_folder(to)
    with watch_process(client) as until_ended:
        try:
            result = carry_out(client, "/v1/stop", body)
        except OperationFailed as error:
            until_ended()
            if to is not None:
                error.hint = "\n      ".join(
                    filter(None, (error.hint, _describe_leftovers(client.home)))
                )
            raise
        until_ended()
    if to is not None:
        click.echo(result["path"])
    else:
        click.echo(_format_result(client.home.name, result), err=True)


def _describe_leftovers(home: Home) -> str:
    """Return a hint for a job that has ended without the requested savepoint."""
    from headrace.core.snapshots import SnapshotError
    from headrace.state.storage.remote.looking import open_repository

    try:
        store = open_repository(home).open_read_only()
        numbers = store.list_checkpoints() if store else []
    except SnapshotError:
        numbers = []
    if not numbers:
        return f"{home.name} has stopped"
    makes = f"make the savepoint with: headrace state export {home.name}"
    return f"{home.name} has stopped at checkpoint {numbers[-1]}; {makes}"


def _format_result(name: str, result: dict[str, object]) -> str:
    if result["checkpoint"] is None:
        return f"{name} had already finished"
    stopped = f"{name} has stopped at checkpoint {result['checkpoint']}"
    if result["drained"]:
        return f"{stopped}, drained; run --resume-drained resumes from it"
    return f"{stopped}; the next run resumes from it"
