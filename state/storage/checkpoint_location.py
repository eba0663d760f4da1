"""Record in a home of checkpoints that are not in it: the address of their bucket.

Without it, a job whose pipeline names another location, or none, would be taken for a new job, and
would write its output again. The home also has an id, by which a run knows that the previous run
was of the same home, whose lock it now holds.
"""

from __future__ import annotations

import os
import uuid

from headrace.core.api.snapshots import RefusedSnapshot
from headrace.state.storage import names
from headrace.state.storage.checksummed_json import (
    CorruptData,
    decode_document,
    encode_checksummed,
)
from headrace.state.storage.disk import write_atomically
from headrace.state.storage.disk_errors import translate_os_errors
from headrace.state.storage.documents import LocationDocument
from headrace.state.storage.home import Home


def resolve_home_id(home: Home, place: str | None, *, fresh: bool) -> str:
    """Return the id of a locked home whose checkpoints are to be at `place`; None: in the home
    itself.

    Raises RefusedSnapshot if they are elsewhere, unless the job starts from scratch (`fresh`).
    """
    path = _get_location_path(home)
    with translate_os_errors(f"read {path}"):
        document = _read_document(home, path)
        is_here = bool(home.disk.list_names(names.get_manifest_folder(home.checkpoint_folder)))
    known = (document and document["dir"]) or (home.checkpoint_folder if is_here else None)
    if not fresh and known is not None and known != (place or home.checkpoint_folder):
        now = "is not set" if place is None else f"is {place}"
        raise RefusedSnapshot(
            f"the checkpoints of this job are in {known}, and settings.checkpoint.dir {now}",
            "resume where they are, move them by a savepoint, or start from scratch with --fresh",
        )
    if document is not None:
        return str(document["home"])
    identity = uuid.uuid4().hex
    if place is not None:
        _write_location(home, identity, None)
    return identity


def read_location(home: Home) -> str | None:
    """Return the recorded location of a home's checkpoints; None: in the home itself. Raises
    RefusedSnapshot.
    """
    path = _get_location_path(home)
    with translate_os_errors(f"read {path}"):
        document = _read_document(home, path)
    return str(document["dir"]) if document and document["dir"] else None


def record_location(home: Home, identity: str, place: str | None) -> None:
    """Record the location of the job's checkpoints, after every check that might refuse it."""
    if place is None:
        clear_location(home)
    else:
        _write_location(home, identity, place)


def clear_location(home: Home) -> None:
    """Remove the record."""
    path = _get_location_path(home)
    with translate_os_errors(f"remove {path}"):
        if home.disk.get_size(path) is not None:
            home.disk.remove(path)
            home.disk.sync_folder(home.folder)


def _write_location(home: Home, identity: str, place: str | None) -> None:
    path, document = _get_location_path(home), {"home": identity, "dir": place}
    with translate_os_errors(f"write {path}"):
        write_atomically(
            home.disk, path, names.get_temporary_path(path), encode_checksummed(document)
        )


def _get_location_path(home: Home) -> str:
    return os.path.join(home.folder, names.LOCATION)


def _read_document(home: Home, path: str) -> dict[str, object] | None:
    if home.disk.get_size(path) is None:
        return None
    try:
        return decode_document(path, home.disk.read(path), LocationDocument)
    except CorruptData as error:
        hint = "remove it, if settings.checkpoint.dir says where the job's checkpoints are"
        raise RefusedSnapshot(f"{path} is damaged: {error}", hint) from error
