"""Signals of this process, as requests."""

import os
import signal
import threading
from functools import partial
from itertools import count

import pytest

from headrace.core.job import signals as signals_module
from headrace.core.job.signals import HANDLED_SIGNALS, REPEAT_S, SignalHandler

LONGEST_S = 30.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second signal ends a job, and not this process."""
    monkeypatch.setattr(signals_module, "END_GRACE_S", 1000.0)


def nothing() -> None:
    """Do nothing: no test sends this request."""


def test_a_signal_asks_whoever_is_heard() -> None:
    asked = threading.Event()
    with SignalHandler() as signals, signals.send_to_job(asked.set, nothing):
        signal.raise_signal(signal.SIGINT)
        assert asked.wait(LONGEST_S)
    assert signals.count == 1


def each_second() -> SignalHandler:
    """A handler to which each signal comes a second after the one before."""
    return SignalHandler(partial(next, count()))


def test_the_second_signal_ends_it() -> None:
    asked, ended = threading.Event(), threading.Event()
    with each_second() as signals, signals.send_to_job(asked.set, ended.set):
        signal.raise_signal(signal.SIGTERM)
        assert asked.wait(LONGEST_S)
        assert not ended.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert ended.wait(LONGEST_S)


def test_signals_that_come_together_count_as_one() -> None:
    times = iter([0.0, 0.0, REPEAT_S * 0.9, REPEAT_S * 1.1])
    signals = SignalHandler(partial(next, times))
    sent: list[str] = []
    with signals.send_to_job(lambda: sent.append("ask"), lambda: sent.append("end")):
        for _ in range(2):
            signals.handle(signal.SIGTERM)
        assert sent == ["ask"]
        signals.handle(signal.SIGINT)
        assert sent == ["ask"]
        signals.handle(signal.SIGINT)
        assert sent == ["ask", "end"]


def test_the_first_signal_is_announced_once_though_nothing_is_read_of_it() -> None:
    told, released = threading.Semaphore(0), threading.Event()

    def announce() -> None:
        told.release()
        released.wait(LONGEST_S)

    sent: list[str] = []
    signals = SignalHandler(partial(next, count()))
    signals.handle(signal.SIGINT)
    signals.announce_with(announce)
    with signals.send_to_job(lambda: sent.append("ask"), lambda: sent.append("end")):
        signals.handle(signal.SIGINT)
    released.set()
    assert sent == ["ask", "end"]
    assert told.acquire(timeout=LONGEST_S)
    assert not told.acquire(blocking=False)


def test_a_request_ends_it_as_the_second_signal_does() -> None:
    sent: list[str] = []
    signals = SignalHandler()
    with signals.send_to_job(lambda: sent.append("ask"), lambda: sent.append("end")):
        signals.end_at_once()
        signals.handle(signal.SIGINT)
    assert sent == ["end"]


def test_repeated_hangups_request_one_stop() -> None:
    asked: list[bool] = []
    ended = threading.Event()
    with each_second() as signals, signals.send_to_job(lambda: asked.append(True), ended.set):
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGHUP, signal.SIGTERM):
            signal.raise_signal(number)
        assert ended.wait(LONGEST_S)
    assert (asked, signals.count) == ([True], 2)


def test_a_hangup_is_ignored_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalHandler() as signals:
            signals.reinstall()
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert signals.count == 0


def test_a_signal_from_before_the_job_asks_at_once() -> None:
    asked: list[bool] = []
    signals = SignalHandler()
    with signals:
        signal.raise_signal(signal.SIGINT)
    with signals.send_to_job(lambda: asked.append(True), nothing):
        assert asked == [True]


def test_other_signals_are_none_of_ours() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: came.append(number))
    try:
        with SignalHandler() as signals:
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (came, signals.count) == ([signal.SIGUSR1], 0)


def test_whoever_leaves_finds_everything_as_it_was() -> None:
    def state() -> object:
        pipe = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(pipe)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        handlers = [signal.getsignal(number) for number in HANDLED_SIGNALS]
        return pipe, mask, handlers, threading.active_count(), len(os.listdir("/dev/fd"))

    before = state()
    with SignalHandler():
        assert state() != before
    assert state() == before


def test_a_forked_child_hears_its_own_signals_in_its_own_way() -> None:
    # Each of them has replaced the handlers of its predecessor.
    with SignalHandler(), SignalHandler(), SignalHandler() as signals:
        child = os.fork()
        if child == 0:
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
    assert signals.count == 0
