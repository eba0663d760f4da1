"""Reader of Parquet files: some rows at a time; a position is the number of the next row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import TypeAlias

from headrace.connectors.files.folder_columns import FolderColumns
from headrace.connectors.files.open_file import FileVersion, OpenFile, open_file
from headrace.connectors.files.row_quota import RowQuota
from headrace.connectors.files.text_reader import TextFileReader
from headrace.connectors.formats.bad_records import list_row_numbers
from headrace.connectors.formats.parquet_pages import ParquetPages
from headrace.connectors.formats.parquet_read import READ_ROWS, ParquetReader
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import DEFAULT_MAX_RECORD, Chunk
from headrace.core.api.splits import Position, Split
from headrace.core.types.lazy_dataclass import dataclass

READ_BYTES = 64 << 20
"""The memory that rows read at once may take, if there are several."""


@dataclass(frozen=True, slots=True)
class ParquetFileReader:
    """Reads files of a folder; can be pickled, except its quota, which belongs to one process."""

    folder: str
    parquet: ParquetReader
    rows: int = READ_ROWS
    quota: RowQuota | None = None
    max_record_bytes: int = DEFAULT_MAX_RECORD
    max_bytes: int = READ_BYTES
    resumed_identities: Mapping[str, str] = field(default_factory=dict)
    """The identities of the files in which reading resumes."""
    folder_columns: FolderColumns | None = None

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """Yield the chunks from a row on, with identities."""
        at = position if isinstance(position, int) else 0
        with open_file(os.path.join(self.folder, split.name), split.name) as file:
            if at and (identity := self.resumed_identities.get(split.name)):
                file.check_identity(identity, split, at, may_grow=False)
            identity = file.identify_footer()
            for chunk in self._read_chunks(file, split, at):
                yield replace(chunk, identity=identity)
                del chunk

    def read_range(
        self, split: Split, at: int, end: int | None = None, seen: FileVersion | None = None
    ) -> Iterator[Chunk]:
        """Yield the chunks from row `at` up to, not including, row `end`."""
        with open_file(os.path.join(self.folder, split.name), split.name, seen=seen) as file:
            yield from self._read_chunks(file, split, at, end)

    def _read_chunks(
        self, file: OpenFile, split: Split, at: int, end: int | None = None
    ) -> Iterator[Chunk]:
        pages = self._open_pages(file, split)
        while True:
            wanted = min(self.rows, self.quota.left) if self.quota else self.rows
            wanted = wanted if end is None else min(wanted, end - at)
            if wanted <= 0:
                return
            with _locate_errors(file, split, at):
                wanted = pages.count_rows(at, wanted, self.max_bytes)
            chunk, rows = self._read_chunk(file, split, at, wanted)
            yield chunk
            del chunk
            if rows < wanted:
                return
            at += rows

    def _open_pages(self, file: OpenFile, split: Split) -> ParquetPages:
        with _locate_errors(file, split, 0):
            self.parquet.read_columns(file.path)
            return ParquetPages(file.path, self.parquet.schema.names, self.max_record_bytes)

    def _read_chunk(self, file: OpenFile, split: Split, at: int, wanted: int) -> tuple[Chunk, int]:
        """Read at most `wanted` rows; return the chunk and the number of rows read."""
        with _locate_errors(file, split, at):
            (frame, bad), rows = self.parquet.read(file.path, at, wanted)
        file.check_unchanged(at)
        if self.quota:
            self.quota.subtract_rows(frame.height)
        if self.folder_columns:
            frame = self.folder_columns.add(frame, split.name)
        find = partial(list_row_numbers, at, at + rows, bad)
        return Chunk(split, frame, at + rows, bad, list_positions=find), rows


@contextmanager
def _locate_errors(file: OpenFile, split: Split, row: int) -> Iterator[None]:
    """Add the file and the row to errors, unless the file has changed."""
    try:
        yield
    except ConnectorError as error:
        file.check_unchanged(row)
        error.split, error.position = split.name, row
        raise


AnyFileReader: TypeAlias = TextFileReader | ParquetFileReader
