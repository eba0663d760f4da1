"""A worker process as its coordinator sees it: how it is started, what it prints, how it ends.

The process gets two sockets besides its standard streams: one for messages, and the lifeline, on
which it sends a byte each second, and whose end tells it that the coordinator is gone. It ignores
the signals of a terminal from before its first instruction (`trap`): the coordinator stops it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field
from typing import IO, TypeAlias

from headrace.core.api.forked_children import release_descriptor, withhold_descriptor
from headrace.core.exchange.stream_end import SocketEnd
from headrace.core.processes.lifeline import drain
from headrace.core.types.lazy_dataclass import dataclass

SHIELD = """\
trap "" INT TERM HUP
setpriv --pdeathsig KILL true 2>/dev/null && exec setpriv --pdeathsig KILL "$@"
exec "$@"
"""
"""The shell's commands that run another one, which ignores the signals of a terminal.

Where there is `setpriv`, the system also ends it with its parent, before its first instruction: a
process that is stopped while Python starts would else live on until somebody continues it.
"""

EXIT_GRACE_S = 2.0
"""The time in which a process may end by itself before it is killed."""


PrintLine: TypeAlias = "Callable[[str, bool], None]"
"""Prints a line that a worker wrote, to standard error if the flag is true; called in a thread."""


@dataclass(slots=True)
class WorkerProcess:
    """One worker process."""

    number: int
    control: SocketEnd
    """The coordinator's end of the stream of messages."""
    lifeline: socket.socket
    """The coordinator's end of the lifeline."""
    _process: subprocess.Popen[bytes]
    _forwarders: list[threading.Thread] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def has_sign(self) -> bool:
        """Return whether the process has given a sign of life since the last call."""
        return drain(self.lifeline)

    async def wait(self) -> str:
        """Wait for the end as `wait_for_end` does, beside the event loop."""
        return await asyncio.to_thread(self.wait_for_end)

    def wait_for_end(self, timeout_s: float = EXIT_GRACE_S) -> str:
        """Wait for the end, and kill the process if it does not come; return how it ended.

        All that it has printed has been forwarded then.
        """
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        for thread in self._forwarders:
            thread.join(EXIT_GRACE_S)
        for each in (self.control.socket, self.lifeline):
            release_descriptor(each.fileno())
            each.close()
        return describe_status(status)


def describe_status(status: int) -> str:
    """Describe the status with which a process has ended.

    >>> describe_status(-9), describe_status(3)
    ('it was killed by SIGKILL', 'it ended with status 3')
    """
    if status >= 0:
        return f"it ended with status {status}"
    with suppress(ValueError):
        return f"it was killed by {signal.Signals(-status).name}"
    return f"it was killed by signal {-status}"


def start_process(
    number: int, module: str, environment: Mapping[str, str], print_line: PrintLine
) -> WorkerProcess:
    """Start a worker process that runs a module. Call it in the main thread.

    The process ends with the thread that has started it.
    """
    with ExitStack() as theirs:
        ends = [_open_pair(theirs) for _ in range(2)]
        passed = [end.fileno() for _, end in ends]
        process = subprocess.Popen(
            build_command(module, passed),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
            env=environment,
        )
    (control, _), (lifeline, _) = ends
    worker = WorkerProcess(number, SocketEnd(control), lifeline, process)
    assert process.stdout is not None
    assert process.stderr is not None
    worker._forwarders.extend(
        (
            _start_thread(_forward_lines, process.stdout, print_line, False),
            _start_thread(_forward_lines, process.stderr, print_line, True),
        )
    )
    return worker


def build_command(module: str, descriptors: Sequence[int]) -> list[str]:
    """Return the command of a worker process: nothing is imported from the current folder."""
    numbers = map(str, (os.getpid(), *descriptors))
    return ["sh", "-c", SHIELD, "sh", sys.executable, "-P", "-m", module, *numbers]


def _open_pair(theirs: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Open a pair of sockets; the second one is closed with the stack."""
    mine, other = socket.socketpair()
    withhold_descriptor(mine.fileno())
    theirs.enter_context(other)
    return mine, other


def _start_thread(work: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(
        target=work, args=arguments, name="headrace-worker-output", daemon=True
    )
    thread.start()
    return thread


def _forward_lines(stream: IO[bytes], print_line: PrintLine, is_error: bool) -> None:
    """Forward the lines of a stream, in order; a last line without an end gets one."""
    with stream:
        for line in stream:
            print_line(line.decode("utf-8", "replace").removesuffix("\n"), is_error)
