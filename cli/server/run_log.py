"""Events of a job's last run, read from its log.

The log says how a run ended even if nobody was there to wait for its process: what a server that
comes back decides, and what the history stores, are taken from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson

from headrace.cli.server.log_rotation import list_log_files
from headrace.core.types.lazy_dataclass import dataclass

LAUNCHED = "launched"
"""The event that the server writes before it starts a process."""

MAX_EVENTS = 200
"""The most checkpoints, and the most failures, of a run that are retained."""

MAX_LINE_BYTES = 2**20


@dataclass(slots=True)
class RunLog:
    """The events of a run."""

    launched: dict[str, Any]
    """The server's own line; empty if it is lost."""
    checkpoints: list[dict[str, Any]]
    failures: list[dict[str, Any]]
    """The failures of all attempts; the last one has an `exit_status` if it has ended the run."""
    progress: dict[str, Any] | None = None
    """The last counts."""
    summary: dict[str, Any] | None = None
    is_stop_requested: bool = False
    """Whether a client requested the stop."""
    resumed: dict[str, Any] | None = None
    """The checkpoint that the run has resumed from."""
    last_line: bytes = b""
    """The last line that is no event, such as one of the interpreter."""

    @property
    def exit_status(self) -> int | None:
        """The exit status by the last events; None if the process was killed."""
        if self.summary is not None:
            return 1 if self.summary["status"] == "failed" else 0
        ended = self.failures[-1].get("exit_status") if self.failures else None
        return int(ended) if ended is not None else None

    @property
    def newest_checkpoint(self) -> int:
        """The newest checkpoint of the run; 0 without one."""
        completed = [each["number"] for each in self.checkpoints if each["event"] == "checkpoint"]
        return max(completed, default=0)

    @property
    def has_state(self) -> bool:
        """Whether the run has resumed, or has completed a checkpoint."""
        return self.resumed is not None or self.newest_checkpoint > 0

    @property
    def reason(self) -> str:
        """Why the run has failed, as far as it has said so."""
        if self.failures:
            return str(self.failures[-1]["message"])
        return self.last_line.decode("utf-8", "replace").strip()

    @property
    def hint(self) -> str:
        """A hint at how to mend the last failure, if it has one."""
        return str(self.failures[-1].get("hint", "")) if self.failures else ""

    def add(self, event: dict[str, Any]) -> None:
        """Add an event."""
        match event["event"]:
            case "checkpoint" | "checkpoint_failed":
                self.checkpoints = [*self.checkpoints[1 - MAX_EVENTS :], event]
            case "restarting" | "failure" | "error":
                self.failures = [*self.failures[1 - MAX_EVENTS :], event]
            case "progress":
                self.progress = event
            case "summary":
                self.summary = event
            case "asked":
                self.is_stop_requested = True
            case "resumed":
                self.resumed = event


def read_last_run(path: str) -> RunLog:
    """Read the events of the last run in a log, across its rotated files.

    Printed rows may look like events; those of the run name its pipeline.
    """
    run = RunLog({}, [], [])
    for line in _iterate_lines(path):
        event = parse_event(line)
        if event is None:
            run.last_line = line
        elif event["event"] == LAUNCHED:
            run = RunLog(event, [], [])
        elif event["pipeline"] == run.launched.get("pipeline"):
            run.add(event)
    return run


def parse_event(line: bytes) -> dict[str, Any] | None:
    """Parse a line of a log; None if it is no event, but for example a printed row.

    >>> parse_event(b'{"event":"stopping","time":"08:00:00Z","pipeline":"p.yaml"}')
    {'event': 'stopping', 'time': '08:00:00Z', 'pipeline': 'p.yaml'}
    >>> parse_event(b'{"x": 1}')
    """
    if not line.startswith(b'{"event":"') or len(line) > MAX_LINE_BYTES:
        return None
    try:
        event: dict[str, Any] = orjson.loads(line)
    except ValueError:
        return None
    return event if event.keys() >= {"event", "time", "pipeline"} else None


def _iterate_lines(path: str) -> Iterator[bytes]:
    for each in list_log_files(path):
        # It may just be rotated again.
        with suppress(FileNotFoundError), open(each, "rb") as file:
            yield from file


def read_tail(path: str, size: int) -> bytes:
    """Return the last whole lines of a log, at most this many bytes."""
    try:
        with open(path, "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - size)
            file.seek(start)
            data = file.read(size)
    except FileNotFoundError:
        return b""
    return data.partition(b"\n")[2] if start else data
