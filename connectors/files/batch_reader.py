"""The files of a source as batch splits, which a batch reads in parallel.

Text is divided where records begin: after a line end. So only text in which every line end ends a
record is divided. Compressed text is not, because decompression cannot start in the middle. A file
that grows meanwhile is read up to the size that it had. A Parquet file is divided into ranges of
rows, or is one split if any reader may read it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import FileIO
from itertools import pairwise

from headrace.connectors.files.compression import find_decompressor
from headrace.connectors.files.discovery import (
    build_no_files_error,
    find_files,
    refuse_dangling_links,
)
from headrace.connectors.files.errors import translate_errors
from headrace.connectors.files.open_file import FileRange, FileVersion
from headrace.connectors.files.options import FilesSource
from headrace.connectors.files.parquet_reader import ParquetFileReader
from headrace.connectors.files.source import build_reader
from headrace.connectors.files.text_reader import TextFileReader
from headrace.connectors.formats.parquet_inspect import ParquetSummary, inspect_file
from headrace.connectors.formats.parquet_read import READ_ROWS
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import BatchSplit, BatchSplitReader, Chunk, ParquetFileInfo
from headrace.core.api.splits import Split
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass

MIN_SPLIT_BYTES, MAX_SPLIT_BYTES = 8 << 20, 64 << 20
"""The minimum and maximum bytes of text in a batch split."""


SEARCH_BYTES = 64 << 10


COMPRESSION_RATIO = 5
"""The assumed ratio of decompressed to compressed text."""


@dataclass(frozen=True, slots=True)
class FileBatchReader:
    """The batch reader of files; a batch split has between `min_bytes` and `max_bytes`."""

    name: str
    path: str
    reader: TextFileReader | ParquetFileReader
    kernel_executor: KernelExecutor
    min_bytes: int = MIN_SPLIT_BYTES
    max_bytes: int = MAX_SPLIT_BYTES

    async def plan_splits(self, many: int) -> Sequence[BatchSplit]:
        """Divide the files that exist now into batch splits."""
        return await self.kernel_executor.run_blocking(partial(self._plan_splits, many))

    def _plan_splits(self, many: int) -> Sequence[BatchSplit]:
        found = find_files(self.reader.folder, self.path)
        if not found:
            raise build_no_files_error(self.reader.folder, self.path)
        refuse_dangling_links(self.reader.folder, found)
        files = {name: self._stat_version(name) for name in found}
        total = sum(seen.size for seen in files.values())
        step = min(max(total // many, self.min_bytes), self.max_bytes)
        if isinstance(self.reader, ParquetFileReader):
            return list(plan_parquet_splits(self.name, self.reader, files, step))
        return [
            piece for name, seen in files.items() for piece in self._divide_file(name, seen, step)
        ]

    def _join_path(self, name: str) -> str:
        return os.path.join(self.reader.folder, name)

    def _stat_version(self, name: str) -> FileVersion:
        with translate_errors(f"read {name}", name):
            found = os.stat(self._join_path(name))
        return FileVersion(found.st_size, found.st_mtime_ns)

    def _divide_file(self, name: str, seen: FileVersion, step: int) -> Iterator[BatchSplit]:
        """Yield the batch splits of a file, of about `step` bytes."""
        split = Split(self.name, name)
        if find_decompressor(name):
            yield BatchSplit(split, FileRange(seen), seen.size * COMPRESSION_RATIO)
            return
        with translate_errors(f"read {name}", name):
            borders = [0, *self._find_cuts(name, seen.size, step), seen.size]
        for first, end in pairwise(borders):
            if first < end:
                yield BatchSplit(split, FileRange(seen, first, end), end - first)

    def _find_cuts(self, name: str, size: int, step: int) -> list[int]:
        assert isinstance(self.reader, TextFileReader)
        if size < 2 * step:
            return []
        with open(self._join_path(name), "rb", buffering=0) as file:
            quote = self.reader.decoder.quote_bytes
            quoted = _find_byte(file, quote, 0) if quote else None
            return find_line_cuts(file, size if quoted is None else quoted, step)

    def read(self, piece: BatchSplit) -> Iterator[tuple[int, Chunk]]:
        """Yield the chunks of a batch split, each with its first byte or row."""
        stretch = piece.record_range
        assert isinstance(stretch, FileRange)
        at = stretch.first
        for chunk in self.reader.read_range(piece.split, at, stretch.end, stretch.version):
            yield at, chunk
            assert isinstance(chunk.position, int)
            at = chunk.position


def find_line_cuts(file: FileIO, end: int, step: int) -> list[int]:
    """Find the beginnings of lines, about every `step` bytes, before `end`."""
    cuts: list[int] = []
    at = step
    while at < end:
        line_end = _find_byte(file, b"\n", at - 1)
        if line_end is None or line_end + 1 >= end:
            break
        cuts.append(line_end + 1)
        at = line_end + 1 + step
    return cuts


def _find_byte(file: FileIO, sign: bytes, at: int) -> int | None:
    """Find the first position of a byte from a position on."""
    file.seek(at)
    while data := file.read(SEARCH_BYTES):
        if (found := data.find(sign)) >= 0:
            return at + found
        at += len(data)
    return None


def build_batch_reader(
    source: nodes.Source, run_context: RunContext, block: int
) -> BatchSplitReader:
    """Build the batch reader that the plan describes."""
    options = source.options
    assert isinstance(options, FilesSource)
    of_files = build_reader(source, str(run_context.folder), block, None)
    return FileBatchReader(source.name, str(options.path), of_files, run_context.kernel_executor)


CONCURRENT_LOOKS = 8
"""Files inspected concurrently: most of the time is waiting for the disk."""


def plan_parquet_splits(
    source: str, reader: ParquetFileReader, files: Mapping[str, FileVersion], step: int
) -> Iterator[BatchSplit]:
    """Yield the batch splits of files, of about `step` bytes. Raises ConnectorError."""
    with ThreadPoolExecutor(CONCURRENT_LOOKS, thread_name_prefix="headrace-look") as executor:
        looks = executor.map(partial(_inspect_file, reader), files)
        for (name, seen), looked in zip(files.items(), looks, strict=True):
            yield from _divide_file(source, reader, name, seen, looked, step)


def _inspect_file(reader: ParquetFileReader, name: str) -> ParquetSummary:
    try:
        return inspect_file(reader.parquet, os.path.join(reader.folder, name))
    except ConnectorError as error:
        error.split = name
        raise


def _divide_file(
    source: str,
    reader: ParquetFileReader,
    name: str,
    seen: FileVersion,
    looked: ParquetSummary,
    step: int,
) -> Iterator[BatchSplit]:
    path = os.path.join(reader.folder, name)
    split, rows = Split(source, name), looked.row_count
    if looked.is_plain and reader.folder_columns is None:
        parquet = ParquetFileInfo(os.path.abspath(path), rows, seen.size, seen.modified_ns)
        yield BatchSplit(split, FileRange(seen), seen.size, parquet)
    else:
        many = max(seen.size // step, 1)
        each = max(-(-rows // many), READ_ROWS)
        for first in range(0, rows, each):
            yield BatchSplit(
                split, FileRange(seen, first, min(first + each, rows)), seen.size // many
            )
