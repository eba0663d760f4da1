"""`headrace`: its commands, and the handling of their errors.

A command raises what it cannot handle. Only this module turns an exception into a message and an
exit status: 2 for an invalid command line or pipeline, 130 for Ctrl-C, 1 for the rest. Nothing but
click is imported before the command is known, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import NoReturn

import click
from click.shell_completion import shell_complete

from headrace.cli.completion import COMPLETE, completion
from headrace.cli.explain import explain
from headrace.cli.failures import exit_status, say_failure
from headrace.cli.functions import functions
from headrace.cli.group import Commands
from headrace.cli.jobs import jobs
from headrace.cli.new import new
from headrace.cli.rescale import rescale
from headrace.cli.run import run as run_command
from headrace.cli.savepoint import savepoint
from headrace.cli.schema import schema
from headrace.cli.state.group import state
from headrace.cli.stop import stop
from headrace.cli.streams import take_standard_streams
from headrace.cli.validate import validate
from headrace.cli.version import print_version

HELP = ["-h", "--help"]


@click.group(cls=Commands, context_settings={"help_option_names": HELP, "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=print_version,
    help="Print the version.",
)
def headrace() -> None:
    """A stream processor in one command: pipelines in YAML, expressions in Spark SQL."""


COMMANDS = (
    *(new, validate, explain, run_command),
    *(jobs, savepoint, stop, rescale, state),
    *(functions, schema, completion),
)
for command in COMMANDS:
    headrace.add_command(command)


def main() -> NoReturn:
    """Run the command line of this process, and exit."""
    take_standard_streams()
    sys.exit(run(sys.argv[1:], ExitStack()))


def run(arguments: list[str], lasting: ExitStack) -> int:
    """Run one command line; return the exit status.

    A command puts what must stay open until the process ends into `lasting`. A caller that does not
    exit afterwards closes it.
    """
    try:
        status = _invoke(arguments, lasting)
        if sys.stdout:
            sys.stdout.flush()
        return status
    except (Exception, KeyboardInterrupt) as error:
        say_failure(error)
        return exit_status(error)


def _invoke(arguments: list[str], lasting: ExitStack) -> int:
    """Invoke the command as click's own `main` does, without its error handling."""
    if asked := os.environ.get(COMPLETE):
        return shell_complete(headrace, {}, "headrace", COMPLETE, asked)
    color = False if os.environ.get("NO_COLOR") else None
    try:
        with headrace.make_context("headrace", arguments, color=color, obj=lasting) as ctx:
            headrace.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0
