"""What a user names: a savepoint's folder, JOB for the newest checkpoint of a home, or JOB@N.

All of it is read without a lock, and nothing is changed. A job that runs removes checkpoints as
newer ones come: who reads one that is going away is told so (`reading`).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.core.addresses import is_url
from headrace.core.manifest import all_visible
from headrace.core.snapshots import DamagedSnapshot, Manifest, RefusedSnapshot, SnapshotStore
from headrace.core.state import Document, Frozen, StateBackend
from headrace.state.savepoints import names
from headrace.state.savepoints.export import invisible
from headrace.state.savepoints.savepoint import NoSuchSnapshot, open_savepoint
from headrace.state.storage.cabinet import Cabinet
from headrace.state.storage.elsewhere import place_of
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.names import JOB
from headrace.state.storage.remote.looking import cabinet_of, looking
from headrace.state.storage.remote.reading import disk_of, place

_NUMBERED = re.compile(r"(?P<job>.+)@(?P<number>[1-9]\d*)")

MEMORY = 1 << 28
"""How much of what is read of a database is cached, in bytes."""


class Kept(Protocol):
    """A savepoint or a checkpoint, to be looked at."""

    @property
    def title(self) -> str:
        """What it is called, as in "checkpoint 7 of bids"."""
        ...

    @property
    def document(self) -> Manifest:
        """What it says, as core/manifest has it, with `job` and `number`; states are its own."""
        ...

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps that keep something."""
        ...

    def frozen(self, step: str) -> tuple[Frozen, ...]:
        """What is kept of a step: of each key group one of these has the state."""
        ...


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint of a job's home."""

    name: str
    number: int
    document: Manifest
    store: SnapshotStore
    backend: StateBackend

    @property
    def title(self) -> str:
        """What it is called."""
        return f"checkpoint {self.number} of {self.name}"

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps that keep something."""
        return tuple(self._states)

    def frozen(self, step: str) -> tuple[Frozen, ...]:
        """What is kept of a step."""
        every = (document for subtask in self._states[step] for document in subtask)
        return tuple(self.backend.thawed(document, self.store) for document in every)

    @property
    def _states(self) -> dict[str, list[list[Document]]]:
        said: Any = self.document
        states: dict[str, list[list[Document]]] = said["states"]
        return states


@contextmanager
def named(what: str, root: str) -> Iterator[Kept]:
    """What a user calls so; `root` is where homes are. Raises SnapshotError.

    JOB is the name of a pipeline. A folder that is there is taken for a savepoint, unless it is a
    job's home.
    """
    if is_url(what):
        with _in_bucket(what) as kept:
            yield kept
        return
    found = job_of(what, root)
    if found is not None:
        with checkpoint(*found) as kept:
            yield kept
        return
    if os.path.isdir(what) or os.sep in what:
        yield open_savepoint(what)
        return
    raise NoSuchSnapshot(
        f'there is no job "{what}" in {root}, nor a savepoint of that name',
        "wanted JOB, JOB@N for its checkpoint N, or a savepoint's folder",
    )


def job_of(what: str, root: str) -> tuple[Home, int | None] | None:
    """The home, and the number, if one is said, of a checkpoint that a user calls so, if there is.

    >>> job_of("bids@7", "nowhere")
    """
    found = _NUMBERED.fullmatch(what)
    name, number = (found["job"], int(found["number"])) if found else (what, None)
    home = Home(LocalDisk(), root, name)
    is_there = _is_name(name) and (home.disk.names(home.checkpoints) or place_of(home))
    return (home, number) if is_there else None


@contextmanager
def _in_bucket(what: str) -> Iterator[Kept]:
    """A savepoint, or the checkpoints of a job: `s3://bucket/bids`, `s3://bucket/bids@7`."""
    found = _NUMBERED.fullmatch(what)
    url, number = (found["job"], int(found["number"])) if found else (what, None)
    disk = disk_of(url)
    if disk.size(f"{url}/{JOB}") is None:
        yield open_savepoint(what)
        return
    above, name = os.path.split(str(place(url)))
    with checkpoint(Home(disk, above, name), number, cabinet=looking(above, name)) as kept:
        yield kept


@contextmanager
def checkpoint(
    home: Home,
    number: int | None = None,
    scratch: str | None = None,
    cabinet: Cabinet | None = None,
) -> Iterator[KeptCheckpoint]:
    """A checkpoint of a home, None: the newest one. What is read of it may go meanwhile.

    Databases are opened in the folder `scratch`, which is made if there are any, and then empty.
    `cabinet`: where the checkpoints are, if they are not where the home says.
    """
    cabinet = cabinet or cabinet_of(home)
    from headrace.state.rocks.backend import RocksBackend

    store = cabinet.looked_at()
    numbers = store.manifests() if store else []
    if store is None or not numbers:
        raise NoSuchSnapshot(f"{home.folder} has no checkpoints", "it has nothing to go on from")
    if number is None:
        number = numbers[-1]
    elif number not in numbers:
        there = ", ".join(map(str, numbers))
        raise NoSuchSnapshot(f"{home.name} has no checkpoint {number}", f"there are: {there}")
    with ExitStack() as lasting:
        lasting.enter_context(reading(store, number))
        if scratch is None:
            scratch = lasting.enter_context(tempfile.TemporaryDirectory(prefix="headrace-"))
        document = store.manifest(number)
        if is_visible(cabinet, store, number):
            document = all_visible(document)
        yield KeptCheckpoint(home.name, number, document, store, RocksBackend(scratch, MEMORY))


def is_visible(cabinet: Cabinet, store: SnapshotStore, number: int) -> bool:
    """Whether all output of a checkpoint is known to be visible.

    A job goes on behind one only when it is. What was noted counts if it is still there: numbers
    are given again when a job goes back to an older checkpoint.
    """
    noted = cabinet.noted()
    return noted is not None and (noted == number or number < noted in store.manifests())


def newest_visible(home: Home) -> int | None:
    """The newest checkpoint of a home of which all output is known to be visible, if there is one.

    Raises SnapshotError.
    """
    cabinet = cabinet_of(home)
    store = cabinet.looked_at()
    for number in reversed(store.manifests() if store else ()):
        assert store is not None
        with reading(store, number):
            if is_visible(cabinet, store, number) or not invisible(store.manifest(number)):
                return number
    return None


@contextmanager
def reading(store: SnapshotStore, number: int) -> Iterator[None]:
    """Damage that is none is told as what it is: the job that runs has removed the checkpoint."""
    try:
        yield
    except DamagedSnapshot as error:
        if number in store.manifests():
            raise
        raise RefusedSnapshot(
            f"checkpoint {number} was removed while it was read: the job has newer ones",
            "ask for the newest, or take a savepoint: headrace savepoint JOB",
        ) from error


def _is_name(what: str) -> bool:
    return os.path.basename(what) == what and what not in ("", ".", "..", names.SAVEPOINTS)
