"""The watch over workers that give no sign of life, and the lifeline of a real process."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.core.processes.lifeline import SilenceWatch
from tests.support.cli.worker_jobs import is_alive, wait_for

COORDINATOR = """\
import os, time
from headrace.core.processes.worker_process import start_process
print(start_process(1, "stopped_worker", os.environ, lambda line, is_error: None).pid, flush=True)
time.sleep(600)
"""
STOPPED = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"

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


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="the system has no setpriv")
def test_a_process_that_is_stopped_while_it_starts_is_gone_with_its_coordinator(
    tmp_path: Path,
) -> None:
    (tmp_path / "stopped_worker.py").write_text(STOPPED)
    with subprocess.Popen(
        [sys.executable, "-c", COORDINATOR],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
    ) as coordinator:
        assert coordinator.stdout is not None
        worker = int(coordinator.stdout.readline())
        state = Path(f"/proc/{worker}/stat")
        try:
            wait_for(lambda: ") T " in state.read_text(), "the worker does not stop")
            coordinator.kill()
            wait_for(lambda: not is_alive(worker), "the worker lives on")
        finally:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
