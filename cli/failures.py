"""What is said when a command cannot go on: a line or two on stderr, and the exit status.

An exception that nobody expected is a defect of headrace. Its traceback is no use to whoever runs a
pipeline, so it is kept in a file whose name is printed, ready to be sent with a report;
`HEADRACE_DEBUG=1` shows it at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


class Refusal(click.ClickException):
    """A command cannot do it: why, what to do, and the exit status that this has."""

    def __init__(self, message: str, hint: str = "", status: int = 2) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


@contextmanager
def unasked(job: str) -> Iterator[None]:
    """Within this nothing has been asked of a job yet: who interrupts a command is told so."""
    try:
        yield
    except KeyboardInterrupt:
        raise Refusal(f"nothing was asked of {job}", status=130) from None


def exit_status(error: BaseException) -> int:
    """What the process ends with: 2 is the user's to mend, 130 is Ctrl-C, 1 the rest."""
    match error:
        case KeyboardInterrupt() | click.Abort():
            return 130
        case Refusal():
            return error.status
        case click.ClickException():
            return 2
        case BrokenPipeError():
            return 0
    return 1


def say_failure(error: BaseException) -> None:
    """Tell the user; never raises."""
    match error:
        case KeyboardInterrupt() | click.Abort():
            click.echo("stopped", err=True)
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.message, err=True)
        case click.UsageError() if error.ctx:
            said = f"{error.ctx.command_path}: {_plain(error)}"
            click.echo(f"{said}\n{error.ctx.get_usage().replace('Usage:', 'usage:')}", err=True)
        case Refusal():
            hint = f"\n      {error.hint}" if error.hint else ""
            click.echo(f"headrace: {error.message}{hint}", err=True)
        case click.ClickException():
            click.echo(_plain(error), err=True)
        case BrokenPipeError():
            _close_stdout()
        case OSError():
            click.echo(f"headrace: {_os_error(error)}", err=True)
            _close_stdout()
        case _:
            click.echo(_defect(error), err=True)


def _plain(error: click.ClickException) -> str:
    """Click's message in our manner: lower case, no full stop."""
    message = error.format_message()
    return message[:1].lower() + message[1:].removesuffix(".")


def _os_error(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    return f"{error.filename}: {reason}" if error.filename else f"cannot write: {reason}"


def _close_stdout() -> None:
    """Let the interpreter's last flush go nowhere: it would fail again, with a traceback."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _defect(error: BaseException) -> str:
    import traceback

    what = f"{type(error).__name__}: {error}".splitlines()[0]
    return keep_defect(what, "".join(traceback.format_exception(error)))


def keep_defect(what: str, trace: str) -> str:
    """What is said of a defect; its traceback is kept in a file, or shown when that is wanted."""
    import platform
    import tempfile

    from headrace.cli.version import installed_version

    if os.environ.get("HEADRACE_DEBUG"):
        return trace.rstrip()
    with tempfile.NamedTemporaryFile(
        "w", prefix="headrace-defect-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        system = f"Python {platform.python_version()} on {platform.platform()}"
        file.write(f"headrace {installed_version()}, {system}\n\n{trace}")
    return (
        f"headrace: a defect of ours, not of your files ({what}); please report it with {file.name}"
    )
