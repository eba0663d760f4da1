"""Commands on jobs: `headrace jobs` lists them; `savepoint`, `stop` and `rescale` act on one.

A command that acts sends a request to the running job, and waits for the operation to end.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headrace.cli.command_group import WholeNumber
from headrace.cli.completion import JobName
from headrace.cli.errors import report_unsent
from headrace.cli.pipeline_file import add_home_option, check_home

if TYPE_CHECKING:
    from headrace.cli.control.client import JobClient
    from headrace.cli.control.job_list import JobEntry
    from headrace.state.storage.home import Home


STATUS_COLOURS = {
    "running": "green",
    "stopped": "dim",
    "restarting": "bold red",
    "waiting": "bold red",
    "failed": "bold red",
    "invalid": "bold red",
    "damaged": "bold red",
}


TEXT_COLUMNS = (0, 1, 6, 7)
"""The columns that are aligned to the left."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option(
    "--history", is_flag=True, help="List the runs of a server that have ended, the newest first."
)
@add_home_option
def jobs(as_json: bool, history: bool, home: str) -> None:
    """List running jobs, and jobs that can be resumed.

    They are the jobs of one home: --home, or .headrace in this folder. Rates are over the last five
    to ten seconds. A job that was stopped or killed resumes from its newest checkpoint when its
    pipeline is run again. Runs without checkpoints (--limit, standard input) are not listed. With a
    server (serve), its jobs are listed that wait for a restart, have failed or are done, and the
    pipelines of its folder that are new.
    """
    from headrace.cli.control.job_list import list_jobs
    from headrace.cli.server.server_client import add_served_jobs

    check_home(home)
    if history:
        from headrace.cli.server.history_output import print_history

        print_history(home, as_json=as_json)
        return
    entries = add_served_jobs(list_jobs(home), home)
    if as_json:
        import orjson

        documents = [one.build_document() for one in entries]
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        click.echo(orjson.dumps(documents, option=options), nl=False)
    elif not entries:
        click.echo(f"there are no jobs in {home}", err=True)
    else:
        _print_jobs(entries)


def _print_jobs(found: Sequence[JobEntry]) -> None:
    from datetime import UTC, datetime

    from headrace.cli.control.job_list import format_rows
    from headrace.cli.formatting import align_columns

    heads, *cells = format_rows(found, datetime.now(UTC))
    if sys.stdout.isatty():
        _print_table(heads, cells)
    else:
        for line in align_columns([heads, *cells], TEXT_COLUMNS):
            click.echo(line)


def _print_table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for at, head in enumerate(heads):
        table.add_column(head, justify="left" if at in TEXT_COLUMNS else "right")
    for name, status, *rest in cells:
        colour = STATUS_COLOURS.get(status)
        shown = f"[{colour}]{status}[/]" if colour else status
        table.add_row(escape(name), shown, *map(escape, rest))
    Console(highlight=False).print(table)


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
        from headrace.cli.control.job_lookup import resolve_savepoint_folder
        from headrace.cli.control.operation_wait import carry_out

        client = find_client(job, home)
        client.wait_for_job(lambda: _describe_export(client.home))
    body = {} if to is None else {"to": resolve_savepoint_folder(to, client.home)}
    click.echo(carry_out(client, "/v1/savepoints", body)["path"])


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
@click.option(
    "--now",
    is_flag=True,
    help="End the job's process at once, whatever it does; the next run resumes from the newest "
    "checkpoint. Also for a job that is stopping.",
)
@add_home_option
@click.pass_context
def stop(ctx: click.Context, job: str, to: str | None, drain: bool, now: bool, home: str) -> None:
    """Stop a running job, with a checkpoint to resume from.

    JOB is the name of a pipeline or its file. The command has the same effect as the first Ctrl-C
    in a run, and waits until the job's process has ended; if that takes long, it prints what the
    job waits for. Ctrl-C ends only the waiting. A second stop joins the first. With --now the
    effect is that of the second Ctrl-C.
    """
    if now:
        if drain or to is not None:
            raise click.UsageError("--now takes no checkpoint to drain or save", ctx)
        return _stop_at_once(job, home)
    with report_unsent(job):
        from headrace.cli.control.client import find_client
        from headrace.cli.control.job_lookup import resolve_savepoint_folder
        from headrace.cli.control.operation_wait import report_silence
        from headrace.cli.server.server_client import cancel_restart

        if cancel_restart(job, home):
            click.echo(f"{job} was waiting for its restart, and stays stopped", err=True)
            return
        client = find_client(job, home)
        with report_silence(client.home):
            client.wait_for_job(lambda: "there is nothing to stop")
    body: dict[str, object] = {"drain": drain}
    if to is not None:
        is_default = to == DEFAULT_FOLDER
        body["savepoint"] = True if is_default else resolve_savepoint_folder(to, client.home)
    result = _stop_and_wait(client, body)
    if to is not None:
        click.echo(result["path"])
    else:
        click.echo(_format_result(client.home.name, result), err=True)


def _stop_and_wait(client: JobClient, body: dict[str, object]) -> dict[str, object]:
    """Request a stop, and return its result when the process has ended."""
    from headrace.cli.control.operation_wait import OperationFailed, carry_out, watch_process

    with watch_process(client) as until_ended:
        try:
            result = carry_out(client, "/v1/stop", body)
        except OperationFailed as error:
            until_ended()
            if "savepoint" in body:
                hints = (error.hint, _describe_leftovers(client.home))
                error.hint = "\n      ".join(filter(None, hints))
            raise
        until_ended()
    return result


def _stop_at_once(job: str, home: str) -> None:
    with report_unsent(job):
        from headrace.cli.control.client import find_client
        from headrace.cli.control.immediate_stop import stop_at_once
        from headrace.cli.control.job_lookup import find_newest_checkpoint
        from headrace.cli.server.server_client import cancel_restart

        if cancel_restart(job, home):
            click.echo(f"{job} was waiting for its restart, and stays stopped", err=True)
            return
        client = find_client(job, home)
    stop_at_once(client)
    number = find_newest_checkpoint(client.home)
    then = "starts from scratch" if number is None else f"resumes from checkpoint {number}"
    click.echo(f"{client.home.name} was stopped at once; the next run {then}", err=True)


def _describe_leftovers(home: Home) -> str:
    """Return a hint for a job that has ended without the requested savepoint."""
    from headrace.cli.control.job_lookup import find_newest_checkpoint

    number = find_newest_checkpoint(home)
    if number is None:
        return f"{home.name} has stopped"
    return f"{home.name} has stopped at checkpoint {number}; {_describe_export(home)}"


def _describe_export(home: Home) -> str:
    """Return a hint for a job that does not run, and so takes no savepoint."""
    from headrace.cli.control.job_lookup import find_newest_checkpoint, format_command

    number = find_newest_checkpoint(home)
    if number is None:
        return "it has no checkpoint to make a savepoint of"
    export = format_command("state export", home)
    return f"to make a savepoint of its checkpoint {number}: {export}"


def _format_result(name: str, result: dict[str, object]) -> str:
    if result["checkpoint"] is None:
        return f"{name} had already finished"
    stopped = f"{name} has stopped at checkpoint {result['checkpoint']}"
    if result["drained"]:
        return f"{stopped}, drained; run --resume-drained resumes from it"
    return f"{stopped}; the next run resumes from it"


@click.command()
@click.argument("job", type=JobName())
@click.option("--parallelism", type=WholeNumber(1), help="Subtasks of each part.")
@click.option(
    "--workers",
    type=WholeNumber(1),
    help="Processes that run the subtasks; 1: the process of the job runs them.",
)
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
    ctx: click.Context,
    job: str,
    parallelism: int | None,
    workers: int | None,
    parts: Sequence[str],
    home: str,
) -> None:
    """Change the parallelism or the workers of a running job.

    JOB is the name of a pipeline or its file. The job takes a checkpoint and restarts from it with
    the new numbers of subtasks and workers, in the same process; the length of the pause is
    printed. A pipeline that does not set `parallelism` gets as many subtasks as workers. A step
    that has its own `parallelism` keeps it unless --step names it. The next run takes the numbers
    of the file again. Ctrl-C ends only the waiting, not the rescale.
    """
    if parallelism is None and workers is None and not parts:
        raise click.UsageError("wanted --parallelism, --workers or --step", ctx)
    body: dict[str, object] = {"parts": dict(_parse_part(each, ctx) for each in parts)}
    given = {"parallelism": parallelism, "workers": workers}
    body |= {key: number for key, number in given.items() if number is not None}
    with report_unsent(job):
        from headrace.cli.control.client import find_client
        from headrace.cli.control.operation_wait import carry_out

        client = find_client(job, home)
        client.wait_for_job(lambda: _describe_start(job, *body))
    result = carry_out(client, "/v1/rescale", body)
    if result["checkpoint"] is None:
        what = "that parallelism" if workers is None else "that parallelism and these workers"
        click.echo(f"{client.home.name} has {what} already")
    else:
        click.echo(f"{client.home.name} paused for {result['stood_still_s']:.2f} s")


def _describe_start(job: str, *changes: str) -> str:
    """Return a hint for a job that does not run, and so cannot be rescaled.

    >>> _describe_start("orders", "workers")
    'to start it with others: headrace run FILE --workers N'
    """
    file = shlex.quote(job) if os.path.isfile(job) else "FILE"
    given = [f"--{key} N" for key in ("parallelism", "workers") if key in changes]
    return f"to start it with others: headrace run {file} {' '.join(given or ['--parallelism N'])}"


def _parse_part(text: str, ctx: click.Context) -> tuple[str, int]:
    """Parse a part and its number of subtasks.

    >>> _parse_part("totals=4", click.Context(rescale))
    ('totals', 4)
    """
    name, equals, number = text.partition("=")
    if not name or not equals or not number.isascii() or not number.isdigit():
        raise click.UsageError(f'--step: wanted NAME=N, as in totals=4, got "{text}"', ctx)
    return name, int(number)
