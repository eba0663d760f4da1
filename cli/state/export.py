"""`headrace state export`: makes a savepoint of a checkpoint, whether its job runs or not."""

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
    help="The savepoint's folder, which must not exist.  [default: savepoints/JOB/TIME in HOME]",
)
@home_option
@told
def export(what: str, to: str | None, home: str) -> None:
    """Make a savepoint of a checkpoint, and print its path.

    WHAT is JOB for the newest checkpoint of a job, or JOB@N for checkpoint N. The job need not run.
    If it runs, it continues, and JOB is its newest checkpoint with all output committed; for a
    savepoint of the current state use headrace savepoint JOB.

    A savepoint is a folder with everything that the job needs to resume, in open formats. It may be
    moved anywhere, and headrace never removes it; headrace run --from-savepoint resumes from it.
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
        # The newest checkpoint of a running job may not be committed yet. For a killed job an older
        # one is no choice: output after it may be committed, and would be written twice.
        number = newest_visible(kept)
    try:
        click.echo(take(kept, installed_version(), number, to))
    except NotYetVisible as error:
        if is_held:
            error.hint = f"the job runs: headrace savepoint {kept.name}"
        raise
