"""Signals of this process, as requests."""

import os
import signal
import threading

from headrace.core.job.signals import HANDLED_SIGNALS, SignalHandler

LONGEST_S = 30.0


def nothing() -> None:
    """Do nothing: no test sends this request."""


def test_a_signal_asks_whoever_is_heard() -> None:
    asked = threading.Event()
    with SignalHandler() as signals, signals.send_to_job(asked.set, nothing):
        signal.raise_signal(signal.SIGINT)
        assert asked.wait(LONGEST_S)
    assert signals.count == 1


def test_the_second_signal_ends_it() -> None:
    asked, ended = threading.Event(), threading.Event()
    with SignalHandler() as signals, signals.send_to_job(asked.set, ended.set):
        signal.raise_signal(signal.SIGTERM)
        assert asked.wait(LONGEST_S)
        assert not ended.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert ended.wait(LONGEST_S)


def test_repeated_hangups_request_one_stop() -> None:
    asked: list[bool] = []
    ended = threading.Event()
    with SignalHandler() as signals, signals.send_to_job(lambda: asked.append(True), ended.set):
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
