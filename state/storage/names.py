"""File names of a home; no other module knows them.

    home       = root "/" job's name
    home     / lock                                 held by the process that writes
             / finished                             the job has ended; removed once reported
             / state                                live state of an attempt; removed at each start
             / elsewhere.json                       where its checkpoints are, if they are not here
             / control.sock                         control socket of a running job
             / stopped                              the last run was to end at once
             / control.new                          a private folder, in which the socket is created
             / notes / name.json                    notes of a source or sink
             / discarded                            a former `checkpoints`, being removed
             / renewed                              a `checkpoints` of another job, being written
             / checkpoints / job.json               the job's id
                           / complete.json          the checkpoint whose output may be committed
                           / visible.json           the checkpoint whose output is all committed
                           / blobs / hash           bytes, named by the first half of their SHA-256
                           / manifests / number.json
    home of a batch = home "/batch"
                           / checkpoints / output.json   the output to commit, once decided
                                         / rounds.json   the rounds of loops that are stored
                                         / rounds        their tables
    bucket     = address "/" job's name             (`state/storage/remote`)
    bucket   / owner.json                           the run that writes there
             / job.json                             the job's id
             / finished                             the job has ended
             / notes / name.json                    as in a home
             / id / complete.json, visible.json, blobs, manifests     as in a home
    temporary  = any of the files above ".tmp", or, of a blob, hash "-" pid "-" count ".tmp"

A temporary file is never read: the process that opens the home for writing removes it.
"""

from __future__ import annotations

import os

from headrace.core.types.lazy_pattern import compile_pattern

LOCK, FINISHED, STATE = "lock", "finished", "state"
DISCARDED, RENEWED = "discarded", "renewed"
CHECKPOINTS, JOB, BLOBS, MANIFESTS = "checkpoints", "job.json", "blobs", "manifests"
COMPLETION_RECORD, COMMIT_RECORD = "complete.json", "visible.json"
NOTES = "notes"
BATCH_FOLDER, OUTPUT = "batch", "output.json"
ROUNDS, ROUNDS_RECORD = "rounds", "rounds.json"
LOCATION = "elsewhere.json"
SAVEPOINT = "savepoint.json"
"""The document of a savepoint, which is never part of a home."""
REMOVED_FOLDERS = (DISCARDED, STATE, RENEWED, CHECKPOINTS)
"""The folders of a home that a run may remove."""
STOPPED = "stopped"
CONTROL, CONTROL_NEW = "control.sock", "control.new"
TEMPORARY_SUFFIX = ".tmp"

_BLOB = compile_pattern(r"[0-9a-f]{32}")
_MANIFEST = compile_pattern(r"(0|[1-9]\d*)\.json")


def get_home_folder(root: str, job: str) -> str:
    """Return the folder of a job's home."""
    return os.path.join(root, job)


def get_blob_folder(checkpoints: str) -> str:
    """Return the folder of blobs."""
    return os.path.join(checkpoints, BLOBS)


def get_manifest_folder(checkpoints: str) -> str:
    """Return the folder of manifests."""
    return os.path.join(checkpoints, MANIFESTS)


def get_blob_path(folder: str, hash: str) -> str:
    """Return the path of a blob in a folder of blobs."""
    return os.path.join(folder, hash)


def is_blob(name: str) -> bool:
    """Whether a file name is that of a blob."""
    return _BLOB.fullmatch(name) is not None


def get_manifest_path(folder: str, number: int) -> str:
    """Return the path of a manifest in a folder of manifests.

    >>> get_manifest_path("manifests", 7)
    'manifests/7.json'
    """
    return os.path.join(folder, f"{number}.json")


def parse_number(name: str) -> int | None:
    """Return the checkpoint number of a manifest's name; None for other names.

    >>> parse_number("7.json"), parse_number("7.json.tmp"), parse_number("07.json")
    (7, None, None)
    """
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def build_note_name(name: str) -> str:
    """Return the file name of a note."""
    return f"{name}.json"


def get_temporary_path(path: str) -> str:
    """Return the path of a file until it is complete; one process writes one at a time."""
    return path + TEMPORARY_SUFFIX


def get_temporary_blob_path(path: str, count: int) -> str:
    """Return the path of a blob until it is complete: several threads may write the same one."""
    return f"{path}-{os.getpid()}-{count}{TEMPORARY_SUFFIX}"


def is_temporary(name: str) -> bool:
    """Whether a file was left unfinished."""
    return name.endswith(TEMPORARY_SUFFIX)
