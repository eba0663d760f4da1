"""Upload of a savepoint from a folder to a bucket: its document goes last, and only once.

As in a folder, a savepoint exists once its document does. An upload first creates a lock object, so
that two uploads never write to the same address. If an upload fails, the objects that it put are
removed as far as possible; the folder is not changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from headrace.core.api.snapshots import RefusedSnapshot, SnapshotError
from headrace.state.savepoints import names
from headrace.state.storage.remote.object_storage import (
    ObjectStorage,
    PreconditionFailed,
    RequestOutcomeUnknown,
)


def check_empty(objects: ObjectStorage) -> None:
    """Raise RefusedSnapshot if the address has any objects."""
    listed = objects.list_objects()
    if listed:
        what = "is a savepoint" if names.MANIFEST in listed else "is not empty"
        hint = "name a folder that does not exist: savepoints are never overwritten"
        raise RefusedSnapshot(f"{objects.address} {what}", hint)


def upload_savepoint(
    folder: str, objects: ObjectStorage, report: Callable[[], None] = lambda: None
) -> None:
    """Upload the savepoint of a folder to an empty address.

    `report` is called for each file, and may raise to end the upload. Raises SnapshotError.
    """
    _claim(objects)
    done = [names.LOCK]
    try:
        for name in _list_files(folder):
            report()
            done.append(name)
            with open(os.path.join(folder, name), "rb") as file:
                objects.put_file(name, file)
        with open(names.get_document_path(folder), "rb") as file:
            _create_document(objects, file.read())
    except RequestOutcomeUnknown as error:
        if names.MANIFEST in error.message:
            raise  # the document may be there, and then so is everything else
        _remove_objects(objects, done)
        raise
    except BaseException:
        _remove_objects(objects, done)
        raise
    _remove_objects(objects, [names.LOCK])


def _claim(objects: ObjectStorage) -> None:
    """Become the only writer at the address. Raises RefusedSnapshot."""
    check_empty(objects)
    try:
        objects.create(names.LOCK, b"")
    except PreconditionFailed:
        hint = "wait for it; if it was killed, name another address"
        message = f"another savepoint is being written to {objects.address}"
        raise RefusedSnapshot(message, hint) from None


def _create_document(objects: ObjectStorage, data: bytes) -> None:
    try:
        try:
            objects.create(names.MANIFEST, data)
        except RequestOutcomeUnknown:
            objects.create(names.MANIFEST, data)
    except PreconditionFailed:
        found = objects.read(names.MANIFEST)
        if found is None or found.data != data:
            check_empty(objects)


def _remove_objects(objects: ObjectStorage, done: list[str]) -> None:
    with suppress(SnapshotError):
        objects.remove(done)


def _list_files(folder: str) -> Iterator[str]:
    for above, _, files in os.walk(folder):
        for file in sorted(files):
            name = os.path.relpath(os.path.join(above, file), folder).replace(os.sep, "/")
            if name != names.MANIFEST:
                yield name
