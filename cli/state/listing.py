"""List of all checkpoints and savepoints of a home."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.cli.control.naming import homes
from headrace.cli.state.values import aligned
from headrace.core.readable.sizes import bytes_in
from headrace.core.snapshots import Manifest, SnapshotError
from headrace.state.savepoints import names
from headrace.state.savepoints.savepoint import is_savepoint, open_savepoint
from headrace.state.storage.elsewhere import place_of
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.looking import cabinet_of


@dataclass(frozen=True, slots=True)
class Listed:
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

    def document(self) -> dict[str, object]:
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


def listed(root: str) -> list[Listed]:
    """List the checkpoints of all jobs in a folder of homes, then their savepoints.

    Raises Refusal.
    """
    checkpoints = [one for home in homes(root) for one in _checkpoints(home)]
    return [*checkpoints, *_savepoints(os.path.join(root, names.SAVEPOINTS))]


def all_said(found: Sequence[Listed]) -> str:
    """Format the list as a table."""
    lines = [["what", "kind", "taken at", "headrace", "bytes", ""]]
    for one in found:
        note = one.damaged or ("drained" if one.drained else "")
        size = "" if one.bytes is None else f"{one.bytes:,}"
        lines.append([one.what, one.kind, one.time or "", one.version or "", size, note])
    return aligned(lines, [False, False, False, False, True, False])


def _checkpoints(home: Home) -> Iterator[Listed]:
    """Yield the checkpoints of a job, the newest first."""
    try:
        if not home.disk.names(home.checkpoints) and place_of(home) is None:
            return
        store = cabinet_of(home).looked_at()
        numbers = store.manifests() if store else []
    except SnapshotError as error:
        yield Listed(home.name, "checkpoint", home.name, 0, damaged=error.message)
        return
    for number in reversed(numbers):
        what = f"{home.name}@{number}"
        try:
            assert store is not None
            yield _listed(what, "checkpoint", home.name, number, store.manifest(number))
        except SnapshotError as error:
            yield Listed(what, "checkpoint", home.name, number, damaged=error.message)


def _savepoints(root: str) -> Iterator[Listed]:
    for job in sorted(LocalDisk().names(root)):
        within = os.path.join(root, job)
        every = LocalDisk().names(within) if os.path.isdir(within) else ()
        for name in sorted(every, reverse=True):
            folder = os.path.join(within, name)
            if names.is_unfinished(name) or not is_savepoint(folder):
                continue
            try:
                savepoint = open_savepoint(folder)
                number = savepoint.number
                yield _listed(folder, "savepoint", job, number, savepoint.document)
            except SnapshotError as error:
                yield Listed(folder, "savepoint", job, 0, damaged=error.message)


def _listed(what: str, kind: str, job: str, number: int, document: Manifest) -> Listed:
    said: Any = document
    subtasks = [part["subtasks"] for part in said["parts"].values()]
    drained = bool(said.get("drained"))
    size, most = bytes_in(said["states"]), max(subtasks, default=1)
    return Listed(what, kind, job, number, said["time"], said["version"], most, size, drained)
