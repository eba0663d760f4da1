"""Signals as requests to a job: one asks, a second ends it, a third waits for nothing.

SIGINT and SIGTERM are heard, and SIGHUP, which says that the terminal was closed. That one comes
twice, from the shell and from the system, so it asks when nothing else did and never ends a job.
Who ignores it from the start (`nohup`) does not hear it.

Python's C handler writes the number of a signal to a pipe the moment it comes, in whatever thread,
and a thread of our own reads it there. So a request is counted even while the main thread imports,
or stands in a user's function that gives neither the loop nor Python's handlers a turn. Blocking
both signals and waiting for them would do the same, but processes that a user's function starts
inherit what is blocked, and could not be terminated.

Polars puts a hook on SIGINT when it is imported, and then raises KeyboardInterrupt out of whatever
it computes when a signal comes. `renew` takes the signal back.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130
PATIENCE_S = 30.0
"""How long a thread may go on after everything was told to end."""

Request: TypeAlias = "Callable[[], object]"
_ENTERED: list[Signals] = []
"""Who hears now; the newest, last, hears for all."""


class Signals:
    """Hears signals from `with` on, in the main thread; before and after, they do what they did.

    Whoever never leaves the `with` is heard until Python takes itself apart; from then on nothing
    is left that a signal could ask for, and it changes no exit status.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many came so far."""
        self._job: tuple[Request, Request] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Signals:
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._thread = threading.Thread(
            target=self._listen, args=(reading,), name="headrace-signals", daemon=True
        )
        self._patience = threading.Timer(PATIENCE_S, os._exit, (INTERRUPTED,))
        self._patience.daemon = True
        before = {number: signal.getsignal(number) for number in HEARD}
        if before[signal.SIGHUP] is signal.SIG_IGN:
            del before[signal.SIGHUP]
        self._before = before
        self._pipe_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        _ENTERED.append(self)
        self.renew()
        self._thread.start()
        atexit.register(_ignore)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        self._patience.cancel()
        self._thread.join()
        atexit.unregister(_ignore)

    def _leave(self) -> None:
        """Also in a child, which shares the pipe: a signal of its own is none of ours."""
        if self in _ENTERED:
            _ENTERED.remove(self)
            signal.set_wakeup_fd(self._pipe_before)
            for number, handler in self._before.items():
                signal.signal(number, handler)
            os.close(self._writing)

    def renew(self) -> None:
        """Take the signals back from whoever has put a hook on them."""
        if self in _ENTERED:
            for number in self._before:
                signal.signal(number, _written_already)

    @contextmanager
    def heard(self, ask: Request, end: Request) -> Iterator[None]:
        """Within this, requests go to a job, from another thread; one that is late, at once."""
        with self._lock:
            self._job = (ask, end)
            if self.count:
                ask()
        try:
            yield
        finally:
            with self._lock:
                self._job = None

    def _listen(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as numbers:
            while number := numbers.read(1):
                hung_up = number[0] == signal.SIGHUP
                if number[0] in HEARD and not (hung_up and self.count):
                    with self._lock:
                        self._came()

    def _came(self) -> None:
        self.count += 1
        if self.count == 2 and self._job is None:
            with suppress(OSError):
                os.write(2, b"stopped\n")
            os._exit(INTERRUPTED)
        if self.count > 2:
            os._exit(INTERRUPTED)
        if self._job is not None:
            ask, end = self._job
            (ask if self.count == 1 else end)()
        if self.count == 2:
            self._patience.start()


def _written_already(number: int, frame: object) -> None:
    """The handler of Python's own, which runs whenever the main thread comes to it."""


def _ignore() -> None:
    for number in HEARD:
        signal.signal(number, signal.SIG_IGN)


def _leave_all() -> None:
    """In a child: the newest first, for each puts back what the one before it had put there."""
    for signals in reversed(_ENTERED.copy()):
        signals._leave()


os.register_at_fork(after_in_child=_leave_all)
