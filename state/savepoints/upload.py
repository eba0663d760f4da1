"""Takes a savepoint that is in a folder to a bucket: what it says goes last, and only once.

A savepoint is there when its manifest is, as in a folder. Whoever begins creates a file first, so
that two never write to the same place. Where an upload fails, what had been put is removed again,
as far as that can be done; the folder stays what it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from headrace.core.snapshots import RefusedSnapshot, SnapshotError
from headrace.state.savepoints import names
from headrace.state.storage.remote.objects import Conflict, Objects, Unanswered


def check_empty(objects: Objects) -> None:
    """Raises RefusedSnapshot if something is there."""
    listed = objects.listed()
    if listed:
        what = "a savepoint" if names.MANIFEST in listed else "something"
        hint = "name a folder that is not there: savepoints are never overwritten"
        raise RefusedSnapshot(f"{objects.address} has {what} in it", hint)


def upload(folder: str, objects: Objects, tell: Callable[[], None] = lambda: None) -> None:
    """Have the savepoint of a folder there, where nothing is.

    `tell` is called for each file, and may raise to end it. Raises SnapshotError.
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
            raise  # it may be there: then all of it is
        _undo(objects, done)
        raise
    except BaseException:
        _undo(objects, done)
        raise
    _undo(objects, [names.LOCK])


def _claim(objects: Objects) -> None:
    """Be the only one who writes there. Raises RefusedSnapshot."""
    check_empty(objects)
    try:
        objects.create(names.LOCK, b"")
    except Conflict:
        hint = "wait for it; if it was killed, name another place"
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
