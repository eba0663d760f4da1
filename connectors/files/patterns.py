"""Patterns of file names, and the detection of sources that read a sink's files.

`*`, `?` and `[...]` match within a name, `**` matches folders of any depth. Python's glob is not
used because it skips folders that it may not read, and a source must not silently read less than
there is.

A source that reads a sink's files is detected before any file exists. One example represents the
files that the sink will write: the job's id is zeros, and a folder of `partition_by` is `column=`.
A pattern that matches only some of them may go undetected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from headrace.connectors.files.compression import SUFFIXES
from headrace.connectors.files.names import FORMAT_SUFFIXES, PartName, escape_name
from headrace.connectors.files.options import FilesSink, FilesSource
from headrace.core.pipeline.document_model import DocumentModel


def has_wildcards(name: str) -> bool:
    """Whether a name of a path is a pattern."""
    return any(sign in name for sign in "*?[")


def list_files_below(folder: str) -> Iterator[str]:
    """Yield the files of a folder and its subfolders, without names that start with `.` or `_`."""
    for entry in _list_entries(folder):
        if _is_left_out(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from (os.path.join(entry.name, name) for name in list_files_below(entry.path))
        elif not entry.is_dir():
            yield entry.name


def _is_left_out(name: str) -> bool:
    # A column's name may start with _, and then `_day=2026-01-31` is no hidden folder.
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def would_read(folder: Sequence[str], file: Sequence[str]) -> bool:
    """Whether reading a folder would read a file, both given by the names of their paths.

    Here and below, a name `column=` in the file's path stands for any folder `column=value`.
    """
    at = len(folder)
    inside = len(file) > at and all(map(_can_equal, file, folder))
    return inside and not any(map(_is_left_out, file[at:]))


def _can_equal(name: str, other: str) -> bool:
    return name == other or (name.endswith("=") and other.startswith(name))


def would_match(pattern: Sequence[str], file: Sequence[str]) -> bool:
    """Whether a pattern would match a file, both given by the names of their paths."""
    if not pattern or not file:
        return not pattern and not file
    head, rest = pattern[0], pattern[1:]
    if head == "**":
        deeper = len(file) > 1 and not file[0].startswith(".")
        found = would_match(rest or ("*",), file)
        return found or (deeper and would_match(pattern, file[1:]))
    return (_can_equal(file[0], head) or _matches_name(file[0], head)) and would_match(
        rest, file[1:]
    )


def find_matches(folder: str, pattern: str) -> Iterator[str]:
    """Yield the paths that match, relative to the folder or absolute like the pattern.

    They may be folders, unless the pattern ends in `**`.
    """
    path = PurePath(pattern)
    names = path.parts[1:] if path.is_absolute() else path.parts
    below = names[-1:] == ("**",)
    seen = set()
    for found in _expand_pattern(folder, path.anchor, (*names, "*") if below else names):
        if found not in seen and not (below and os.path.isdir(os.path.join(folder, found))):
            seen.add(found)
            yield found


def _expand_pattern(folder: str, matched_path: str, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the matches of the remaining names below `matched_path`, which is matched already."""
    if not names:
        yield matched_path
        return
    head, rest = names[0], names[1:]
    here = os.path.join(folder, matched_path)
    if head == "**":
        yield from _expand_pattern(folder, matched_path, rest)
        for entry in _list_entries(here):
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _expand_pattern(folder, os.path.join(matched_path, entry.name), names)
    elif has_wildcards(head):
        for entry in _list_entries(here):
            below_a_file = rest and not entry.is_dir()
            if _matches_name(entry.name, head) and not below_a_file:
                yield from _expand_pattern(folder, os.path.join(matched_path, entry.name), rest)
    elif os.path.lexists(os.path.join(here, head)):
        yield from _expand_pattern(folder, os.path.join(matched_path, head), rest)


def _matches_name(name: str, pattern: str) -> bool:
    hidden = name.startswith(".") and not pattern.startswith(".")
    return not hidden and fnmatchcase(name, pattern)


def _list_entries(folder: str) -> list[os.DirEntry[str]]:
    """List the entries of a folder; none if there is no folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def describe_feedback(
    reads: DocumentModel, writes: DocumentModel, format: str, folder: Path
) -> str:
    """Return the files of a sink that a source reads, as a pattern; "" if it reads none."""
    assert isinstance(reads, FilesSource)
    assert isinstance(writes, FilesSink)
    suffix = FORMAT_SUFFIXES.get(format, "") + SUFFIXES[writes.compression]
    columns = [escape_name(column) for column in writes.partition_by or ()]
    parts = [f"{column}=" for column in columns]
    part = str(PartName("0" * 8, 0, 0, suffix))
    example = (*_split_path(folder, writes.path), *parts, part)
    wanted = _split_path(folder, reads.path)
    if not (would_read(wanted, example) or would_match(wanted, example)):
        return ""
    shown = (f"{column}=*" for column in columns)
    return os.path.join(os.path.normpath(writes.path), *shown, f"part-*{suffix}")


def _split_path(folder: Path, path: str) -> tuple[str, ...]:
    """Return the names of the path relative to the pipeline's folder, in normal form."""
    return PurePath(os.path.relpath(folder / path, folder)).parts
