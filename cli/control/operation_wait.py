"""Waiting for an operation in a command, with its progress on the terminal.

Interrupting the command ends only the waiting: the operation continues in the job's process.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import click

from headrace.cli.control.client import Document, JobClient, NoAnswer, NotListening
from headrace.cli.control.job_lookup import describe_job_list, format_command
from headrace.cli.errors import Refusal
from headrace.core.errors.rendering import escape_unprintable
from headrace.state.storage.home import Home

PROGRESS_INTERVAL_S = 1.0
"""The interval of progress on a terminal."""

FIRST_WAIT_S = 3.0
"""The time after which a line is printed elsewhere, if a job is still stopping."""

POLL_WAIT_S = 10.0
ANSWER_MARGIN_S = 5.0
PAUSE_S = 0.1
ERASE_LINE = "\r\x1b[K"


class OperationFailed(Refusal):
    """An operation was started, and has failed."""


def carry_out(client: JobClient, path: str, body: Mapping[str, object]) -> Document:
    """Request an operation, wait for it and return its result.

    Raises OperationFailed if the operation fails, Refusal for all else.
    """
    operation = client.request_operation(path, body)
    try:
        return _follow_operation(client, operation)
    except KeyboardInterrupt:
        kind = operation["kind"]
        goes_on = f"the {kind} continues as operation {operation['id']}"
        raise Refusal(f"{goes_on}; {describe_job_list(client.home)}", status=130) from None


@contextmanager
def watch_process(client: JobClient) -> Iterator[Callable[[], None]]:
    """Yield a function that waits until the process that answered last has ended.

    Then its home is free. A process descriptor is used where the system has them, instead of
    polling; a process id alone is not enough, since another process may get the same one.
    """
    process = open_process(client.process_id)
    try:
        yield lambda: _wait_for_end(client, process)
    finally:
        if process is not None:
            os.close(process)


@contextmanager
def report_silence(home: Home) -> Iterator[None]:
    """Print within the `with` that the job does not answer, if that takes long."""
    line = f"{home.name}: {SILENT_TEXT}; {_describe_immediate_stop(home)}"
    timer = threading.Timer(FIRST_WAIT_S, click.echo, (line,), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _describe_immediate_stop(home: Home) -> str:
    return f"to end it at once: {format_command('stop', home, '--now')}"


def _wait_for_end(client: JobClient, process: int | None) -> None:
    try:
        if process is not None:
            poll = select.poll()
            poll.register(process, select.POLLIN)
            poll.poll()
        while client.home.find_holder()[0]:
            time.sleep(PAUSE_S)
    except KeyboardInterrupt:
        raise Refusal(f"{client.home.name} is still ending", status=130) from None


def open_process(process: int | None) -> int | None:
    """Return a descriptor that is readable when another process has ended, if possible."""
    opened: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    if process in (None, os.getpid()) or opened is None:
        return None
    try:
        return opened(process)
    except OSError:
        return None


def _follow_operation(client: JobClient, operation: Document) -> Document:
    shown, wait_s = ProgressLine(client.home), FIRST_WAIT_S
    try:
        while operation["state"] in ("waiting", "running"):
            shown.show(operation)
            operation = _poll_operation(
                client, operation, PROGRESS_INTERVAL_S if shown.is_live else wait_s
            )
            wait_s = POLL_WAIT_S
    finally:
        shown.erase()
    if operation["state"] == "done":
        result: Document = operation["result"]
        return result
    error = operation["error"]
    status = 3 if error["code"] == "refused" else 1
    raise OperationFailed(f"{client.home.name}: {error['message']}", error["hint"], status)


def _poll_operation(client: JobClient, operation: Document, wait_s: float) -> Document:
    """Return the operation after some time. Raises Refusal."""
    path = f"/v1/operations/{operation['id']}?wait_s={wait_s}"
    try:
        status, document = client.send_request("GET", path, timeout_s=wait_s + ANSWER_MARGIN_S)
    except NotListening:
        message = f"the process of {client.home.name} has ended; the request's result is unknown"
        raise Refusal(message, describe_job_list(client.home), 1) from None
    except NoAnswer:
        # Its loop is blocked, or it is just ending.
        time.sleep(PAUSE_S)
        return {**operation, "progress": {"words": SILENT_TEXT}}
    if status != 200:
        raise Refusal(f"{client.home.name}: {document['error']['message']}", status=1)
    return document


SILENT_TEXT = "the job does not answer: a user function may be blocking it"


class ProgressLine:
    """Progress on standard error: one line on a terminal; elsewhere a line if a stop takes long."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.is_live = bool(sys.stderr) and sys.stderr.isatty()
        self._shown: str | None = None

    def show(self, operation: Document) -> None:
        """Show the progress of the operation."""
        text = escape_unprintable(describe_operation(operation))
        if self.is_live:
            click.echo(f"{ERASE_LINE}{text}", err=True, nl=False)
        elif operation["kind"] == "stop":
            if self._shown not in (None, text):
                hint = _describe_immediate_stop(self._home)
                click.echo(f"{self._home.name}: {text}; {hint}", err=True)
            self._shown = text

    def erase(self) -> None:
        """Erase the line."""
        if self.is_live:
            click.echo(ERASE_LINE, err=True, nl=False)


def describe_operation(operation: Document) -> str:
    """Describe the progress of an operation.

    >>> progress = {"words": "w", "done": 5e6, "of": 8e6}
    >>> describe_operation({"kind": "savepoint", "state": "running", "progress": progress})
    'savepoint: w, 5.0 of 8.0 MB'
    """
    progress = operation["progress"]
    text = progress["words"] or operation["state"]
    if "of" in progress:
        text += f", {progress['done'] / 1e6:,.1f} of {progress['of'] / 1e6:,.1f} MB"
    return f"{operation['kind']}: {text}"
