"""Failpoints: named points at which a process can be killed, for tests that kill it just there.

Without HEADRACE_FAULT in the environment, as of the first import, a failpoint does nothing. The
variable names a failpoint and, after a colon, at which pass the process is killed: `noted:3`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def _build_failpoint(fault: str) -> Callable[[str], None]:
    """Return a function that kills the process at a failpoint."""
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


_fault = os.environ.get("HEADRACE_FAULT")
failpoint = _build_failpoint(_fault) if _fault else _ignore_failpoint
"""Mark a failpoint of this name."""
