"""Signals as requests to a job: the first stops it, the second ends it within a second.

SIGINT, SIGTERM and SIGHUP are handled. SIGHUP means that the terminal was closed. It comes twice,
from the shell and from the system, so it stops a job if no other signal did, and never ends one. A
process that ignores it from the start (`nohup`) continues to ignore it. Some programs send a signal
twice for one request (GNU `timeout`: to the process, and to its group), so signals within
REPEAT_S of the first count as the first.

Python's C handler writes the number of a signal to a pipe as soon as it comes, in any thread, and a
thread of this module reads it there. So a request counts even while the main thread imports, or
runs a user-defined function that gives neither the loop nor Python's handlers a turn. Blocking the
signals and waiting for them would do the same, but processes started by user code would inherit the
blocked signals, and could not be terminated. This thread never waits for anything but signals: what
may wait, such as printing to a terminal that nobody reads, runs in a thread of its own.

Polars installs a hook on SIGINT when it is imported, which raises KeyboardInterrupt out of whatever
Polars computes when the signal comes. `reinstall` takes the signal back.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from headrace.core.errors.interrupts import INTERRUPTED_STATUS

HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REPEAT_S = 0.2
"""Signals within this time of the first are the same request."""

END_GRACE_S = 0.7
"""The time for which a job may discard its open output after the second signal."""

PRINT_GRACE_S = 0.1
"""The time for which text may wait for its reader, which may never read."""

STOPPED_TEXT = "stopped"

SignalRequest: TypeAlias = "Callable[[], object]"
_ACTIVE_HANDLERS: list[SignalHandler] = []
"""The active handlers; the last, which is the newest, handles signals for all."""


class SignalHandler:
    """Handles signals within `with`, in the main thread; outside, the old handlers are in place.

    A `with` that is never left handles them until the interpreter shuts down; then nothing is left
    that a signal could stop, and a signal does not change the exit status.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        """The number of requests so far."""
        self.announce_stop: Callable[[], None] = _do_nothing
        """Prints once that the first signal was received; it may wait for its reader."""
        self.describe_end: Callable[[], str] = lambda: STOPPED_TEXT
        """Returns the last line of a process that ends at once; it must not wait."""
        self._clock = clock
        self._first_s = 0.0
        self._is_announced = False
        self._is_ending = False
        self._exits = False
        """Whether the process is this handler's to end: it is, once the handler was entered."""
        self._job: tuple[SignalRequest, SignalRequest | None] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> SignalHandler:
        reading, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        self._thread = threading.Thread(
            target=self._listen, args=(reading,), name="headrace-signals", daemon=True
        )
        self._exit_timer = threading.Timer(END_GRACE_S, self._exit_process)
        self._exit_timer.daemon = True
        self._exits = True
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
        self._exits = False
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

    def announce_with(self, announce: Callable[[], None]) -> None:
        """Announce the first signal by this function: at once if it has come already."""
        with self._lock:
            self.announce_stop = announce
            if self.count:
                self._announce()

    @contextmanager
    def send_to_job(self, request: SignalRequest, end: SignalRequest | None) -> Iterator[None]:
        """Send requests to a job, from another thread; signals that came before count at once.

        Neither function may wait: while one runs, no signal is handled. Without `end` there is
        nothing to discard, and the second signal ends the process without delay.
        """
        with self._lock:
            self._job = (request, end)
            if self.count:
                request()
        try:
            yield
        finally:
            with self._lock:
                self._job = None

    def end_at_once(self) -> None:
        """End the job and the process as the second signal does, from any thread."""
        with self._lock:
            self.count = max(self.count, 2)
            self._end()

    def _listen(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                self.handle(number[0])

    def handle(self, number: int) -> None:
        """Handle one signal."""
        is_hangup = number == signal.SIGHUP
        with self._lock:
            if number not in HANDLED_SIGNALS or (is_hangup and self.count):
                return
            if not self.count:
                self.count, self._first_s = 1, self._clock()
                self._announce()
                if self._job is not None:
                    self._job[0]()
            elif self._clock() - self._first_s >= REPEAT_S:
                self.count += 1
                self._end()

    def _announce(self) -> None:
        if not self._is_announced and self.announce_stop is not _do_nothing:
            self._is_announced = True
            try_to_print(self.announce_stop)

    def _end(self) -> None:
        """End the job, and the process after END_GRACE_S, or at once if it runs no job."""
        if self._is_ending:
            return
        self._is_ending = True
        discard = self._job and self._job[1]
        if self._exits and not discard:
            self._exit_process()
        if self._exits:
            self._exit_timer.start()
        if discard:
            discard()

    def _exit_process(self) -> None:
        """End the process, whatever it does; its last line is lost if nobody reads it."""
        with suppress(Exception):
            text = self.describe_end()
            if text:
                try_to_print(lambda: os.write(2, f"{text}\n".encode()))
        os._exit(INTERRUPTED_STATUS)


def try_to_print(show: Callable[[], object]) -> None:
    """Print in a thread, and wait a moment for it: the reader may have stopped reading."""

    def work() -> None:
        with suppress(Exception):
            show()

    thread = threading.Thread(target=work, name="headrace-print", daemon=True)
    with suppress(RuntimeError):  # the system has no thread left
        thread.start()
        thread.join(PRINT_GRACE_S)


def _do_nothing() -> None:
    """Announce nothing."""


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
