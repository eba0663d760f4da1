"""Resolution of a command's JOB argument: the name of a pipeline, or its file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import get_default_home
from headrace.core.api.snapshots import RefusedSnapshot
from headrace.core.api.storage_url import is_url
from headrace.state.savepoints.names import SAVEPOINTS
from headrace.state.storage import names
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk


class NoSuchJob(Refusal):
    """There is no home of that name (yet)."""


def list_homes(root: str) -> list[Home]:
    """List the existing homes, by name. Raises Refusal."""
    disk = LocalDisk()
    try:
        found = sorted(name for name in disk.list_names(root) if name != SAVEPOINTS)
    except OSError as error:
        raise Refusal(f"{root}: {(error.strerror or str(error)).lower()}") from None
    every = (Home(disk, root, name) for name in found)
    return [home for home in every if is_home(home)]


def find_home(job: str, root: str) -> Home:
    """Return the home of a job. Raises Refusal; NoSuchJob if the name is unknown."""
    if os.sep not in job and job not in ("", ".", ".."):
        home = Home(LocalDisk(), root, job)
        if is_home(home):
            return home
    if os.path.isfile(job):
        return Home(LocalDisk(), root, _read_pipeline_name(job))
    raise _unknown_job(job, root)


def format_command(command: str, home: Home, *options: str) -> str:
    """Return a command on a job, for a hint: as it can be pasted into a shell."""
    return _format_command(command, home.root, home.name, *options)


def describe_job_list(home: Home) -> str:
    """Return a hint at the command that lists the jobs of a home."""
    return f"{_format_command('jobs', home.root)} shows the job"


def _format_command(command: str, root: str, *arguments: str) -> str:
    place = () if root == get_default_home() else ("--home", root)
    return f"headrace {command} {shlex.join([*arguments, *place])}".rstrip()


def resolve_job_name(job: str) -> str:
    """Return the name of a job, given its name or its pipeline's file. Raises Refusal."""
    return _read_pipeline_name(job) if os.path.isfile(job) else job


def find_newest_checkpoint(home: Home) -> int | None:
    """Return the newest checkpoint of a job that has ended; None if there is none to be found."""
    from headrace.core.api.snapshots import SnapshotError
    from headrace.state.storage.remote.checkpoint_repository import open_repository

    try:
        store = open_repository(home).open_read_only()
        return max(store.list_checkpoints(), default=None) if store else None
    except SnapshotError:
        return None


def is_home(home: Home) -> bool:
    """Whether it is the home of a job; a copied home may have only its checkpoints."""
    has_lock = os.path.exists(os.path.join(home.folder, names.LOCK))
    return has_lock or os.path.isdir(home.checkpoint_folder)


def _read_pipeline_name(file: str) -> str:
    """Return the name of a pipeline, even if it has errors."""
    from headrace.core.pipeline.loader import load_pipeline

    return str(load_pipeline(file, {}).pipeline.name)


def _unknown_job(job: str, root: str) -> Refusal:
    from headrace.core.errors.problems import suggest_name

    if os.sep in job or job.endswith((".yaml", ".yml")):
        return Refusal(f'there is no file "{job}"', "wanted the name of a pipeline, or its file")
    there = [home.name for home in list_homes(root)]
    known = _describe_file(job, root) or suggest_name(job, there) or _describe_jobs(there)
    hint = known or "--home names the folder of jobs"
    return NoSuchJob(f'there is no job "{job}" in {root}', hint)


def _describe_file(job: str, root: str) -> str:
    """Return a hint at the file of a job that has not run, if it is next to the home."""
    file = os.path.relpath(os.path.join(os.path.dirname(os.path.abspath(root)), f"{job}.yaml"))
    if not os.path.isfile(file):
        return ""
    return f"headrace submit {shlex.quote(file)} starts it on the server, headrace run without one"


def _describe_jobs(names: Sequence[str]) -> str:
    """Describe the jobs of a home.

    >>> _describe_jobs(["a"]), _describe_jobs(["a", "b"])
    ('its only job is a', 'its jobs are a, b')
    """
    if len(names) == 1:
        return f"its only job is {names[0]}"
    return f"its jobs are {', '.join(names)}" if names else ""


def resolve_savepoint_folder(folder: str, home: Home) -> str:
    """Resolve the folder for a job's savepoint to an absolute path or URL. Raises Refusal."""
    from headrace.state.savepoints.location import check_outside_homes

    if not folder:
        raise Refusal('wanted the folder of a savepoint, got ""', "it must be new or empty")
    resolved = _resolve_url(folder) if is_url(folder) else os.path.abspath(folder)
    try:
        check_outside_homes(resolved, home)
    except RefusedSnapshot as error:
        raise Refusal(error.message, error.hint, error.exit_status) from None
    return resolved


def _resolve_url(folder: str) -> str:
    from headrace.state.storage.remote.bucket_disk import NotAStorageUrl
    from headrace.state.storage.remote.bucket_disk import resolve_storage_url as address_of

    try:
        return address_of(folder).url
    except NotAStorageUrl as error:
        raise Refusal(error.message, error.hint) from None
