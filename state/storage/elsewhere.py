"""Record in a home of checkpoints that are not in it: the address of their bucket.

Without it, a job whose pipeline names another location, or none, would be taken for a new job, and
would write its output again. The home also has an id, by which a run knows that the previous run
was of the same home, whose lock it now holds.
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
    """Return the id of a locked home whose checkpoints are to be at `place`; None: in the home
    itself.

    Raises RefusedSnapshot if they are elsewhere, unless the job starts from scratch (`anew`).
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
            "resume where they are, move them by a savepoint, or start from scratch with --fresh",
        )
    if said is not None:
        return str(said["home"])
    identity = uuid.uuid4().hex
    if place is not None:
        _say(home, identity, None)
    return identity


def place_of(home: Home) -> str | None:
    """Return the recorded location of a home's checkpoints; None: in the home itself. Raises
    RefusedSnapshot.
    """
    path = _path(home)
    with telling(f"read {path}"):
        said = _said(home, path)
    return str(said["dir"]) if said and said["dir"] else None


def settled(home: Home, identity: str, place: str | None) -> None:
    """Record the location of the job's checkpoints, after every check that might refuse it."""
    if place is None:
        leave(home)
    else:
        _say(home, identity, place)


def leave(home: Home) -> None:
    """Remove the record."""
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
