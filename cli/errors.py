"""Errors of commands: a line or two on stderr, and the exit status.

An unexpected exception is a bug in headrace. Its traceback does not help users, so it is saved in a
file whose name is printed, ready to be attached to a bug report. With `HEADRACE_DEBUG=1` it is
shown instead.

A failing report never breaks a run. Text that standard error does not take (its reader is gone, its
disk is full) is lost. If a standard stream was closed before the start, the first opened file would
get its number and all printed text, so the number is reserved. Python has no `sys.stdout` then, so
one is made that writes to nowhere.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from headrace.core.errors.resource_limits import find_shortage


class Refusal(click.ClickException):
    """A command cannot do what was requested: the reason, a hint and the exit status."""

    def __init__(self, message: str, hint: str = "", status: int = 2) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


@contextmanager
def report_unsent(job: str) -> Iterator[None]:
    """Report on Ctrl-C within the `with` that no request has been sent to the job."""
    try:
        yield
    except KeyboardInterrupt:
        raise Refusal(f"no request was sent to {job}", status=130) from None


def exit_status_of(error: BaseException) -> int:
    """Return the exit status: 2 for user errors, 130 for Ctrl-C, 1 for the rest."""
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


def print_error(error: BaseException) -> None:
    """Print the error for the user. Never raises."""
    match error:
        case KeyboardInterrupt() | click.Abort():
            click.echo("stopped", err=True)
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.message, err=True)
        case click.UsageError() if error.ctx:
            message = f"{error.ctx.command_path}: {_format_click_message(error)}"
            click.echo(f"{message}\n{error.ctx.get_usage().replace('Usage:', 'usage:')}", err=True)
        case Refusal():
            hint = f"\n      {error.hint}" if error.hint else ""
            click.echo(f"headrace: {error.message}{hint}", err=True)
        case click.ClickException():
            click.echo(_format_click_message(error), err=True)
        case BrokenPipeError():
            _discard_stdout()
        case OSError():
            hint = f"\n      {shortage.hint}" if (shortage := find_shortage(error)) else ""
            click.echo(f"headrace: {_format_os_error(error)}{hint}", err=True)
            _discard_stdout()
        case _:
            click.echo(_report_shortage(error) or _report_bug(error), err=True)


def _format_click_message(error: click.ClickException) -> str:
    """Return click's message in headrace's style: lower case, no full stop."""
    message = error.format_message()
    return message[:1].lower() + message[1:].removesuffix(".")


def _format_os_error(error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    return f"{error.filename}: {reason}" if error.filename else f"cannot write: {reason}"


def _discard_stdout() -> None:
    """Redirect stdout to nowhere: the interpreter's last flush would fail with a traceback."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_shortage(error: BaseException) -> str:
    """Return the message for a lack of memory and the like; "" if that is not the cause."""
    shortage = find_shortage(error)
    return f"headrace: {shortage.message}\n      {shortage.hint}" if shortage else ""


def _report_bug(error: BaseException) -> str:
    import traceback

    what = f"{type(error).__name__}: {error}".splitlines()[0]
    return save_bug_report(what, "".join(traceback.format_exception(error)))


def save_bug_report(what: str, trace: str) -> str:
    """Return the message for a bug in headrace.

    The traceback is saved in a file; with `HEADRACE_DEBUG` the message is the traceback itself.
    """
    import platform
    import tempfile

    from headrace.cli.command_group import find_installed_version

    if os.environ.get("HEADRACE_DEBUG"):
        return trace.rstrip()
    with tempfile.NamedTemporaryFile(
        "w", prefix="headrace-defect-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        system = f"Python {platform.python_version()} on {platform.platform()}"
        file.write(f"headrace {find_installed_version()}, {system}\n\n{trace}")
    message = f"a bug in headrace, not in your files ({what}); please report it with {file.name}"
    return f"headrace: {message}"


class LossyFile(io.FileIO):
    """A file that ignores errors of writing, and reports that it wrote everything."""

    def write(self, data: memoryview, /) -> int:  # type: ignore[override]
        """Write the data; data that cannot be written is lost."""
        with suppress(OSError):
            return super().write(data)
        return data.nbytes


def set_up_standard_streams() -> None:
    """Set up the standard streams. Call once, before any file is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    encoding = sys.stderr.encoding if sys.stderr else "utf-8"
    raw = io.BufferedWriter(LossyFile(2, "w", closefd=False))  # type: ignore[type-var]
    # A name or a terminal that is not UTF-8: escapes are shown, instead of an error.
    escaped = "backslashreplace"
    sys.stderr = io.TextIOWrapper(raw, encoding, escaped, line_buffering=True)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stdout.reconfigure(errors=escaped)  # type: ignore[union-attr]
