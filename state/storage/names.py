"""What the files of a home are called: the one place that knows.

    home       = root "/" job's name
    home     / lock                                 held by the process that writes
             / finished                             the job had ended; removed by who has seen it
             / state                                live state, of an attempt; nothing of it is kept
             / elsewhere.json                       where its checkpoints are, if they are not here
             / control.sock                         where a running job is spoken to
             / control.new                          a private folder, in which that is made
             / notes / name.json                    what a source or sink must not forget
             / discarded                            a `checkpoints` that nobody wants, going away
             / renewed                              a `checkpoints` of another job, on its way
             / checkpoints / job.json               the job's id
                           / visible.json           the checkpoint whose output is all visible
                           / blobs / hash           bytes, named by the first half of their SHA-256
                           / manifests / number.json
    home of a batch = home "/batch"
                           / checkpoints / output.json   what is to be committed, once decided
    bucket     = address "/" job's name             (`state/storage/remote`)
    bucket   / owner.json                           the run that writes there
             / job.json                             the job's id
             / finished                             the job had ended
             / notes / name.json                    as in a home
             / id / visible.json, blobs, manifests  as in a home
    temporary  = any of the files above ".tmp", or, of a blob, hash "-" pid "-" count ".tmp"

A temporary name is never read: whoever opens the home to write removes them.
"""

from __future__ import annotations

import os
import re

LOCK, FINISHED, STATE = "lock", "finished", "state"
DISCARDED, RENEWED = "discarded", "renewed"
CHECKPOINTS, JOB, BLOBS, MANIFESTS = "checkpoints", "job.json", "blobs", "manifests"
VISIBLE = "visible.json"
NOTES = "notes"
BATCH, OUTPUT = "batch", "output.json"
ELSEWHERE = "elsewhere.json"
CONTROL, CONTROL_NEW = "control.sock", "control.new"
UNNAMED = ".tmp"

_BLOB = re.compile(r"[0-9a-f]{32}")
_MANIFEST = re.compile(r"(0|[1-9]\d*)\.json")


def home(root: str, job: str) -> str:
    """The folder of all that a job keeps."""
    return os.path.join(root, job)


def blobs(checkpoints: str) -> str:
    """The folder of blobs."""
    return os.path.join(checkpoints, BLOBS)


def manifests(checkpoints: str) -> str:
    """The folder of manifests."""
    return os.path.join(checkpoints, MANIFESTS)


def blob(folder: str, hash: str) -> str:
    """Where a blob is, in a folder of blobs."""
    return os.path.join(folder, hash)


def is_blob(name: str) -> bool:
    """Whether a file among blobs is one."""
    return _BLOB.fullmatch(name) is not None


def manifest(folder: str, number: int) -> str:
    """Where a manifest is, in a folder of manifests.

    >>> manifest("manifests", 7)
    'manifests/7.json'
    """
    return os.path.join(folder, f"{number}.json")


def number(name: str) -> int | None:
    """The checkpoint whose manifest has that name.

    >>> number("7.json"), number("7.json.tmp"), number("07.json")
    (7, None, None)
    """
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def note(name: str) -> str:
    """What a note is called, among notes."""
    return f"{name}.json"


def temporary(path: str) -> str:
    """Where a file is until it is whole; one process writes one at a time."""
    return path + UNNAMED


def temporary_blob(path: str, count: int) -> str:
    """Where a blob is until it is whole: several threads may write the same one."""
    return f"{path}-{os.getpid()}-{count}{UNNAMED}"


def is_temporary(name: str) -> bool:
    """Whether a file was left behind by who could not finish it."""
    return name.endswith(UNNAMED)
