"""Locations where no savepoint may be written: the homes of jobs, which belong to headrace."""

from __future__ import annotations

import os
from collections.abc import Iterator

from headrace.core.api.snapshots import RefusedSnapshot
from headrace.core.api.storage_url import is_url
from headrace.state.savepoints import names
from headrace.state.storage.checkpoint_location import read_location
from headrace.state.storage.home import Home
from headrace.state.storage.names import CHECKPOINTS, JOB, LOCK, REMOVED_FOLDERS


def check_outside_homes(folder: str, home: Home) -> None:
    """Raise RefusedSnapshot if a savepoint's folder is in a job's home, or may come to be in one.

    The start of a job removes folders of its home, so a savepoint there would be lost.
    """
    within = _find_home(folder, home)
    if within is not None:
        default = names.get_job_folder(home.root, home.name)
        raise RefusedSnapshot(
            f"{folder} is in the home of a job, {within}, whose start would remove it",
            f"name a folder outside of it; without a name the savepoint is in {default}",
        )


def _find_home(folder: str, home: Home) -> str | None:
    """Return the home that has the folder in it; None if there is none."""
    if is_url(folder):
        place = read_location(home)
        own = None if place is None else f"{place.rstrip('/')}/{home.name}"
        return own if own is not None and f"{folder}/".startswith(f"{own}/") else None
    path, root = os.path.realpath(folder), os.path.realpath(home.root)
    name, *below = os.path.relpath(path, root).split(os.sep)
    if name not in (os.pardir, names.SAVEPOINTS) and below and below[0] in REMOVED_FOLDERS:
        return os.path.join(home.root, name)
    return next((above for above in _list_ancestors(path) if _is_home(above)), None)


def _list_ancestors(path: str) -> Iterator[str]:
    """Yield a path and all folders above it."""
    yield path
    while (above := os.path.dirname(path)) != path:
        path = above
        yield path


def _is_home(folder: str) -> bool:
    checkpoints = os.path.join(folder, CHECKPOINTS)
    marks = os.path.join(folder, LOCK), os.path.join(checkpoints, JOB)
    return os.path.isdir(checkpoints) and any(map(os.path.isfile, marks))
