"""The watch over workers that give no sign of life, and the lifeline of a real process."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from headrace.core.processes.lifeline import SilenceWatch

HOLDER = """\
import os, socket, sys, time
from headrace.core.processes.lifeline import hold_lifeline
hold_lifeline(socket.socket(fileno=int(sys.argv[1])), os.getppid())
print("held", flush=True)
time.sleep(600)
"""


def test_a_worker_is_lost_after_a_silence() -> None:
    watch = SilenceWatch(silence_limit_s=3)
    assert not watch.check(0, has_sign=True)
    assert [watch.check(now, has_sign=False) for now in (1, 2, 3, 4)] == [False, False, True, True]


def test_a_sign_of_life_ends_a_silence() -> None:
    watch = SilenceWatch(silence_limit_s=3)
    signs = [False, False, True, False, False, True]
    assert not any(watch.check(now, has_sign=sign) for now, sign in enumerate(signs))


def test_time_in_which_nobody_watched_does_not_count() -> None:
    watch = SilenceWatch(silence_limit_s=60)
    watch.check(0, has_sign=True)
    assert not watch.check(1000, has_sign=False)


def test_a_process_shows_that_it_lives_and_ends_with_its_lifeline() -> None:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        theirs.close()
        assert process.stdout.readline() == b"held\n"
        ours.settimeout(30)
        assert ours.recv(1) == b"."
        ours.close()
        assert process.wait(30) == 1
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
