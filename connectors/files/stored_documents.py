"""The documents that files sinks and sources store in checkpoints.

Their names of files lead nowhere else: a part is below the folder of its sink, and a file that was
read is one that its source reads.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated

import msgspec
from msgspec import Meta, field

from headrace.connectors.files.file_identity import parse_identity
from headrace.connectors.files.options import FilesSource
from headrace.connectors.files.patterns import has_wildcards, would_match
from headrace.core.api.splits import Position
from headrace.core.api.stored_documents import MalformedDocument
from headrace.core.plan import nodes

PART_PATTERN = r"\A([^/\0]+=[^/\0]+/)*part-[0-9a-f]{8}-\d+-\d+\.[a-z.]+\Z"
"""The pattern of a part's path within the folder of its sink (`names`)."""


class StoredPart(msgspec.Struct):
    """A part that was prepared."""

    path: Annotated[str, Meta(pattern=PART_PATTERN)] = field(name="path")
    size: Annotated[int, Meta(ge=0)] = field(name="size")


class FilesHandle(msgspec.Struct, forbid_unknown_fields=True):
    """The parts to commit. An unknown key may be a damaged optional one, so it is refused."""

    parts: list[StoredPart] = field(name="parts")
    appends: bool = field(name="beside", default=False)
    is_of_all: bool = field(name="all", default=False)


class FilesWriterState(msgspec.Struct):
    """The number of a writer's next part."""

    sequence: Annotated[int, Meta(ge=0)] = field(name="sequence")
    job: str | None = field(name="job", default=None)
    appends: bool = field(name="beside", default=False)


def check_split(source: nodes.Source, name: str, position: Position, identity: str | None) -> None:
    """Check how far a file was read. Raises MalformedDocument."""
    options = source.options
    assert isinstance(options, FilesSource)
    if not is_read(options.path, name):
        raise MalformedDocument(f"{name!r} is no file of {options.path}")
    if isinstance(position, str) or (position is not None and position < 0):
        raise MalformedDocument(f"wanted a number of bytes or rows, got {position!r}")
    try:
        _ = identity is None or parse_identity(identity)
    except (KeyError, ValueError):
        raise MalformedDocument(f"{identity!r} identifies no file") from None


def is_read(path: str, name: str) -> bool:
    """Whether a source with this path may read the file of that name.

    >>> is_read("in/*.jsonl", "in/a.jsonl"), is_read("in", "in/b/a.jsonl"), is_read("in", "in")
    (True, True, True)
    >>> is_read("in", "in/../../a"), is_read("in/**", "/in/a"), is_read("/in/*", "/in/..")
    (False, False, False)
    >>> is_read("in/*/../*.jsonl", "in/b/../a.jsonl"), is_read("in/.*/a", "in/../a")
    (True, False)
    """
    wanted, parts = PurePath(path).parts, PurePath(name).parts
    # A wildcard such as .* finds no parent folder.
    if "\0" in name or parts.count("..") != wanted.count(".."):
        return False
    if has_wildcards(path):
        return would_match(wanted, parts)
    return parts[: len(wanted)] == wanted
