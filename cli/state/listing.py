"""List of all checkpoints and savepoints of a home."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.cli.control.naming import list_homes
from headrace.cli.state.values import align_table
from headrace.core.readable.sizes import sum_bytes
from headrace.core.snapshots import Manifest, SnapshotError
from headrace.state.savepoints import names
from headrace.state.savepoints.savepoint import is_savepoint, open_savepoint
from headrace.state.storage.elsewhere import read_location
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.looking import open_repository


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A checkpoint or savepoint in the list; `what` is its name in commands."""

    what: str
    kind: str
    job: str
    checkpoint: int
    time: str | None = None
    version: str | None = None
    parallelism: int | None = None
    bytes: int | None = None
    drained: bool = False
    damaged: str | None = None

    def build_document(self) -> dict[str, object]:
        """Return the entry as plain data."""
        return {
            "what": self.what,
            "kind": self.kind,
            "job": self.job,
            "checkpoint": self.checkpoint,
            "time": self.time,
            "version": self.version,
            "parallelism": self.parallelism,
            "bytes": self.bytes,
            "drained": self.drained,
            "damaged": self.damaged,
        }


def list_snapshots(root: str) -> list[SnapshotEntry]:
    """List the checkpoints of all jobs in a folder of homes, then their savepoints.

    Raises Refusal.
    """
    checkpoints = [one for home in list_homes(root) for one in _list_checkpoints(home)]
    return [*checkpoints, *_list_savepoints(os.path.join(root, names.SAVEPOINTS))]


def format_snapshots(found: Sequence[SnapshotEntry]) -> str:
    """Format the list as a table."""
    lines = [["what", "kind", "taken at", "headrace", "bytes", ""]]
    for one in found:
        note = one.damaged or ("drained" if one.drained else "")
        size = "" if one.bytes is None else f"{one.bytes:,}"
        lines.append([one.what, one.kind, one.time or "", one.version or "", size, note])
    return align_table(lines, [False, False, False, False, True, False])


def _list_checkpoints(home: Home) -> Iterator[SnapshotEntry]:
    """Yield the checkpoints of a job, the newest first."""
    try:
        if not home.disk.list_names(home.checkpoint_folder) and read_location(home) is None:
            return
        store = open_repository(home).open_read_only()
        numbers = store.list_checkpoints() if store else []
    except SnapshotError as error:
        yield SnapshotEntry(home.name, "checkpoint", home.name, 0, damaged=error.message)
        return
    for number in reversed(numbers):
        what = f"{home.name}@{number}"
        try:
            assert store is not None
            yield _describe_snapshot(
                what, "checkpoint", home.name, number, store.read_manifest(number)
            )
        except SnapshotError as error:
            yield SnapshotEntry(what, "checkpoint", home.name, number, damaged=error.message)


def _list_savepoints(root: str) -> Iterator[SnapshotEntry]:
    for job in sorted(LocalDisk().list_names(root)):
        within = os.path.join(root, job)
        every = LocalDisk().list_names(within) if os.path.isdir(within) else ()
        for name in sorted(every, reverse=True):
            folder = os.path.join(within, name)
            if names.is_unfinished(name) or not is_savepoint(folder):
                continue
            try:
                savepoint = open_savepoint(folder)
                number = savepoint.number
                yield _describe_snapshot(folder, "savepoint", job, number, savepoint.document)
            except SnapshotError as error:
                yield SnapshotEntry(folder, "savepoint", job, 0, damaged=error.message)


def _describe_snapshot(
    what: str, kind: str, job: str, number: int, document: Manifest
) -> SnapshotEntry:
    said: Any = document
    subtasks = [part["subtasks"] for part in said["parts"].values()]
    drained = bool(said.get("drained"))
    size, most = sum_bytes(said["states"]), max(subtasks, default=1)
    return SnapshotEntry(
        what, kind, job, number, said["time"], said["version"], most, size, drained
    )
