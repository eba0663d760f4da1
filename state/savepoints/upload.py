"""Upload of a savepoint from a folder to a bucket: its document goes last, and only once.

As in a folder, a savepoint exists once its document does. An upload first creates a lock object, so
that two uploads never write to the same address. If an upload fails, the objects that it put are
removed as far as possible; the folder is not changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from headrace.core.snapshots import RefusedSnapshot, SnapshotError
from headrace.state.savepoints import names
from headrace.state.storage.remote.objects import Conflict, Objects, Unanswered


def check_empty(objects: Objects) -> None:
    """Raise RefusedSnapshot if the address has any objects."""
    listed = objects.listed()
    if listed:
        what = "a savepoint" if names.MANIFEST in listed else "something"
        hint = "name a folder that does not exist: savepoints are never overwritten"
        raise RefusedSnapshot(f"{objects.address} has {what} in it", hint)


def upload(folder: str, objects: Objects, tell: Callable[[], None] = lambda: None) -> None:
    """Upload the savepoint of a folder to an empty address.

    `tell` is called for each file, and may raise to end the upload. Raises SnapshotError.
    """
    _claim(objects)
    done = [names.LOCK]
    try:
        for name in _files(folder):
            tell()
            done.append(name)
            with open(os.path.join(folder, name), "rb") as file:
                objects.put_file(name, file)
        with open(names.manifest(folder), "rb") as file:
            _create(objects, file.read())
    except Unanswered as error:
        if names.MANIFEST in error.message:
            raise  # the document may be there, and then so is everything else
        _undo(objects, done)
        raise
    except BaseException:
        _undo(objects, done)
        raise
    _undo(objects, [names.LOCK])


def _claim(objects: Objects) -> None:
    """Become the only writer at the address. Raises RefusedSnapshot."""
    check_empty(objects)
    try:
        objects.create(names.LOCK, b"")
    except Conflict:
        hint = "wait for it; if it was killed, name another address"
        message = f"another savepoint is being written to {objects.address}"
        raise RefusedSnapshot(message, hint) from None


def _create(objects: Objects, data: bytes) -> None:
    try:
        try:
            objects.create(names.MANIFEST, data)
        except Unanswered:
            objects.create(names.MANIFEST, data)
    except Conflict:
        found = objects.read(names.MANIFEST)
        if found is None or found.data != data:
            check_empty(objects)


def _undo(objects: Objects, done: list[str]) -> None:
    with suppress(SnapshotError):
        objects.remove(done)


def _files(folder: str) -> Iterator[str]:
    for above, _, files in os.walk(folder):
        for file in sorted(files):
            name = os.path.relpath(os.path.join(above, file), folder).replace(os.sep, "/")
            if name != names.MANIFEST:
                yield name
