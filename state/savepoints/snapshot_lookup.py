"""Lookup of snapshots by the user's names: a savepoint's folder, or JOB or JOB@N for a checkpoint.

JOB is the newest checkpoint of the job's home, and JOB@N its checkpoint N.
Everything is read without a lock, and nothing is changed. A running job removes old checkpoints: a
reader of one that was removed gets an error that says so (`translate_removal`).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from headrace.core.api.snapshots import DamagedSnapshot, Manifest, RefusedSnapshot, SnapshotStore
from headrace.core.api.state import Document, FrozenState
from headrace.core.api.state_backend import StateBackend
from headrace.core.api.storage_url import is_url
from headrace.core.checkpoint.manifest import drop_committed_output
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.savepoints import names
from headrace.state.savepoints.export import find_uncommitted_sinks
from headrace.state.savepoints.savepoint import NoSuchSnapshot, open_savepoint
from headrace.state.storage.checkpoint_location import read_location
from headrace.state.storage.checkpoint_repository import CheckpointRepository
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.names import JOB
from headrace.state.storage.remote.bucket_disk import open_disk, resolve_storage_url
from headrace.state.storage.remote.checkpoint_repository import (
    open_bucket_read_only,
    open_repository,
)

_CHECKPOINT_PATTERN = re.compile(r"(?P<job>.+)@(?P<number>[1-9]\d*)")

CACHE_BYTES = 1 << 28
"""Size of the cache for reads from a database, in bytes."""


class StoredSnapshot(Protocol):
    """A savepoint or a checkpoint, for reading."""

    @property
    def title(self) -> str:
        """Title for messages, as in "checkpoint 7 of bids"."""
        ...

    @property
    def document(self) -> Manifest:
        """Manifest as in core/checkpoint/manifest, with `job` and `number`; the states have a
        format of their own.
        """
        ...

    @property
    def steps(self) -> tuple[str, ...]:
        """Steps that have state."""
        ...

    def thaw_step(self, step: str) -> tuple[FrozenState, ...]:
        """Return the state of a step: each key group is in exactly one of the results."""
        ...


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint of a job's home."""

    name: str
    number: int
    document: Manifest
    store: SnapshotStore
    backend: StateBackend

    @property
    def title(self) -> str:
        """Title for messages."""
        return f"checkpoint {self.number} of {self.name}"

    @property
    def steps(self) -> tuple[str, ...]:
        """Steps that have state."""
        return tuple(self._states)

    def thaw_step(self, step: str) -> tuple[FrozenState, ...]:
        """Return the state of a step."""
        every = (document for subtask in self._states[step] for document in subtask)
        return tuple(self.backend.thaw(document, self.store) for document in every)

    @property
    def _states(self) -> dict[str, list[list[Document]]]:
        document: Any = self.document
        states: dict[str, list[list[Document]]] = document["states"]
        return states


@contextmanager
def open_snapshot(what: str, root: str) -> Iterator[StoredSnapshot]:
    """Open the snapshot of that name; `root` is the folder of homes. Raises SnapshotError.

    JOB is the name of a pipeline. An existing folder is taken for a savepoint, unless it is a job's
    home.
    """
    if is_url(what):
        with _open_in_bucket(what) as snapshot:
            yield snapshot
        return
    found = find_job(what, root)
    if found is not None:
        with open_checkpoint(*found) as snapshot:
            yield snapshot
        return
    if os.path.isdir(what) or os.sep in what:
        yield open_savepoint(what)
        return
    raise NoSuchSnapshot(
        f'there is no job "{what}" in {root}, nor a savepoint of that name',
        "wanted JOB, JOB@N for its checkpoint N, or a savepoint's folder",
    )


def find_job(what: str, root: str) -> tuple[Home, int | None] | None:
    """Return the home, and the checkpoint number if the name has one; None if there is no such
    home.

    >>> find_job("bids@7", "nowhere")
    """
    found = _CHECKPOINT_PATTERN.fullmatch(what)
    name, number = (found["job"], int(found["number"])) if found else (what, None)
    home = Home(LocalDisk(), root, name)
    is_there = _is_job_name(name) and (
        home.disk.list_names(home.checkpoint_folder) or read_location(home)
    )
    return (home, number) if is_there else None


@contextmanager
def _open_in_bucket(what: str) -> Iterator[StoredSnapshot]:
    """Open a savepoint, or the checkpoints of a job: `s3://bucket/bids`, `s3://bucket/bids@7`."""
    found = _CHECKPOINT_PATTERN.fullmatch(what)
    url, number = (found["job"], int(found["number"])) if found else (what, None)
    disk = open_disk(url)
    if disk.get_size(f"{url}/{JOB}") is None:
        yield open_savepoint(what)
        return
    above, name = os.path.split(str(resolve_storage_url(url)))
    with open_checkpoint(
        Home(disk, above, name), number, repository=open_bucket_read_only(above, name)
    ) as snapshot:
        yield snapshot


@contextmanager
def open_checkpoint(
    home: Home,
    number: int | None = None,
    scratch: str | None = None,
    repository: CheckpointRepository | None = None,
) -> Iterator[StoredCheckpoint]:
    """Open a checkpoint of a home (None: the newest). It may be removed while it is read.

    Databases are opened in the folder `scratch`, which is created if there are any, and empty again
    afterwards. `repository`: the repository of the checkpoints, if it is not the one that the home
    names.
    """
    repository = repository or open_repository(home)
    from headrace.state.rocks.backend import RocksBackend

    store = repository.open_read_only()
    numbers = store.list_checkpoints() if store else []
    if store is None or not numbers:
        raise NoSuchSnapshot(f"{home.folder} has no checkpoints", "there is nothing to resume from")
    if number is None:
        number = numbers[-1]
    elif number not in numbers:
        there = ", ".join(map(str, numbers))
        raise NoSuchSnapshot(
            f"{home.name} has no checkpoint {number}", f"the checkpoints are {there}"
        )
    with ExitStack() as lasting:
        lasting.enter_context(translate_removal(store, number))
        if scratch is None:
            scratch = lasting.enter_context(tempfile.TemporaryDirectory(prefix="headrace-"))
        document = store.read_manifest(number)
        if is_output_committed(repository, store, number):
            document = drop_committed_output(document)
        yield StoredCheckpoint(
            home.name, number, document, store, RocksBackend(scratch, CACHE_BYTES)
        )


def is_output_committed(
    repository: CheckpointRepository, store: SnapshotStore, number: int
) -> bool:
    """Whether all output of a checkpoint is known to be committed.

    A job takes no further checkpoint before that. A commit record counts if its checkpoint still
    exists: numbers are used again when a job returns to an older checkpoint.
    """
    noted = repository.read_commit_record()
    return noted is not None and (noted == number or number < noted in store.list_checkpoints())


def find_newest_committed(home: Home) -> int | None:
    """Return the newest checkpoint of a home whose output is known to be committed, if there is
    one.

    Raises SnapshotError.
    """
    repository = open_repository(home)
    store = repository.open_read_only()
    for number in reversed(store.list_checkpoints() if store else ()):
        assert store is not None
        with translate_removal(store, number):
            if is_output_committed(repository, store, number) or not find_uncommitted_sinks(
                store.read_manifest(number)
            ):
                return number
    return None


@contextmanager
def translate_removal(store: SnapshotStore, number: int) -> Iterator[None]:
    """Translate damage that only means that a running job has removed the checkpoint."""
    try:
        yield
    except DamagedSnapshot as error:
        if number in store.list_checkpoints():
            raise
        raise RefusedSnapshot(
            f"checkpoint {number} was removed while it was read: the job has newer ones",
            "ask for the newest, or take a savepoint: headrace savepoint JOB",
        ) from error


def _is_job_name(what: str) -> bool:
    return os.path.basename(what) == what and what not in ("", ".", "..", names.SAVEPOINTS)
