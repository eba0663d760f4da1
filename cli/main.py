"""`headrace`: its commands, and the handling of their errors.

A command raises what it cannot handle. Only this module turns an exception into a message and an
exit status: 2 for an invalid command line or pipeline, 130 for Ctrl-C, 1 for the rest. Nothing but
click is imported before the command is known, and then the command's own module.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import NoReturn

import click

from headrace.cli.command_group import CommandGroup, print_version
from headrace.cli.completion import COMPLETE_VARIABLE
from headrace.cli.errors import exit_status_of, print_error, set_up_standard_streams
from headrace.cli.process_setup import exit_on_interrupt, forget_interrupt, raise_on_interrupt
from headrace.core.types.loading_cache import LoadingCache

EXIT_GRACE_S = 3.0
"""The time for which user code may delay the exit of a command that is done."""

HELP_OPTIONS = ["-h", "--help"]


MODULES = {
    "new": "new",
    "validate": "validate",
    "test": "pipeline_tests.command",
    "simulate": "simulation.command",
    "explain": "explain",
    "run": "run",
    "query": "shell_query.command",
    "jobs": "job_commands",
    "top": "top_command",
    "why": "diagnosis_command",
    "tap": "tap_command",
    "savepoint": "job_commands",
    "stop": "job_commands",
    "rescale": "job_commands",
    "state": "state.state_commands",
    "serve": "server.commands",
    "submit": "server.commands",
    "logs": "server.commands",
    "restart": "server.commands",
    "upgrade": "server.commands",
    "functions": "functions",
    "schema": "schema",
    "completion": "completion",
}
"""The module of each command, loaded when the command is called or described."""


def _load_command(name: str) -> click.Command:
    module = import_module(f"headrace.cli.{MODULES[name]}")
    commands = (each for each in vars(module).values() if isinstance(each, click.Command))
    return next(each for each in commands if each.name == name)


@click.group(
    cls=CommandGroup,
    commands=LoadingCache(MODULES, _load_command),
    context_settings={"help_option_names": HELP_OPTIONS, "max_content_width": 100},
)
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


def main() -> NoReturn:
    """Run the command line of this process, and exit."""
    set_up_standard_streams()
    status = run_command_line(sys.argv[1:], ExitStack())
    exit_on_interrupt()
    forget_interrupt()
    limit_exit(status)
    user_code = sys.modules.get("headrace.core.api.user_code")
    if user_code is None or not user_code.has_loaded_files():
        _exit_without_teardown(status)
    sys.exit(status)


def limit_exit(status: int) -> None:
    """Let threads, processes and exit functions of user code delay the exit for a short time."""

    def end() -> None:
        from headrace.core.job.signals import try_to_print

        others = [t for t in threading.enumerate() if t is not threading.main_thread()]
        names = ", ".join(t.name for t in others if not t.daemon) or "an exit function"
        line = f"headrace: exits, though user code still runs: {names}\n"
        try_to_print(lambda: os.write(2, line.encode()))
        os._exit(status)

    timer = threading.Timer(EXIT_GRACE_S, end)
    timer.daemon = True
    with suppress(RuntimeError):  # the system has no thread left
        timer.start()


def _exit_without_teardown(status: int) -> NoReturn:
    """Exit as Python does, but leave the objects of the process to the system.

    Python frees them one by one, which takes a twentieth of the time of a query over a few rows. A
    file that user code has left open is written to its end only by that.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            if stream:
                stream.flush()
    os._exit(status)


def run_command_line(arguments: list[str], lasting: ExitStack) -> int:
    """Run one command line; return the exit status.

    A command puts what must stay open until the process ends into `lasting`. A caller that does not
    exit afterwards closes it.
    """
    try:
        raise_on_interrupt()
        status = _invoke_command(arguments, lasting)
        if sys.stdout:
            sys.stdout.flush()
        return status
    except (Exception, KeyboardInterrupt) as error:
        print_error(error)
        return exit_status_of(error)


def _invoke_command(arguments: list[str], lasting: ExitStack) -> int:
    """Invoke the command as click's own `main` does, without its error handling."""
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(headrace, {}, "headrace", COMPLETE_VARIABLE, instruction)
    color = False if os.environ.get("NO_COLOR") else None
    try:
        with headrace.make_context("headrace", arguments, color=color, obj=lasting) as ctx:
            headrace.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0
