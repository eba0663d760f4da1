"""The lifeline of a worker process: it shows the coordinator that the process is alive, and ends it
when the coordinator is gone.

Both are the work of a thread, which runs beside user code. A process that gets no turn in
SILENCE_LIMIT_S, because user code never releases the interpreter, counts as lost.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress

from headrace.core.types.lazy_dataclass import dataclass

BEAT_S = 1.0
"""The time between two signs of life."""
SILENCE_LIMIT_S = 60.0
"""The time after which a silent worker is replaced."""
PR_SET_PDEATHSIG = 1


def hold_lifeline(lifeline: socket.socket, coordinator: int) -> None:
    """Send signs of life from now on, and end this process when its coordinator is gone."""
    _end_with_parent(coordinator)
    thread = threading.Thread(target=_beat, args=(lifeline,), name="headrace-lifeline", daemon=True)
    thread.start()


def _end_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent ends, where the system can do that."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before
        os._exit(1)


def _beat(lifeline: socket.socket) -> None:
    while True:
        ready, _, _ = select.select([lifeline], [], [], BEAT_S)
        try:
            if ready and not lifeline.recv(64):
                break
            lifeline.send(b".", socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue  # a coordinator that stands still does not read
        except OSError:
            break
    os._exit(1)


@dataclass(slots=True)
class SilenceWatch:
    """Tells for how long workers have been silent. Time in which nobody watched does not count.

    No clock: times are passed in. `check` is called every BEAT_S seconds.
    """

    silence_limit_s: float = SILENCE_LIMIT_S
    _checked_at: float | None = None
    _silence_s: float = 0.0

    def check(self, now: float, *, has_sign: bool) -> bool:
        """Count the time since the last check; return whether the worker counts as lost."""
        passed_s = 0.0 if self._checked_at is None else now - self._checked_at
        self._checked_at = now
        self._silence_s = 0.0 if has_sign else self._silence_s + min(passed_s, 2 * BEAT_S)
        return self._silence_s >= self.silence_limit_s


def drain(lifeline: socket.socket) -> bool:
    """Read the signs of life that have come; return whether there was one."""
    with suppress(BlockingIOError, InterruptedError):
        return bool(lifeline.recv(4096, socket.MSG_DONTWAIT))
    return False
