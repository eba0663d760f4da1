"""Export of savepoints of a running job, each in a process of its own.

A thread of the job starts the process and follows its progress. The process has a lower priority
than the job (`nice`), and does not share its interpreter lock, so that the job keeps its speed. Its
output is lines of JSON: progress, and finally the savepoint's location or the error. It ends with
the job's process or when terminated, and then leaves nothing incomplete.

    python -m headrace.cli.control.savepoint_export '{"root": ..., "name": ..., "number": 7, ...}'
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, Protocol, TypeAlias

import orjson

from headrace.core.api.kernel_executor import KernelExecutor, wait_until_done
from headrace.core.api.snapshots import RefusedSnapshot, SnapshotError, StoreError
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.home import Home

PROGRESS_INTERVAL_S = 0.2
"""The least time between two progress messages."""


ByteProgress: TypeAlias = "Callable[[int, int], None]"
"""Called with the bytes written and the total; an exception that it raises ends the writing."""


SavepointExport: TypeAlias = "Callable[[int, str | None, ByteProgress], str]"
"""Makes a savepoint of a checkpoint at a location, by default among the job's; returns its path.

It may take long. Raises SnapshotError, and then leaves no incomplete savepoint.
"""


class ProgressReceiver(Protocol):
    """A receiver of progress, in words and numbers."""

    def __call__(self, words: str, **numbers: float) -> None:
        """Receive progress."""
        ...


class SavepointAbandoned(Exception):
    """A savepoint was abandoned."""


@dataclass(slots=True)
class SavepointProcess:
    """Writer of savepoints."""

    export: SavepointExport
    kernel_executor: KernelExecutor = field(default_factory=KernelExecutor)
    is_abandoned: bool = False
    """Whether the savepoint being written is abandoned."""

    async def save(self, number: int, to: str | None, say: ProgressReceiver) -> str:
        """Make a savepoint; return its path. Raises SnapshotError, SavepointAbandoned."""
        loop = asyncio.get_running_loop()
        last = 0.0

        def report(written: int, of: int) -> None:
            nonlocal last
            if self.is_abandoned:
                raise SavepointAbandoned
            if time.monotonic() - last >= PROGRESS_INTERVAL_S:
                last = time.monotonic()
                words = f"writing a savepoint from checkpoint {number}"
                loop.call_soon_threadsafe(partial(say, words, done=written, of=of))

        work = partial(self.export, number, to, report)
        writing = asyncio.ensure_future(self.kernel_executor.run_blocking(work))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            self.is_abandoned = True
            await wait_until_done(writing)
            raise


NICE_INCREMENT = 10


CLEANUP_TIMEOUT_S = 20.0
"""The time that the process may take to clean up."""


def export_savepoint(
    home: Home, version: str, number: int, to: str | None, report: ByteProgress
) -> str:
    """Make a savepoint of a checkpoint, and return its location.

    Raises SnapshotError, and whatever `report` raises.
    """
    wanted = {
        "root": home.root,
        "name": home.name,
        "version": version,
        "number": number,
        "to": to,
    }
    command = [sys.executable, "-P", "-m", __name__, orjson.dumps(wanted).decode()]
    # In a session of its own: Ctrl-C goes to the job, which decides whether to end the process.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            return _follow_process(process, report)
        finally:
            _end_process(process)


def _follow_process(process: subprocess.Popen[bytes], report: ByteProgress) -> str:
    """Pass on the progress of the process; return the savepoint's location."""
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        answer: Any = orjson.loads(line)
        match answer:
            case {"done": int(done), "of": int(of)}:
                report(done, of)
            case {"path": str(path)}:
                return path
            case {"message": str(message), "hint": str(hint), "status": int(status)}:
                raise (RefusedSnapshot if status == RefusedSnapshot.exit_status else StoreError)(
                    message, hint
                )
    last = process.stderr.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    why = last[0] if last else f"it ended with {process.wait()}"
    raise StoreError(f"the process that writes savepoints has failed: {why}", "try again")


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """End the process, by force if it takes too long."""
    process.terminate()
    try:
        process.wait(CLEANUP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()


def main(wanted: str) -> None:
    """Write the savepoint, and print progress and result."""
    from headrace.state.savepoints.creation import take_savepoint
    from headrace.state.storage.local_disk import LocalDisk

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    os.nice(NICE_INCREMENT)
    message = orjson.loads(wanted)
    home = Home(LocalDisk(), message["root"], message["name"])

    def report(done: int, of: int) -> None:
        _print_json({"done": done, "of": of})

    try:
        _print_json(
            {
                "path": take_savepoint(
                    home, message["version"], message["number"], message["to"], report
                )
            }
        )
    except SnapshotError as error:
        _print_json({"message": error.message, "hint": error.hint, "status": error.exit_status})


def _print_json(what: dict[str, object]) -> None:
    sys.stdout.buffer.write(orjson.dumps(what, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
