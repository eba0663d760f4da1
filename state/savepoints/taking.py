"""Takes a savepoint: of a checkpoint that is in a home, whether its job runs or not.

It needs no lock. Who takes one of a job that runs sees to it that the checkpoint stays meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime

from headrace.core.addresses import is_url
from headrace.core.snapshots import SnapshotError
from headrace.state.savepoints import names
from headrace.state.savepoints.export import Tell, export
from headrace.state.savepoints.kept import checkpoint
from headrace.state.savepoints.writing import free, writing
from headrace.state.storage.home import Home


def now() -> str:
    """The time, as manifests tell it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def take(
    home: Home,
    version: str,
    number: int | None = None,
    to: str | None = None,
    tell: Tell = lambda done, of: None,
    time: Callable[[], str] = now,
) -> str:
    """Write a checkpoint (None: the newest) as a savepoint; gives its folder, which is whole.

    `to` must not be there, or be empty; None: among those of the job, under the time. `version` is
    that of headrace. `tell` is told now and then how many of how many bytes are done, and may raise
    to end it. Nothing is left of one that was not finished. An address is for a bucket; until all
    is there, it is among the job's savepoints. Raises SnapshotError.
    """
    if to is not None and is_url(to):
        return _taken_away(home, version, number, to, tell, time)
    at = time()
    folder = to or free(home.disk, os.path.join(names.of_job(home.root, home.name), names.at(at)))
    said = {"taken": at, "taken_by": version}
    scratch = os.path.join(names.unfinished(folder), names.SCRATCH)
    with checkpoint(home, number, scratch) as kept, writing(home.disk, folder) as to_write:
        document = export(kept.document, kept.store, kept.backend, to_write, said, tell)
        home.disk.remove_folder(scratch)
        to_write.finish(document)
    return folder


def _taken_away(
    home: Home,
    version: str,
    number: int | None,
    to: str,
    tell: Tell,
    time: Callable[[], str],
) -> str:
    """Write it to a folder, take that to a bucket, and remove it."""
    from headrace.state.savepoints.upload import check_empty, upload
    from headrace.state.storage.remote.bucket import bucket
    from headrace.state.storage.remote.reading import place

    last = (0, 0)

    def told(done: int, of: int) -> None:
        nonlocal last
        last = (done, of)
        tell(done, of)

    address = place(to)
    objects = bucket(address)
    check_empty(objects)
    folder = take(home, version, number, None, told, time)
    try:
        upload(folder, objects, lambda: tell(*last))
    except SnapshotError as error:
        error.hint = f"it is whole in {folder}, and may be taken there by any other means"
        raise
    except BaseException:
        home.disk.remove_folder(folder)
        raise
    home.disk.remove_folder(folder)
    return str(address)
