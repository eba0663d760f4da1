"""Children that user code forks: what they let go of, and where they end.

A child shares the open files of its parent, so the home of a finished job would stay locked, and
its port taken, while a child lives. In a child, therefore, the descriptors that belong to the job
lead nowhere. A child of `os.fork()` that leaves the user's function would run the job a second time
and write its output twice; it ends there instead. Children of `subprocess` and `multiprocessing`
never come that far. Tested in tests/cli/test_user_processes.py.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import socket

T = TypeVar("T")

_JOB_DESCRIPTORS: set[int] = set()
_fork_depth = 0
"""The number of forks up to this process: os.getpid() would be a system call for each batch."""


def withhold_descriptor(descriptor: int) -> None:
    """Withhold a descriptor from forked children, until `release_descriptor`."""
    _JOB_DESCRIPTORS.add(descriptor)


def release_descriptor(descriptor: int) -> None:
    """Release a descriptor before it is closed: its number may be given to another file."""
    _JOB_DESCRIPTORS.discard(descriptor)


@contextmanager
def withhold_socket(opened: socket.socket) -> Iterator[socket.socket]:
    """Withhold a socket from forked children within the `with`."""
    descriptor = opened.fileno()
    withhold_descriptor(descriptor)
    try:
        yield opened
    finally:
        release_descriptor(descriptor)


def call_in_parent(work: Callable[[], T]) -> T:
    """Do work that may call user code; a child that it forked does not come back."""
    depth = _fork_depth
    try:
        return work()
    finally:
        if _fork_depth != depth:
            _end_child(sys.exception())


def _end_child(error: BaseException | None) -> None:
    """End this child as Python ends a program; without buffers, which are the parent's as well."""
    status = 0
    with suppress(BaseException):
        match error:
            case None:
                os.write(2, b"a child forked by user code has left its function, and ends\n")
            case SystemExit(code=code):
                status = code if isinstance(code, int) else int(code is not None)
            case _:
                status = 1
                os.write(2, "".join(traceback.format_exception(error)).encode())
    os._exit(status)


def _set_up_child() -> None:
    """Note the fork, and let go of the descriptors of the job."""
    global _fork_depth
    _fork_depth += 1
    if not _JOB_DESCRIPTORS:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in _JOB_DESCRIPTORS:
        with suppress(OSError):
            # Not closed: its object would later close the number, which may be of another file.
            os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)
    _JOB_DESCRIPTORS.clear()


os.register_at_fork(after_in_child=_set_up_child)
