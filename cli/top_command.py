"""`headrace top`: the figures of all jobs, or of the parts of one, drawn again every second."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from headrace.cli.completion import JobName
from headrace.cli.errors import report_unsent
from headrace.cli.pipeline_file import add_home_option, check_home

if TYPE_CHECKING:
    from headrace.cli.control.client import JobClient
    from headrace.cli.top_tables import FigureTable

INTERVAL_S = 1.0
QUIT_KEY = "q"


@click.command()
@click.argument("job", type=JobName(), required=False)
@click.option("--once", is_flag=True, help="Print the figures once, as text, for scripts.")
@add_home_option
def top(job: str | None, once: bool, home: str) -> None:
    """Show the figures of the jobs, or of one job, once a second.

    Without JOB there is a row for each job, as `jobs` lists them. JOB is the name of a running
    pipeline or its file: then there is a row for each source, step and sink, with its rows and
    rates, the shares of time in which it is busy, idle and backpressured, its watermark and how far
    that lags, late and bad rows, and its state; below is what holds the output back, as `why` says
    it. The key q or Ctrl-C ends it. Where standard output is no terminal, it is as with --once.
    """
    collect = _collect_jobs(home) if job is None else _collect_parts(job, home)
    if once or not _is_terminal():
        for line in collect().format_lines():
            click.echo(line)
    else:
        _draw_until_quit(collect)


def _is_terminal() -> bool:
    return bool(sys.stdout and sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def _collect_jobs(home: str) -> Callable[[], FigureTable]:
    from headrace.cli.control.job_list import list_jobs
    from headrace.cli.server.server_client import add_served_jobs
    from headrace.cli.top_tables import build_job_table

    check_home(home)
    return lambda: build_job_table(add_served_jobs(list_jobs(home), home))


def _collect_parts(job: str, home: str) -> Callable[[], FigureTable]:
    with report_unsent(job):
        from headrace.cli.control.client import find_client
        from headrace.cli.server.server_client import describe_start

        client = find_client(job, home)
        client.wait_for_job(lambda: describe_start(client.home))
    return lambda: _fetch_parts(client)


def _fetch_parts(client: JobClient) -> FigureTable:
    from headrace.cli.top_tables import build_part_table

    return build_part_table(
        client.fetch_document("/v1/job"),
        client.fetch_document("/v1/statistics"),
        client.fetch_document("/v1/findings"),
    )


def _draw_until_quit(collect: Callable[[], FigureTable]) -> None:
    from headrace.cli.run_live import LiveLines, measure_terminal

    lines = LiveLines(sys.stdout)
    with _read_keys() as wait_for_key:
        try:
            while True:
                lines.show(collect().build_rich_table(measure_terminal(sys.stdout).columns))
                if wait_for_key(INTERVAL_S) == QUIT_KEY:
                    return
        except KeyboardInterrupt:
            return
        finally:
            lines.show(None)


def _wait_without_keys(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextmanager
def _read_keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits for a key, at most some seconds; empty: none was pressed."""
    if not (sys.stdin and sys.stdin.isatty()):
        yield _wait_without_keys
        return
    import select
    import termios
    import tty

    terminal = sys.stdin.fileno()

    def wait(seconds: float) -> str:
        has_key, _, _ = select.select([terminal], [], [], seconds)
        return os.read(terminal, 1).decode(errors="replace") if has_key else ""

    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield wait
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
