"""Commands of the server: `headrace serve` starts it; the others are requests to it."""

from __future__ import annotations

import os

import click

from headrace.cli.command_group import WholeNumber
from headrace.cli.completion import JobName, PipelineFile
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import DEFAULT_HOME, add_home_option, add_set_option

KEPT_RUNS = 100
SHOWN_LINES = 100


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, exists=True))
@click.option(
    "--http",
    "address",
    metavar="[HOST:]PORT",
    help="Serve the page, the API and metrics here, for requests with a token; HOST is by default "
    "127.0.0.1.",
)
@click.option(
    "--http-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A host name under which --http is called, beside localhost and addresses; repeatable.",
)
@click.option("--new-token", is_flag=True, help="Replace the tokens of --http.")
@click.option(
    "--read-only-token", is_flag=True, help="Print a second token, for requests that only look."
)
@click.option(
    "--otlp",
    metavar="URL",
    envvar="HEADRACE_OTLP",
    show_envvar=True,
    help="Let the jobs send metrics and traces to this receiver of OpenTelemetry, as `run --otlp`.",
)
@click.option("--leave-jobs", is_flag=True, help="Let the jobs run on when the server ends.")
@click.option("--watch", is_flag=True, help="Start pipelines that are new in the folder.")
@click.option(
    "--keep",
    type=WholeNumber(1),
    default=KEPT_RUNS,
    show_default=True,
    help="The runs that the history has.",
)
@click.pass_context
def serve(
    ctx: click.Context,
    folder: str,
    address: str | None,
    hosts: tuple[str, ...],
    new_token: bool,
    read_only_token: bool,
    otlp: str | None,
    leave_jobs: bool,
    watch: bool,
    keep: int,
) -> None:
    """Run the pipelines of a folder, each in a process of its own.

    The home of the jobs is DIR/.headrace. The first server starts all pipelines of the folder;
    later ones start the jobs that ran. A job that ended with exit status 1 or by a signal is
    started again, after a growing delay; after 2 and 3 it is not. Ctrl-C or SIGTERM stops the jobs
    with a checkpoint; the second one ends them at once. If the server is killed, the jobs run on,
    and the next server takes them over.
    """
    from headrace.cli.server.home_server import ServeOptions, serve
    from headrace.cli.server.job_process import check_system

    check_system()
    if address is None and (hosts or new_token or read_only_token):
        message = "--http-host, --new-token and --read-only-token apply only together with --http"
        raise click.UsageError(message, ctx)
    path = os.path.abspath(folder)
    place = None if address is None else _parse_address(address, ctx)
    receiver = None if otlp is None else _check_receiver(otlp)
    tokens = hosts, new_token, read_only_token
    options = ServeOptions(path, leave_jobs, watch, keep, place, *tokens, receiver)
    serve(options, os.path.join(path, DEFAULT_HOME), lambda line: click.echo(line, err=True))


@click.command()
@click.argument("pipeline", type=PipelineFile(), metavar="FILE")
@add_set_option
@add_home_option
def submit(pipeline: str, overrides: tuple[str, ...], home: str) -> None:
    """Start a pipeline on the server.

    A file outside of the server's folder is copied into it, and its paths are relative to that
    folder. A pipeline whose job runs is refused: `upgrade` replaces its version. The values of
    --set are part of the version, also after restarts.
    """
    from headrace.cli.server.server_client import CHECK_TIMEOUT_S, ServerClient

    body = {**_build_source(pipeline), "set": list(overrides)}
    client = ServerClient(home)
    job = client.send_request("POST", "/v1/jobs", body, timeout_s=CHECK_TIMEOUT_S)
    click.echo(f"{job['name']} is started", err=True)


@click.command()
@click.argument("job", type=JobName())
@click.option("-f", "--follow", is_flag=True, help="Print lines as they come, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=WholeNumber(0),
    default=SHOWN_LINES,
    show_default=True,
    help="The number of last lines.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the lines as the job has written them."
)
@add_home_option
def logs(job: str, follow: bool, lines: int, as_json: bool, home: str) -> None:
    """Print the log of a job of the server, which need not run."""
    from headrace.cli.control.job_lookup import resolve_job_name
    from headrace.cli.server.log_output import follow_log, format_line, iterate_last_lines
    from headrace.cli.server.server_folder import ServerFolder

    name = resolve_job_name(job)
    path = ServerFolder(home).get_log_path(name)
    if not os.path.exists(path):
        raise Refusal(f"there is no log of {name} in {home}", "headrace serve writes logs")
    for line in follow_log(path, lines) if follow else iterate_last_lines(path, lines):
        text = line.decode("utf-8", "replace").rstrip("\n") if as_json else format_line(line)
        click.echo(text)


@click.command()
@click.argument("job", type=JobName())
@click.option("--from-savepoint", metavar="PATH", help="Resume from this savepoint.")
@click.option("--fresh", is_flag=True, help="Start from scratch: remove the job's checkpoints.")
@click.option("--resume-drained", is_flag=True, help="Resume after `stop --drain`.")
@add_home_option
@click.pass_context
def restart(
    ctx: click.Context,
    job: str,
    from_savepoint: str | None,
    fresh: bool,
    resume_drained: bool,
    home: str,
) -> None:
    """Stop a job of the server with a checkpoint, and start it again.

    It resumes from its newest checkpoint, in the version that ran. A job that is not running is
    started; one whose input has ended only with --fresh.
    """
    from headrace.cli.control.job_lookup import resolve_job_name
    from headrace.cli.server.server_client import ServerClient
    from headrace.core.api.storage_url import is_url

    if fresh and from_savepoint is not None:
        raise click.UsageError("wanted one of --fresh and --from-savepoint", ctx)
    name = resolve_job_name(job)
    body: dict[str, object] = {"fresh": fresh, "resume_drained": resume_drained}
    if from_savepoint is not None:
        is_remote = is_url(from_savepoint)
        body["savepoint"] = from_savepoint if is_remote else os.path.abspath(from_savepoint)
    result = ServerClient(home).carry_out(name, "restart", body, lambda words: None)
    number = result["checkpoint"]
    start = "starts from scratch" if number is None else f"has resumed from checkpoint {number}"
    click.echo(f"{name} {start}", err=True)
    for sink, rows in result["again"].items():
        click.echo(f"sink {sink}: up to {rows:,} rows are written again", err=True)


@click.command()
@click.argument("job", type=JobName())
@click.argument("pipeline", type=PipelineFile(), metavar="FILE")
@add_set_option
@click.option(
    "--reset-state",
    metavar="STEP",
    multiple=True,
    help="Drop the state of this step, or the positions of this source; may be repeated.",
)
@click.option(
    "--allow-lost-state", is_flag=True, help="Drop stored state that the new version does not use."
)
@add_home_option
def upgrade(
    job: str,
    pipeline: str,
    overrides: tuple[str, ...],
    reset_state: tuple[str, ...],
    allow_lost_state: bool,
    home: str,
) -> None:
    """Replace the version of a job of the server by that of a file.

    The new version must be able to resume from the job's newest checkpoint. The job is stopped with
    a savepoint, and the new version resumes. If that fails before its first checkpoint is complete,
    the version before is started again: exit status 1. 3: the upgrade is refused, and the job has
    not been stopped.
    """
    from headrace.cli.control.job_lookup import resolve_job_name
    from headrace.cli.server.server_client import ServerClient

    name = resolve_job_name(job)
    source = _build_source(pipeline)
    dropped = {"reset_state": list(reset_state), "allow_lost_state": allow_lost_state}
    body: dict[str, object] = {**source, "set": list(overrides), **dropped}
    result = ServerClient(home).carry_out(
        name, "upgrade", body, lambda words: click.echo(f"{name}: {words}", err=True)
    )
    if result["savepoint"]:
        number, sinks = result["checkpoint"], result["at_least_once"]
        also = f"; {', '.join(sinks)} also repeat rows after any restart" if sinks else ""
        click.echo(
            f"{name} is upgraded; a return to its savepoint writes the rows after checkpoint "
            f"{number} again{also}",
            err=True,
        )
        click.echo(result["savepoint"])
    else:
        click.echo(f"{name} is upgraded", err=True)


def _parse_address(text: str, ctx: click.Context) -> tuple[str, int]:
    """Parse a host and a port. Raises UsageError, or Refusal if aiohttp is not installed.

    >>> [_parse_address(text, click.Context(serve)) for text in ("8080", "[::1]:0")]
    [('127.0.0.1', 8080), ('::1', 0)]
    """
    from importlib.util import find_spec

    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise click.UsageError(f'--http: wanted HOST:PORT, as in 127.0.0.1:8080, got "{text}"', ctx)
    if find_spec("aiohttp") is None:
        raise Refusal("--http needs aiohttp", 'pip install "headrace[http]" installs it')
    return host.strip("[]") or "127.0.0.1", int(port)


def _check_receiver(url: str) -> str:
    """Return the URL of a receiver of OpenTelemetry. Raises Refusal."""
    from headrace.cli.metrics.otlp.job_export import check_receiver
    from headrace.core.api.failures import ConnectorError

    try:
        return check_receiver(url)
    except ConnectorError as error:
        raise Refusal(error.message, error.hint, 2) from None


def _build_source(pipeline: str) -> dict[str, str]:
    """Return the file and the text of a pipeline for a request. Raises Refusal."""
    return {"file": os.path.abspath(pipeline), "text": _read_pipeline(pipeline)}


def _read_pipeline(path: str) -> str:
    """Read the text of a pipeline. Raises Refusal."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise Refusal(f"{path} is not UTF-8", "headrace validate shows where") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Refusal(f"{path}: {why}", "wanted the file of a pipeline") from None
