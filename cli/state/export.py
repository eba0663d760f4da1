"""`headrace state export`: a savepoint of a checkpoint, whether its job runs or not."""

from __future__ import annotations

import click

from headrace.cli.failures import Refusal
from headrace.cli.pipelines import home_option
from headrace.cli.state.opened import by_name, told


@click.command()
@click.argument("what")
@click.option(
    "--to",
    type=click.Path(),
    metavar="DIR",
    help="The savepoint's folder, which is not there yet.  [default: savepoints/JOB/TIME in HOME]",
)
@home_option
@told
def export(what: str, to: str | None, home: str) -> None:
    """Make a savepoint of a checkpoint, and print where it is.

    WHAT is JOB for the newest checkpoint of a job, or JOB@N for checkpoint N. The job need not run,
    and goes on if it does: then JOB is the newest one of which all output is visible. One that runs
    is better asked for a savepoint of now: headrace savepoint JOB.

    A savepoint is a folder with everything that the job goes on from, in open formats. It may be
    moved anywhere, is never removed by headrace, and headrace run --from-savepoint goes on from it.
    """
    from headrace.cli.control.naming import place
    from headrace.cli.version import installed_version
    from headrace.state.savepoints.export import NotYetVisible
    from headrace.state.savepoints.kept import job_of, newest_visible
    from headrace.state.savepoints.savepoint import is_savepoint
    from headrace.state.savepoints.taking import take

    if to is not None:
        place(to)
    found = job_of(by_name(what, home), home)
    if found is None:
        if is_savepoint(what):
            raise Refusal(f"{what} is a savepoint already", "a savepoint may be copied as it is")
        raise Refusal(f'there is no job "{what}" in {home}', "wanted JOB, or JOB@N")
    kept, number = found
    is_held = kept.holder()[0]
    if number is None and is_held:
        # Its newest may have been taken this instant. Of one that was killed, an older one is none
        # to go on from: what came behind it may be visible, and would come again.
        number = newest_visible(kept)
    try:
        click.echo(take(kept, installed_version(), number, to))
    except NotYetVisible as error:
        if is_held:
            error.hint = f"the job runs: headrace savepoint {kept.name}"
        raise
