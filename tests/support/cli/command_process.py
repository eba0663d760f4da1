"""Commands in processes that are forked from one that has imported headrace.

`CommandProcess` is a `subprocess.Popen` of `headrace ARGUMENTS` that starts ten times as fast: see
`command_server`. Tests of the start itself begin processes of their own.
"""

from __future__ import annotations

import atexit
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.cli import command_client

HEADRACE = (sys.executable, "-m", "headrace.cli")
ROOT = Path(__file__).parents[3]


def start_headrace(
    *arguments: str, env: dict[str, str] | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """Start `headrace ARGUMENTS`, with the options of Popen."""
    return CommandProcess([*HEADRACE, *arguments], env=env, **options)


def run_headrace(
    *arguments: str, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `headrace ARGUMENTS` to its end, with the options of Popen; return its output."""
    pipe = subprocess.PIPE
    process = start_headrace(*arguments, stdout=pipe, stderr=pipe, text=True, **options)
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@cache
def write_command() -> Path:
    """Return a folder with a command `headrace`, for the search path of a shell."""
    folder = Path(_start_server()).parent / "bin"
    folder.mkdir()
    command = (sys.executable, "-I", "-S", command_client.__file__, _start_server())
    script = folder / "headrace"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o755)
    return folder


class CommandProcess(subprocess.Popen[Any]):
    """A command in a process that the server has forked, and for which it waits."""

    _server: socket.socket
    _answers: bytes = b""
    """What the server has sent and was not read."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        """Have the process forked. Popen calls it when it has opened the pipes."""
        folder, environment = rest[4], rest[5]
        pipes = stdin, _, _, stdout, _, stderr = rest[9:15]
        request = {
            "arguments": args[len(HEADRACE) :],
            "folder": os.path.abspath(folder or os.curdir),
            "environment": dict(os.environ if environment is None else environment),
        }
        popen: Any = self
        try:
            streams = [own if end == -1 else end for own, end in enumerate((stdin, stdout, stderr))]
            self._server = command_client.request_process(_start_server(), request, streams)
            self.pid = self._read_answer() or 0
            popen._child_created = True
        finally:
            popen._close_pipe_fds(*pipes)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """Return the process and how it has ended, or zeros while it runs, as waitpid does."""
        status = self._read_answer(waits=not wait_flags & os.WNOHANG)
        if status is None:
            return 0, 0
        self._server.close()
        return self.pid, status

    def _internal_poll(self, *unused: Any, **options: Any) -> int | None:
        """Return the exit status if the process has ended."""
        popen: Any = self
        if self.returncode is None and popen._waitpid_lock.acquire(False):
            try:
                number, status = self._try_wait(os.WNOHANG)
                if number and self.returncode is None:
                    popen._handle_exitstatus(status)
            finally:
                popen._waitpid_lock.release()
        return self.returncode

    def _read_answer(self, *, waits: bool = True) -> int | None:
        """Return the next number that the server sends; None if it has sent none yet."""
        self._server.setblocking(waits)
        while b"\n" not in self._answers:
            try:
                received = self._server.recv(64)
            except BlockingIOError:
                return None
            if not received:
                raise RuntimeError("the server of commands has ended")
            self._answers += received
        line, _, self._answers = self._answers.partition(b"\n")
        return int(line)


@cache
def _start_server() -> str:
    """Start the server of this process; return the address at which it listens."""
    folder = tempfile.TemporaryDirectory()
    address = os.path.join(folder.name, "commands")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(128)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.cli.command_server", str(listener.fileno())],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        start_new_session=True,
    )
    listener.close()

    def end() -> None:
        assert server.stdin is not None
        with folder, server:
            server.stdin.close()

    atexit.register(end)
    return address
