"""What follows the end of a run, by its exit status and its log."""

import signal
from typing import Any

import pytest

from headrace.cli.server.restart_decision import RunEnd, decide_run_end
from headrace.cli.server.run_log import RunLog


def log(*events: dict[str, Any]) -> RunLog:
    """A log with these events."""
    run = RunLog({}, [], [])
    for event in events:
        run.add(event)
    return run


ASKED = {"event": "asked"}
STOPPED = {"event": "summary", "status": "stopped"}
DONE = {"event": "summary", "status": "done"}
REFUSED = {"event": "failure", "message": "out is not empty", "exit_status": 3}
FAILED = {"event": "failure", "message": "no such luck", "exit_status": 1}
FAILED_SUMMARY = {"event": "summary", "status": "failed"}


@pytest.mark.parametrize(
    ("status", "events", "is_server_ending", "end"),
    [
        (0, [DONE], False, RunEnd("done")),
        (0, [ASKED, STOPPED], False, RunEnd("stopped")),
        (0, [ASKED, STOPPED], True, RunEnd("stopped")),
        (0, [STOPPED], False, RunEnd("stopped")),
        (0, [STOPPED], True, RunEnd("stopped", stays_wanted=True)),
        (130, [], False, RunEnd("stopped", "stopped at once")),
        (130, [], True, RunEnd("stopped", "stopped at once", stays_wanted=True)),
        (130, [ASKED], True, RunEnd("stopped", "stopped at once")),
        (3, [REFUSED], False, RunEnd("failed", "out is not empty")),
        (2, [], False, RunEnd("failed", "ended with exit status 2")),
        (
            1,
            [FAILED, FAILED_SUMMARY],
            False,
            RunEnd("failed", "no such luck", restarts=True, stays_wanted=True),
        ),
        (
            -signal.SIGKILL,
            [],
            False,
            RunEnd("failed", "ended by SIGKILL", restarts=True, stays_wanted=True),
        ),
        # Nobody waited for the process: its log says how it has ended.
        (None, [], False, RunEnd("failed", "killed", restarts=True, stays_wanted=True)),
        (None, [ASKED, STOPPED], False, RunEnd("stopped")),
        (None, [STOPPED], False, RunEnd("stopped", restarts=True, stays_wanted=True)),
        (None, [DONE], False, RunEnd("done")),
        (None, [REFUSED], False, RunEnd("failed", "out is not empty")),
        (
            None,
            [FAILED, FAILED_SUMMARY],
            False,
            RunEnd("failed", "no such luck", restarts=True, stays_wanted=True),
        ),
    ],
)
def test_the_end_of_a_run_decides_what_follows(
    status: int | None, events: list[dict[str, Any]], is_server_ending: bool, end: RunEnd
) -> None:
    assert decide_run_end(status, log(*events), is_server_ending=is_server_ending) == end


def test_a_job_that_was_killed_by_a_stop_at_once_is_stopped() -> None:
    end = decide_run_end(-signal.SIGKILL, log(), is_server_ending=False, is_stopped_at_once=True)
    assert end == RunEnd("stopped", "stopped at once")
