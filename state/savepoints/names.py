"""File names of a savepoint and the location of savepoints; no other module knows them.

    savepoint  = any folder, such as root "/@savepoints/" job's name "/" UTC time
    savepoint / savepoint.json                             the document; it is written last
              / states / step / state / groups.parquet     rows of a range of key groups
              / states / step / state / groups-n.parquet   those that follow, n from 2
    groups     = first "-" last
    unfinished = the folder that will hold it "/." name ".unfinished"
               / .lock                                     marks it as ours; held by the writer
               / .scratch                                  databases that are read

No job has a name with an "@", so no home is where the savepoints of jobs are.
A folder is a savepoint when it has `savepoint.json`. One that is being written has another name and
is locked; a folder that has our lock file, and is not locked, was left by a killed process.
"""

from __future__ import annotations

import os
from urllib.parse import quote

from headrace.core.types.lazy_pattern import compile_pattern

SAVEPOINTS, MANIFEST, STATES = "@savepoints", "savepoint.json", "states"
FORMER_SAVEPOINTS = "savepoints"
"""The name that the folder of savepoints had, which may also be that of a job."""
LOCK, SCRATCH = ".lock", ".scratch"
UNFINISHED = ".unfinished"

_FILE = compile_pattern(r"[^/\\\0]+(/[^/\\\0]+)*")


def get_job_folder(root: str, job: str) -> str:
    """Return the folder of a job's savepoints, unless the user names another one."""
    return os.path.join(root, SAVEPOINTS, job)


def build_name(time: str) -> str:
    """Return the name of a savepoint taken at that time, valid on file systems without colons.

    >>> build_name("2026-01-31T08:01:10Z")
    '2026-01-31T08-01-10Z'
    """
    return time.replace(":", "-")


def get_document_path(folder: str) -> str:
    """Return the path of a savepoint's document."""
    return os.path.join(folder, MANIFEST)


def get_unfinished_folder(folder: str) -> str:
    """Return the folder of a savepoint until it is complete.

    >>> get_unfinished_folder("savepoints/bids/monday")
    'savepoints/bids/.monday.unfinished'
    """
    above, name = os.path.split(folder)
    return os.path.join(above, f".{name}{UNFINISHED}")


def is_unfinished(name: str) -> bool:
    """Whether a folder's name is that of an unfinished savepoint."""
    return name.startswith(".") and name.endswith(UNFINISHED)


def get_state_folder(step: str, name: str) -> str:
    """Return the folder of a state, relative to the savepoint.

    >>> get_state_folder("totals", "keys"), get_state_folder("a/b", "..")
    ('states/totals/keys', 'states/a%2Fb/%2E%2E')
    """
    return "/".join((STATES, _escape(step), _escape(name)))


def build_file_name(folder: str, groups: range, number: int, key_groups: int) -> str:
    """Return the name of the `number`th file, from 1, of a range of key groups.

    >>> build_file_name("states/totals/keys", range(0, 64), 1, 128)
    'states/totals/keys/000-063.parquet'
    >>> build_file_name("states/totals/keys", range(64, 128), 2, 128)
    'states/totals/keys/064-127-2.parquet'
    """
    width = len(str(key_groups - 1))
    more = f"-{number}" if number > 1 else ""
    return f"{folder}/{groups.start:0{width}}-{groups.stop - 1:0{width}}{more}.parquet"


def is_inside(name: str) -> bool:
    """Whether a file's name stays within its savepoint.

    >>> is_inside("states/a/b.parquet"), is_inside("../b"), is_inside("/b")
    (True, False, False)
    """
    return _FILE.fullmatch(name) is not None and not {".", ".."} & set(name.split("/"))


def _escape(name: str) -> str:
    """Return a name that is valid for a folder."""
    return quote(name, safe=" ") if set(name) - {"."} else name.replace(".", "%2E")
