"""A process that has imported headrace, and becomes a command for each request, by forking.

A new Python takes over a second of a core to import all of it, on which hundreds of tests would
wait. A forked process is one like any other: it has its own memory, streams, environment and
folder, and it can be killed.

A request is a connection over which the arguments, the environment and the three standard streams
come. The answer is the number of the process, and later how it has ended. It runs no thread and no
query of its own, which a fork would not take along.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from headrace.core.errors import failpoints
from headrace.core.errors.failpoints import COORDINATOR, VARIABLE, build_failpoint, select_fault

MODULE = "headrace.cli"
PACKAGES = ("cli", "connectors", "core", "state")
NOT_IMPORTED = ("spark", "batch", "root-package", "__main__")
"""Parts of names of modules that few commands import, or that are run."""
MOST_BYTES = 1 << 20


def serve(listener: socket.socket) -> dict[str, Any]:
    """Answer requests; return the request of a process that has been forked for it.

    Ends this process when there is nothing on its standard input any more.
    """
    waiting: dict[int, socket.socket] = {}
    ended, wakeup = socket.socketpair()
    for each in (ended, wakeup):
        each.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    with selectors.DefaultSelector() as selector:
        for source in (listener, ended, sys.stdin):
            selector.register(source, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if sys.stdin in ready:
                os._exit(0)
            if ended in ready:
                ended.recv(4096)
            _answer_ended(waiting)
            if listener in ready:
                connection, _ = listener.accept()
                request = _receive(connection)
                number = os.fork()
                if not number:
                    break
                for stream in request["streams"]:
                    os.close(stream)
                waiting[number] = connection
                connection.sendall(b"%d\n" % number)
    signal.set_wakeup_fd(-1)
    for each in (listener, connection, ended, wakeup, *waiting.values()):
        each.close()
    return request


def _answer_ended(waiting: dict[int, socket.socket]) -> None:
    """Tell of each process that has ended how it did."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with suppress(OSError), waiting.pop(ended[0]) as connection:
                connection.sendall(b"%d\n" % ended[1])


def _receive(connection: socket.socket) -> dict[str, Any]:
    text, streams, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
    while not text.endswith(b"\n"):
        text += connection.recv(MOST_BYTES)
    return {**json.loads(text), "streams": streams}


def become(request: dict[str, Any]) -> None:
    """Set up the process as a new Python would find it, and run the command in it."""
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = _open(0, "r", buffering=-1)
    sys.stdout = _open(1, "w", buffering=1 if os.isatty(1) else -1)
    sys.stderr = _open(2, "w", buffering=1, errors="backslashreplace")
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0] = os.getcwd()
    sys.argv = ["", *request["arguments"]]
    sys.orig_argv = [sys.executable, "-m", MODULE, *request["arguments"]]
    fault = select_fault(os.environ.get(VARIABLE, ""), COORDINATOR)
    failpoints.failpoint = build_failpoint(fault)
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


def _open(number: int, mode: str, **options: Any) -> Any:
    """Open a standard stream, whose number stays open when the stream is closed."""
    return open(number, mode, closefd=False, **options)


def import_commands() -> None:
    """Import all modules that a command may need, as far as their packages are installed."""
    for package in PACKAGES:
        root = import_module(f"headrace.{package}")
        for found in pkgutil.walk_packages(root.__path__, f"headrace.{package}."):
            if not {*found.name.split(".")} & {*NOT_IMPORTED}:
                with suppress(ImportError):
                    import_module(found.name)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener = socket.socket(fileno=int(sys.argv[1]))
    import_commands()
    gc.collect()
    gc.freeze()
    request = serve(listener)
    gc.unfreeze()
    become(request)


if __name__ == "__main__":
    main()
