"""The decision on what follows the end of a job's process, as a pure function.

    ended with                          then
    0, the input has ended              done
    0 or 130, a stop was requested      stopped
    0, a signal to the job alone        stopped
    0, the server is ending             stopped; the next server starts it
    1 or a signal                       failed; restarts after a delay
    anything else, such as 2 and 3      failed: another attempt would change nothing

A run whose end no server has seen (`status` is None) has ended as its log says. If it was stopped
by a signal then, the system was going down: it starts again.
"""

from __future__ import annotations

import signal

from headrace.cli.server.run_log import RunLog
from headrace.core.errors.interrupts import INTERRUPTED_STATUS
from headrace.core.types.lazy_dataclass import dataclass

FIRST_DELAY_S, MAX_DELAY_S = 1.0, 300.0
HEALTHY_AFTER_S = 600.0
"""The time after which a run counts as healthy, and the delays begin again."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The decision after a run."""

    status: str
    """`done`, `stopped` or `failed`."""
    reason: str = ""
    restarts: bool = False
    """Whether the job is started again after a delay."""
    stays_wanted: bool = False
    """Whether the next server starts the job."""


def decide_run_end(
    status: int | None, run: RunLog, *, is_server_ending: bool, is_stopped_at_once: bool = False
) -> RunEnd:
    """Decide what follows the end of a run.

    `is_stopped_at_once`: `headrace stop --now` has ended the process, if need be by a signal.
    """
    is_unseen = status is None
    code = run.exit_status if status is None else status
    if is_stopped_at_once:
        return RunEnd("stopped", "stopped at once")
    if code == 0 and run.summary is not None and run.summary["status"] == "stopped":
        stays = not run.is_stop_requested and (is_server_ending or is_unseen)
        return RunEnd("stopped", restarts=stays and is_unseen, stays_wanted=stays)
    if code == 0:
        return RunEnd("done")
    if code == INTERRUPTED_STATUS:
        stays = not run.is_stop_requested and is_server_ending
        return RunEnd("stopped", "stopped at once", stays_wanted=stays)
    restarts = code is None or code == 1 or code < 0
    reason = describe_exit(code, run)
    return RunEnd("failed", reason, restarts=restarts, stays_wanted=restarts)


def describe_exit(code: int | None, run: RunLog) -> str:
    """Describe how a process has failed.

    >>> describe_exit(-9, RunLog({}, [], []))
    'ended by SIGKILL'
    """
    if code is None:
        return "killed"
    if code < 0:
        names = {int(each): each.name for each in signal.Signals}
        return f"ended by {names.get(-code, f'signal {-code}')}"
    return run.reason or f"ended with exit status {code}"


def compute_delay_s(failures: int) -> float:
    """Compute the delay before a restart after a number of failures in a row.

    >>> [compute_delay_s(number) for number in (1, 2, 3, 20)]
    [1.0, 2.0, 4.0, 300.0]
    """
    return min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(failures - 1, 20))
