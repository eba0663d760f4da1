"""What a home says of checkpoints that are not in it: in which bucket they are.

So a job whose pipeline names another place, or none, is not taken for a new one, which would write
again what it has written. The home has an id as well: by that a run knows that the one before it
was of the same home, whose lock it has now.
"""

from __future__ import annotations

import os
import uuid
from typing import NoReturn

from headrace.core.snapshots import RefusedSnapshot
from headrace.state.storage import names
from headrace.state.storage.disk import publish
from headrace.state.storage.home import Home
from headrace.state.storage.sealing import Broken, seal, unseal
from headrace.state.storage.telling import telling


def home_id(home: Home, place: str | None, *, fresh: bool) -> str:
    """The id of a home that is held, and keeps its checkpoints there; None: in itself.

    Raises RefusedSnapshot if they have been elsewhere, unless the job begins anew.
    """
    path = os.path.join(home.folder, names.ELSEWHERE)
    with telling(f"read {path}"):
        said = _said(home, path)
        here = home.disk.names(names.manifests(home.checkpoints))
    known = said.get("dir") if said else home.checkpoints if here else place
    if known != place and not fresh:
        _refuse(home, known if said else None, place)
    identity = str(said["home"]) if said else uuid.uuid4().hex
    with telling(f"write {path}"):
        if place is None:
            leave(home)
        elif known != place or said is None:
            document = {"home": identity, "dir": place}
            publish(home.disk, path, names.temporary(path), seal(document))
    return identity


def leave(home: Home) -> None:
    """Say no longer that there is something elsewhere."""
    path = os.path.join(home.folder, names.ELSEWHERE)
    with telling(f"remove {path}"):
        if home.disk.size(path) is not None:
            home.disk.remove(path)
            home.disk.sync_folder(home.folder)


def _said(home: Home, path: str) -> dict[str, object] | None:
    if home.disk.size(path) is None:
        return None
    try:
        return unseal(path, home.disk.read(path))
    except Broken as error:
        hint = "remove it, if settings.checkpoint.dir says where the job's checkpoints are"
        raise RefusedSnapshot(f"{path} is damaged: {error}", hint) from error


def _refuse(home: Home, known: object, place: str | None) -> NoReturn:
    now = "is not set" if place is None else f"is {place}"
    raise RefusedSnapshot(
        f"the checkpoints of this job are in {known or home.checkpoints}, and "
        f"settings.checkpoint.dir {now}",
        "go on where they are; or take them there with a savepoint; or begin anew with --fresh",
    )
