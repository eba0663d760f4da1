"""What a home says of checkpoints that are not in it: in which bucket they are.

So a job whose pipeline names another place, or none, is not taken for a new one, which would write
again what it has written. The home has an id as well: by that a run knows that the one before it
was of the same home, whose lock it has now.
"""

from __future__ import annotations

import os
import uuid

from headrace.core.snapshots import RefusedSnapshot
from headrace.state.storage import names
from headrace.state.storage.disk import publish
from headrace.state.storage.home import Home
from headrace.state.storage.sealing import Broken, seal, unseal
from headrace.state.storage.telling import telling


def home_id(home: Home, place: str | None, *, anew: bool) -> str:
    """The id of a home that is held, and is to keep its checkpoints there; None: in itself.

    Raises RefusedSnapshot if they are elsewhere, unless the job begins `anew`.
    """
    path = _path(home)
    with telling(f"read {path}"):
        said = _said(home, path)
        is_here = bool(home.disk.names(names.manifests(home.checkpoints)))
    known = (said and said["dir"]) or (home.checkpoints if is_here else None)
    if not anew and known is not None and known != (place or home.checkpoints):
        now = "is not set" if place is None else f"is {place}"
        raise RefusedSnapshot(
            f"the checkpoints of this job are in {known}, and settings.checkpoint.dir {now}",
            "go on where they are, or take them along as a savepoint, or begin anew with --fresh",
        )
    if said is not None:
        return str(said["home"])
    identity = uuid.uuid4().hex
    if place is not None:
        _say(home, identity, None)
    return identity


def place_of(home: Home) -> str | None:
    """Where a home says that its checkpoints are; None: in itself. Raises RefusedSnapshot."""
    path = _path(home)
    with telling(f"read {path}"):
        said = _said(home, path)
    return str(said["dir"]) if said and said["dir"] else None


def settled(home: Home, identity: str, place: str | None) -> None:
    """Say that the job has its checkpoints there, behind all that might have refused it."""
    if place is None:
        leave(home)
    else:
        _say(home, identity, place)


def leave(home: Home) -> None:
    """Say no longer that there is something elsewhere."""
    path = _path(home)
    with telling(f"remove {path}"):
        if home.disk.size(path) is not None:
            home.disk.remove(path)
            home.disk.sync_folder(home.folder)


def _say(home: Home, identity: str, place: str | None) -> None:
    path, document = _path(home), {"home": identity, "dir": place}
    with telling(f"write {path}"):
        publish(home.disk, path, names.temporary(path), seal(document))


def _path(home: Home) -> str:
    return os.path.join(home.folder, names.ELSEWHERE)


def _said(home: Home, path: str) -> dict[str, object] | None:
    if home.disk.size(path) is None:
        return None
    try:
        return unseal(path, home.disk.read(path))
    except Broken as error:
        hint = "remove it, if settings.checkpoint.dir says where the job's checkpoints are"
        raise RefusedSnapshot(f"{path} is damaged: {error}", hint) from error
