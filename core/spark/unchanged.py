"""Check that files read by Spark itself did not change since the batch started.

headrace's own readers notice a change while they read; Spark does not check.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from headrace.core.blame import attribute_errors_to
from headrace.core.contracts import BatchSplit, ConnectorError
from headrace.core.spark.reading import SourceInput, is_spark_scan

STABLE_FILES_HINT = "files must not change while they are read: add new files instead"


def check_files_unchanged(read: Mapping[str, SourceInput]) -> None:
    """Check that the files of these sources are unchanged. Raises ConnectorError."""
    for source, found in read.items():
        with attribute_errors_to(source):
            for piece in filter(is_spark_scan, found.splits):
                _check_file(piece)


def _check_file(piece: BatchSplit) -> None:
    file, name = piece.parquet, piece.split.name
    assert file is not None
    try:
        there = os.stat(file.path)
    except OSError as error:
        gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = "vanished while it was read" if gone else f"cannot be seen any more: {error.strerror}"
        raise ConnectorError(f"{name} {why}", STABLE_FILES_HINT, split=name) from error
    if (there.st_size, there.st_mtime_ns) != (file.size, file.modified_ns):
        raise ConnectorError(f"{name} was changed while it was read", STABLE_FILES_HINT, split=name)
