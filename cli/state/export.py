"""`headrace state export`: makes a savepoint of a checkpoint, whether its job runs or not."""

from __future__ import annotations

import click

from headrace.cli.failures import Refusal
from headrace.cli.pipelines import add_home_option
from headrace.cli.state.opened import report_snapshot_errors, resolve_job_name


@click.command()
@click.argument("what")
@click.option(
    "--to",
    type=click.Path(),
    metavar="DIR",
    help="The savepoint's folder, which must not exist.  [default: savepoints/JOB/TIME in HOME]",
)
@add_home_option
@report_snapshot_errors
def export(what: str, to: str | None, home: str) -> None:
    """Make a savepoint of a checkpoint, and print its path.

    WHAT is JOB for the newest checkpoint of a job, or JOB@N for checkpoint N. The job need not run.
    If it runs, it continues, and JOB is its newest checkpoint with all output committed; for a
    savepoint of the current state use headrace savepoint JOB.

    A savepoint is a folder with everything that the job needs to resume, in open formats. It may be
    moved anywhere, and headrace never removes it; headrace run --from-savepoint resumes from it.
    """
    from headrace.cli.control.naming import resolve_savepoint_folder
    from headrace.cli.version import find_installed_version
    from headrace.state.savepoints.export import OutputNotCommitted
    from headrace.state.savepoints.kept import find_job, find_newest_committed
    from headrace.state.savepoints.savepoint import is_savepoint
    from headrace.state.savepoints.taking import take_savepoint

    if to is not None:
        resolve_savepoint_folder(to)
    found = find_job(resolve_job_name(what, home), home)
    if found is None:
        if is_savepoint(what):
            raise Refusal(f"{what} is a savepoint already", "a savepoint may be copied as it is")
        raise Refusal(f'there is no job "{what}" in {home}', "wanted JOB, or JOB@N")
    kept, number = found
    is_held = kept.find_holder()[0]
    if number is None and is_held:
        # The newest checkpoint of a running job may not be committed yet. For a killed job an older
        # one is no choice: output after it may be committed, and would be written twice.
        number = find_newest_committed(kept)
    try:
        click.echo(take_savepoint(kept, find_installed_version(), number, to))
    except OutputNotCommitted as error:
        if is_held:
            error.hint = f"the job runs: headrace savepoint {kept.name}"
        raise
