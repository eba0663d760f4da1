"""`headrace state`: the group of commands on checkpoints and savepoints.

`ls` lists them, `diff` compares two of them or one with a pipeline, and `export` makes a savepoint
of a checkpoint. `show` and `query` have modules of their own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from headrace.cli.command_group import CommandGroup, WholeNumber
from headrace.cli.completion import JobName
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import (
    add_home_option,
    add_set_option,
    check_home,
    check_pipeline,
    paint_problem,
)
from headrace.cli.state.query import query
from headrace.cli.state.show import show
from headrace.cli.state.snapshot_argument import (
    OpenSnapshot,
    add_json_option,
    open_snapshot,
    report_snapshot_errors,
    resolve_job_name,
)


@click.command()
@click.argument("what", type=JobName(), required=False)
@click.option("--groups", is_flag=True, help="Also show the size of each key group.")
@add_json_option
@add_home_option
@report_snapshot_errors
def ls(what: str | None, groups: bool, as_json: bool, home: str) -> None:
    """List checkpoints and savepoints, or the contents of one.

    WHAT is a job (its newest checkpoint), JOB@N for its checkpoint N, or the folder of a
    savepoint. Without WHAT all jobs of the home are listed.
    """
    if what is None:
        _print_all(home, as_json=as_json)
        return
    with open_snapshot(what, home) as snapshot:
        _print_one(snapshot, groups=groups, as_json=as_json)


def _print_all(home: str, *, as_json: bool) -> None:
    from headrace.cli.state.overview import format_snapshots, list_snapshots

    check_home(home)
    found = list_snapshots(home)
    if as_json:
        _print_json([one.build_document() for one in found])
    elif found:
        click.echo(format_snapshots(found))
    else:
        click.echo(f"there are no checkpoints or savepoints in {home}", err=True)


def _print_one(snapshot: OpenSnapshot, *, groups: bool, as_json: bool) -> None:
    from headrace.cli.state.overview import describe_contents, format_contents

    found = describe_contents(snapshot, groups=groups)
    if as_json:
        _print_json(found)
    else:
        click.echo(format_contents(snapshot, found))


def _print_json(found: Any) -> None:
    import json

    click.echo(json.dumps(found, indent=2, ensure_ascii=False))


INCOMPATIBLE_STATUS = 3
"""The exit status if a pipeline cannot resume from the snapshot."""


@click.command()
@click.argument("what", type=JobName())
@click.argument("other", type=JobName())
@click.option(
    "--limit", type=WholeNumber(0), default=5, show_default=True, help="Number of examples."
)
@add_set_option
@add_json_option
@add_home_option
@report_snapshot_errors
def diff(
    what: str, other: str, limit: int, overrides: Sequence[str], as_json: bool, home: str
) -> None:
    """Compare two snapshots, or a snapshot with a pipeline.

    WHAT and OTHER are jobs (their newest checkpoints), JOB@N for checkpoint N, or folders of
    savepoints: rows that were added, removed and changed are listed. If OTHER is a pipeline's file,
    the command says whether the pipeline can resume from WHAT: the exit status is 0 if it can, 3 if
    not.
    """
    with open_snapshot(what, home) as before:
        if os.path.isfile(other):
            _check_pipeline(before, other, overrides, as_json=as_json)
            return
        with open_snapshot(other, home) as now:
            from headrace.cli.state.comparison import compare_snapshots, format_comparison

            found = compare_snapshots(before, now, limit)
            click.echo(_format_json(found) if as_json else format_comparison(found))


def _check_pipeline(
    before: OpenSnapshot, path: str, overrides: Sequence[str], *, as_json: bool
) -> None:
    from headrace.cli.state.comparison import check_compatibility, format_compatibility

    ctx = click.get_current_context()
    checked = check_pipeline(path, overrides)
    for problem in checked.problems:
        click.echo(paint_problem(problem), err=True)
    if checked.plan is None or not checked.is_valid:
        ctx.exit(2)
    found = check_compatibility(before.snapshot.document, checked.plan)
    if as_json:
        click.echo(_format_json({"title": before.snapshot.title, "pipeline": path, **found}))
    else:
        click.echo(format_compatibility(before.snapshot.title, path, found))
    ctx.exit(0 if found["fits"] else INCOMPATIBLE_STATUS)


def _format_json(found: Any) -> str:
    import json

    return json.dumps(found, indent=2, ensure_ascii=False)


@click.command()
@click.argument("what")
@click.option(
    "--to",
    type=click.Path(),
    metavar="DIR",
    help="The savepoint's folder, which must not exist.  [default: @savepoints/JOB/TIME in HOME]",
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
    from headrace.cli.command_group import find_installed_version
    from headrace.cli.control.job_lookup import format_command, resolve_savepoint_folder
    from headrace.cli.process_limits import check_process_limits
    from headrace.state.savepoints.creation import take_savepoint
    from headrace.state.savepoints.export import OutputNotCommitted
    from headrace.state.savepoints.savepoint import is_savepoint
    from headrace.state.savepoints.snapshot_lookup import find_job, find_newest_committed

    check_process_limits()
    found = find_job(resolve_job_name(what, home), home)
    if found is None:
        if is_savepoint(what):
            raise Refusal(f"{what} is a savepoint already", "a savepoint may be copied as it is")
        raise Refusal(f'there is no job "{what}" in {home}', "wanted JOB, or JOB@N")
    opened, number = found
    if to is not None:
        resolve_savepoint_folder(to, opened)
    is_held = opened.find_holder()[0]
    if number is None and is_held:
        # The newest checkpoint of a running job may not be committed yet. For a killed job an older
        # one is no choice: output after it may be committed, and would be written twice.
        number = find_newest_committed(opened)
    try:
        click.echo(take_savepoint(opened, find_installed_version(), number, to))
    except OutputNotCommitted as error:
        if is_held:
            error.hint = f"the job runs: {format_command('savepoint', opened)}"
        raise


@click.group(cls=CommandGroup)
def state() -> None:
    """Inspect checkpoints and savepoints.

    WHAT is JOB for a job's newest checkpoint, JOB@N for its checkpoint N, or the folder of a
    savepoint. JOB is the name of a pipeline; --home is the folder of its checkpoints.
    """
    from headrace.cli.process_limits import check_loading_limits

    check_loading_limits()


for command in (ls, show, query, diff, export):
    state.add_command(command)
