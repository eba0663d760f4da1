"""Parquet files as batch splits: ranges of rows, or the whole file if any reader may read it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from headrace.connectors.files.opened import Seen
from headrace.connectors.files.rows import RowReader
from headrace.connectors.files.stretch import Stretch
from headrace.connectors.formats.parquet_look import Looked, look
from headrace.connectors.formats.parquet_read import ROWS
from headrace.core.contracts import ConnectorError, ParquetFile, Piece
from headrace.core.messages import Split

LOOKS = 8
"""Files inspected concurrently: most of the time is waiting for the disk."""


def parquet_pieces(
    source: str, reader: RowReader, files: Mapping[str, Seen], step: int
) -> Iterator[Piece]:
    """Yield the batch splits of files, of about `step` bytes. Raises ConnectorError."""
    with ThreadPoolExecutor(LOOKS, thread_name_prefix="headrace-look") as executor:
        looks = executor.map(partial(_look, reader), files)
        for (name, seen), looked in zip(files.items(), looks, strict=True):
            yield from _of(source, os.path.join(reader.folder, name), name, seen, looked, step)


def _look(reader: RowReader, name: str) -> Looked:
    try:
        return look(reader.parquet, os.path.join(reader.folder, name))
    except ConnectorError as error:
        error.split = name
        raise


def _of(
    source: str, path: str, name: str, seen: Seen, looked: Looked, step: int
) -> Iterator[Piece]:
    split, rows = Split(source, name), looked.rows
    if looked.is_plain:
        parquet = ParquetFile(os.path.abspath(path), rows, seen.size, seen.changed_ns)
        yield Piece(split, Stretch(seen), seen.size, parquet)
    else:
        many = max(seen.size // step, 1)
        each = max(-(-rows // many), ROWS)
        for first in range(0, rows, each):
            yield Piece(split, Stretch(seen, first, min(first + each, rows)), seen.size // many)
