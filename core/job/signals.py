"""Signals as requests to a job: the first stops it, the second ends it at once, the third exits.

SIGINT, SIGTERM and SIGHUP are handled. SIGHUP means that the terminal was closed. It comes twice,
from the shell and from the system, so it stops a job if no other signal did, and never ends one. A
process that ignores it from the start (`nohup`) continues to ignore it.

Python's C handler writes the number of a signal to a pipe as soon as it comes, in any thread, and a
thread of this module reads it there. So a request counts even while the main thread imports, or
runs a user-defined function that gives neither the loop nor Python's handlers a turn. Blocking the
signals and waiting for them would do the same, but processes started by user code would inherit the
blocked signals, and could not be terminated.

Polars installs a hook on SIGINT when it is imported, which raises KeyboardInterrupt out of whatever
Polars computes when the signal comes. `reinstall` takes the signal back.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED_STATUS = 130
THREAD_GRACE_S = 30.0
"""The time for which a thread may run on after everything was asked to end."""

SignalRequest: TypeAlias = "Callable[[], object]"
_ACTIVE_HANDLERS: list[SignalHandler] = []
"""The active handlers; the last, which is the newest, handles signals for all."""


class SignalHandler:
    """Handles signals within `with`, in the main thread; outside, the old handlers are in place.

    A `with` that is never left handles them until the interpreter shuts down; then nothing is left
    that a signal could stop, and a signal does not change the exit status.
    """

    def __init__(self) -> None:
        self.count = 0
        """The number of signals so far."""
        self._job: tuple[SignalRequest, SignalRequest] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> SignalHandler:
        reading, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        self._thread = threading.Thread(
            target=self._listen, args=(reading,), name="headrace-signals", daemon=True
        )
        self._exit_timer = threading.Timer(THREAD_GRACE_S, os._exit, (INTERRUPTED_STATUS,))
        self._exit_timer.daemon = True
        before = {number: signal.getsignal(number) for number in HANDLED_SIGNALS}
        if before[signal.SIGHUP] is signal.SIG_IGN:
            del before[signal.SIGHUP]
        self._old_handlers = before
        self._old_wakeup_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        _ACTIVE_HANDLERS.append(self)
        self.reinstall()
        self._thread.start()
        atexit.register(_ignore_signals)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore_handlers()
        self._exit_timer.cancel()
        self._thread.join()
        atexit.unregister(_ignore_signals)

    def _restore_handlers(self) -> None:
        """Restore the old handlers; also in a child process, which handles its own signals."""
        if self in _ACTIVE_HANDLERS:
            _ACTIVE_HANDLERS.remove(self)
            signal.set_wakeup_fd(self._old_wakeup_fd)
            for number, handler in self._old_handlers.items():
                signal.signal(number, handler)
            os.close(self._write_fd)

    def reinstall(self) -> None:
        """Take the signals back from a library that has installed a hook on them."""
        if self in _ACTIVE_HANDLERS:
            for number in self._old_handlers:
                signal.signal(number, _python_handler)

    @contextmanager
    def send_to_job(self, request: SignalRequest, end: SignalRequest) -> Iterator[None]:
        """Send requests to a job, from another thread; signals that came before count at once."""
        with self._lock:
            self._job = (request, end)
            if self.count:
                request()
        try:
            yield
        finally:
            with self._lock:
                self._job = None

    def _listen(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                hung_up = number[0] == signal.SIGHUP
                if number[0] in HANDLED_SIGNALS and not (hung_up and self.count):
                    with self._lock:
                        self._handle_signal()

    def _handle_signal(self) -> None:
        self.count += 1
        if self.count == 2 and self._job is None:
            with suppress(OSError):
                os.write(2, b"stopped\n")
            os._exit(INTERRUPTED_STATUS)
        if self.count > 2:
            os._exit(INTERRUPTED_STATUS)
        if self._job is not None:
            request, end = self._job
            (request if self.count == 1 else end)()
        if self.count == 2:
            self._exit_timer.start()


def _python_handler(number: int, frame: object) -> None:
    """Do nothing: the Python-level handler, which runs when the main thread gets to it."""


def _ignore_signals() -> None:
    for number in HANDLED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _restore_all_handlers() -> None:
    """Leave all handlers in a child process, the newest first: each restores its predecessor's."""
    for signals in reversed(_ACTIVE_HANDLERS.copy()):
        signals._restore_handlers()


os.register_at_fork(after_in_child=_restore_all_handlers)
