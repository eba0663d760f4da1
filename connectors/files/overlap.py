"""Detection of a source that reads a sink's files, by names, before any file exists.

One example represents the files that the sink will write: the job's id is zeros, and a folder of
`partition_by` is `column=`. A pattern that matches only some of them may go undetected.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from headrace.connectors.files.compression import SUFFIXES
from headrace.connectors.files.matching import would_match, would_read
from headrace.connectors.files.names import FORMAT_SUFFIXES, PartName, escape_name
from headrace.connectors.files.options import FilesSink, FilesSource
from headrace.core.plan import nodes


def describe_feedback(source: nodes.Source, sink: nodes.Sink, folder: Path) -> str:
    """Return the files of the sink that the source reads, as a pattern; "" if it reads none."""
    reads, writes = source.options, sink.options
    assert isinstance(reads, FilesSource)
    assert isinstance(writes, FilesSink)
    name = sink.format.name if sink.format else "json"
    suffix = FORMAT_SUFFIXES[name] + SUFFIXES[writes.compression]
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
