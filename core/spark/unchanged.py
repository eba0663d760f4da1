"""Check that files read by Spark itself did not change since the batch started.

headrace's own readers notice a change while they read; Spark does not check.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from headrace.core.blame import blamed
from headrace.core.contracts import ConnectorError, Piece
from headrace.core.spark.reading import Found, is_scanned

STAYS = "files must not change while they are read: add new files instead"


def check_unchanged(read: Mapping[str, Found]) -> None:
    """Check that the files of these sources are unchanged. Raises ConnectorError."""
    for source, found in read.items():
        with blamed(source):
            for piece in filter(is_scanned, found.pieces):
                _check(piece)


def _check(piece: Piece) -> None:
    file, name = piece.parquet, piece.split.name
    assert file is not None
    try:
        there = os.stat(file.path)
    except OSError as error:
        gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = "vanished while it was read" if gone else f"cannot be seen any more: {error.strerror}"
        raise ConnectorError(f"{name} {why}", STAYS, split=name) from error
    if (there.st_size, there.st_mtime_ns) != (file.size, file.changed_ns):
        raise ConnectorError(f"{name} was changed while it was read", STAYS, split=name)
