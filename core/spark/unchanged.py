"""Files that Spark has read by itself are still what was looked at when the batch began.

Our own readers notice while they read that a file is changed; Spark does not look.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from headrace.core.blame import blamed
from headrace.core.contracts import ConnectorError, Piece
from headrace.core.spark.reading import Found, is_scanned

STAYS = "files stay as they are while they are read: write new ones beside them"


def check_unchanged(read: Mapping[str, Found]) -> None:
    """What was read of these sources is what there was to read. Raises ConnectorError."""
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
