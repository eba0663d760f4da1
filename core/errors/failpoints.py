"""Failpoints: named points at which a process can be killed, for tests that kill it just there.

Without HEADRACE_FAULT in the environment, as of the first import, a failpoint does nothing. The
variable names a failpoint and, after a colon, at which pass the process is killed: `noted:3`.
Of a job with workers, it may first name the process: `coordinator: noted:3`, `worker 2: noted:3`.
Without a name it concerns each of them. The successor of a lost worker has no fault.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

VARIABLE = "HEADRACE_FAULT"
COORDINATOR = "coordinator"
_NAMED_PROCESS = re.compile(r"(coordinator|worker \d+): *(.*)")


def select_fault(fault: str, process: str) -> str:
    """Return the fault that a process has; empty if it concerns another one.

    >>> select_fault("worker 2: noted:3", "worker 2"), select_fault("noted:3", "worker 2")
    ('noted:3', 'noted:3')
    >>> select_fault("worker 2: noted:3", "coordinator")
    ''
    """
    named = _NAMED_PROCESS.fullmatch(fault)
    if named is None:
        return fault
    return named[2] if named[1] == process else ""


def build_failpoint(fault: str) -> Callable[[str], None]:
    """Return a function that kills the process at a failpoint; without a fault, it continues."""
    if not fault:
        return _ignore_failpoint
    name, _, times = fault.partition(":")
    remaining = int(times or 1)

    def point(passed: str) -> None:
        nonlocal remaining
        remaining -= passed == name
        if passed == name and not remaining:
            os.kill(os.getpid(), signal.SIGKILL)

    return point


def _ignore_failpoint(passed: str) -> None:
    """Continue."""


failpoint = build_failpoint(select_fault(os.environ.get(VARIABLE, ""), COORDINATOR))
"""Mark a failpoint of this name."""
