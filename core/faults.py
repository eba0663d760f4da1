"""Named points at which a process can be made to die: for tests that kill it just there.

Without HEADRACE_FAULT in the environment a point is nothing, from the first import on. It says a
name and, behind a colon, at which passing of that point the process is killed: `noted:3`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def _dying(fault: str) -> Callable[[str], None]:
    """Kills the process at a point."""
    name, _, times = fault.partition(":")
    left = int(times or 1)

    def point(passed: str) -> None:
        nonlocal left
        left -= passed == name
        if passed == name and not left:
            os.kill(os.getpid(), signal.SIGKILL)

    return point


def _nothing(passed: str) -> None:
    """Go on."""


_fault = os.environ.get("HEADRACE_FAULT")
point = _dying(_fault) if _fault else _nothing
"""The process has come to a point of that name."""
