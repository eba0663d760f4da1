"""Immediate stop of a job from another process: by request, by signals if the job does not answer.

A job that runs a user function on its loop answers no request, but handles signals. One whose user
code never releases the interpreter lock handles neither, and is killed. Either way the next run
resumes from the newest checkpoint, as after any kill. Tested in tests/cli/test_job_processes.py.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

from headrace.cli.control.client import JobClient, NoAnswer, NotListening, build_refusal
from headrace.cli.control.operation_wait import open_process
from headrace.cli.errors import Refusal
from headrace.core.api.snapshots import SnapshotError
from headrace.core.job.signals import END_GRACE_S, REPEAT_S

ANSWER_TIMEOUT_S = 1.0
"""The time that the job has to answer the request."""

END_TIMEOUT_S = 2 * END_GRACE_S
"""The time that the process has to end after the request, or after its second signal."""

SIGNALS = (
    (signal.SIGTERM, 2 * REPEAT_S),
    (signal.SIGTERM, END_TIMEOUT_S),
    (signal.SIGKILL, END_TIMEOUT_S),
)
"""The signals for a process that does not answer, and the time that each has to end it."""

PAUSE_S = 0.05


def stop_at_once(client: JobClient) -> None:
    """End the process of a job, and wait for its end. Raises Refusal."""
    pid = _find_process(client)
    process = open_process(pid)
    with suppress(OSError):
        client.home.mark_immediate_stop()
    try:
        if _request_stop(client) and _wait_for_end(client, END_TIMEOUT_S):
            return
        for number, wait_s in SIGNALS:
            _send_signal(client, pid, process, number)
            if _wait_for_end(client, wait_s):
                return
    finally:
        if process is not None:
            os.close(process)
    raise Refusal(f"{client.home.name} is still ending", "try again later", 1)


def _find_process(client: JobClient) -> int | None:
    """Return the process of the job, if the system reveals it. Raises Refusal if none runs."""
    with suppress(NotListening, NoAnswer):
        client.connect()
        if client.process_id is not None:
            return client.process_id
    try:
        held, holder = client.home.find_holder()
    except SnapshotError as error:
        raise Refusal(error.message, error.hint, 3) from None
    if not held:
        raise Refusal(f"{client.home.name} is not running", "there is nothing to stop", 3)
    return holder.pid if holder and holder.host == socket.gethostname() else None


def _request_stop(client: JobClient) -> bool:
    """Whether the job has received the request. Raises Refusal."""
    try:
        status, document = client.send_request(
            "POST", "/v1/stop", {"now": True}, timeout_s=ANSWER_TIMEOUT_S
        )
    except (NotListening, NoAnswer):
        return False
    if status not in (202, 409):  # 409: it has ended, and its process is about to
        raise build_refusal(status, document, client.home.name)
    return True


def _send_signal(
    client: JobClient, pid: int | None, process: int | None, number: signal.Signals
) -> None:
    """Send a signal to the job's process. Raises Refusal."""
    if pid is None or pid == os.getpid():
        raise Refusal(
            f"{client.home.name} does not answer, and its process is unknown here",
            "end it where it runs",
            1,
        )
    try:
        if process is not None:
            signal.pidfd_send_signal(process, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        hint = "run the command as the user who runs the job"
        raise Refusal(f"process {pid} belongs to another user", hint, 3) from None


def _wait_for_end(client: JobClient, wait_s: float) -> bool:
    """Whether the process has released the job's home within this time."""
    until_s = time.monotonic() + wait_s
    while client.home.find_holder()[0]:
        if time.monotonic() > until_s:
            return False
        time.sleep(PAUSE_S)
    return True
