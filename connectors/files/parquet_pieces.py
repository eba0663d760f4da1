"""Parquet files as batch splits: ranges of rows, or the whole file if any reader may read it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from headrace.connectors.files.opened import FileVersion
from headrace.connectors.files.rows import ParquetFileReader
from headrace.connectors.files.stretch import FileRange
from headrace.connectors.formats.parquet_look import ParquetSummary, inspect_file
from headrace.connectors.formats.parquet_read import READ_ROWS
from headrace.core.contracts import BatchSplit, ConnectorError, ParquetFileInfo
from headrace.core.messages import Split

CONCURRENT_LOOKS = 8
"""Files inspected concurrently: most of the time is waiting for the disk."""


def plan_parquet_splits(
    source: str, reader: ParquetFileReader, files: Mapping[str, FileVersion], step: int
) -> Iterator[BatchSplit]:
    """Yield the batch splits of files, of about `step` bytes. Raises ConnectorError."""
    with ThreadPoolExecutor(CONCURRENT_LOOKS, thread_name_prefix="headrace-look") as executor:
        looks = executor.map(partial(_inspect_file, reader), files)
        for (name, seen), looked in zip(files.items(), looks, strict=True):
            yield from _divide_file(
                source, os.path.join(reader.folder, name), name, seen, looked, step
            )


def _inspect_file(reader: ParquetFileReader, name: str) -> ParquetSummary:
    try:
        return inspect_file(reader.parquet, os.path.join(reader.folder, name))
    except ConnectorError as error:
        error.split = name
        raise


def _divide_file(
    source: str, path: str, name: str, seen: FileVersion, looked: ParquetSummary, step: int
) -> Iterator[BatchSplit]:
    split, rows = Split(source, name), looked.row_count
    if looked.is_plain:
        parquet = ParquetFileInfo(os.path.abspath(path), rows, seen.size, seen.modified_ns)
        yield BatchSplit(split, FileRange(seen), seen.size, parquet)
    else:
        many = max(seen.size // step, 1)
        each = max(-(-rows // many), READ_ROWS)
        for first in range(0, rows, each):
            yield BatchSplit(
                split, FileRange(seen, first, min(first + each, rows)), seen.size // many
            )
