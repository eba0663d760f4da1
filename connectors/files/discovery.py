"""The discovery of a source's files: once, or again and again with `watch:`.

A path that matches nothing is usually a typing error, so its message names what exists instead.

A watched file is ready when it is not empty and has not changed since the previous look, or for
that long. A program that writes more slowly should write under a name that starts with a dot, and
rename.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import PurePath

from headrace.connectors.files.errors import translate_errors
from headrace.connectors.files.names import get_reading_order
from headrace.connectors.files.patterns import find_matches, has_wildcards, list_files_below
from headrace.core.api.failures import ConnectorError
from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.yaml_document.source_file import format_path
from headrace.core.types.lazy_dataclass import dataclass

MAX_LISTED = 5


def find_files(folder: str, path: str) -> list[str]:
    """Find the files in the order to read them, relative to the folder unless the path is absolute.

    They are sorted by name; parts of a sink in the order in which they were begun.
    """
    whole = os.path.join(folder, path)
    with translate_errors(f"look into {format_path(path)}", exit_status=2):
        if os.path.isdir(whole):
            found = [os.path.join(PurePath(path), name) for name in list_files_below(whole)]
        elif os.path.lexists(whole):
            found = [str(PurePath(path))]
        else:
            found = list(find_matches(folder, path))
    for name in found:
        _check_readable(os.path.join(folder, name), name)
    return sorted(found, key=get_reading_order)


def _check_readable(whole: str, name: str) -> None:
    """Raise ConnectorError unless the file is a regular file whose name is UTF-8."""
    if name != format_path(name):
        message = f"the name of {format_path(name)} is not UTF-8"
        raise ConnectorError(message, "rename it: the name of a file is stored with its position")
    if os.path.isdir(whole):
        hint = f"{name}/** reads the files in it"
        raise ConnectorError(f"{name} is a folder, wanted a file", hint, exit_status=2)
    if os.path.exists(whole) and not os.path.isfile(whole):
        hint = "stdin reads from a pipe"
        raise ConnectorError(f"{name} is not a regular file", hint, exit_status=2)


def refuse_dangling_links(folder: str, names: Iterable[str]) -> None:
    """Raise ConnectorError if one of the files is a dangling link."""
    for name in names:
        whole = os.path.join(folder, name)
        if os.path.islink(whole) and not os.path.exists(whole):
            message = f"{name} is a dangling link, wanted a file"
            hint = f"it points to {format_path(os.readlink(whole))}"
            raise ConnectorError(message, hint, exit_status=2)


def find_base(path: str) -> str:
    """Return the part of the path before its first pattern.

    >>> find_base("in/*/a.jsonl"), find_base("in"), find_base("*")
    ('in', 'in', '')
    """
    plain = itertools.takewhile(lambda name: not has_wildcards(name), PurePath(path).parts)
    return os.path.join("", *plain)


def build_no_files_error(folder: str, path: str) -> ConnectorError:
    """Build the error for a path without files, with what exists where it ceases to match."""
    at = PurePath(path).anchor
    whole = os.path.join(folder, path)
    message = f"no file matches {path}, looked for in {os.path.abspath(folder)}"
    if os.path.isdir(whole):
        hint = "names that start with . or _ are left out" if _list_names(whole) else ""
        return ConnectorError(f"no files in the folder {path}", hint, exit_status=2)
    for name in PurePath(path).relative_to(at).parts:
        if has_wildcards(name) or not os.path.lexists(os.path.join(folder, at, name)):
            return ConnectorError(
                message, _build_hint(os.path.join(folder, at), at, name), exit_status=2
            )
        at = os.path.join(at, name)
    return ConnectorError(message, exit_status=2)


def _build_hint(here: str, shown: str, name: str) -> str:
    """Describe what exists instead of a name or pattern that matches nothing in a folder."""
    if not os.path.isdir(here):
        return f"{shown} is a file"
    if "{" in name:
        return "a pattern may have *, ?, [...] and **, but not {...}"
    names = [name for name in _list_names(here) if not name.startswith((".", "_"))]
    if not names:
        return f"{shown or 'the folder'} is empty"
    listed = ", ".join(names[:MAX_LISTED]) + (
        f" and {len(names) - MAX_LISTED} more" * (len(names) > MAX_LISTED)
    )
    there = f"{shown} holds {listed}" if shown else f"there are {listed}"
    return there if has_wildcards(name) else suggest_name(name, names) or there


def _list_names(folder: str) -> list[str]:
    try:
        return [format_path(name) for name in sorted(os.listdir(folder))]
    except OSError:
        return []


@dataclass(slots=True)
class FolderWatch:
    """Watches a folder that other programs keep filling."""

    folder: str
    path: str
    every_s: float
    _last_versions: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def list_ready(self) -> Sequence[str]:
        """Return the files that are ready now. Raises ConnectorError if there is no folder."""
        below, is_pattern = (
            os.path.join(self.folder, find_base(self.path)),
            has_wildcards(self.path),
        )
        if not (os.path.isdir(below) if is_pattern else os.path.exists(below)):
            raise build_no_files_error(self.folder, self.path)
        before, self._last_versions = self._last_versions, {}
        found = find_files(self.folder, self.path)
        return [name for name in found if self._is_ready(name, before.get(name))]

    def get_size(self, name: str) -> int:
        """Return the size of a file at the last look; 0 if it was not there."""
        return self._last_versions.get(name, (0, 0, 0))[1]

    def _is_ready(self, name: str, before: tuple[int, ...] | None) -> bool:
        try:
            found = os.stat(os.path.join(self.folder, name))
        except FileNotFoundError:
            return False
        look = (found.st_ino, found.st_size, found.st_mtime_ns)
        self._last_versions[name] = look
        rested = time.time() - found.st_mtime >= self.every_s
        return found.st_size > 0 and (look == before or rested)
