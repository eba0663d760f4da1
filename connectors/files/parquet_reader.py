"""Reader of Parquet files: some rows at a time; a position is the number of the next row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from headrace.connectors.files.open_file import FileVersion, OpenFile, open_file
from headrace.connectors.files.row_quota import RowQuota
from headrace.connectors.files.text_reader import TextFileReader
from headrace.connectors.formats.parquet_read import READ_ROWS, ParquetReader
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import Chunk
from headrace.core.api.splits import Position, Split


@dataclass(frozen=True, slots=True)
class ParquetFileReader:
    """Reads files of a folder; can be pickled, except its quota, which belongs to one process."""

    folder: str
    parquet: ParquetReader
    rows: int = READ_ROWS
    quota: RowQuota | None = None
    resumed_identities: Mapping[str, str] = field(default_factory=dict)
    """The identities of the files in which reading resumes."""

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
        while True:
            wanted = min(self.rows, self.quota.left) if self.quota else self.rows
            wanted = wanted if end is None else min(wanted, end - at)
            if wanted <= 0:
                return
            chunk, rows = self._read_chunk(file, split, at, wanted)
            yield chunk
            del chunk
            if rows < wanted:
                return
            at += rows

    def _read_chunk(self, file: OpenFile, split: Split, at: int, wanted: int) -> tuple[Chunk, int]:
        """Read at most `wanted` rows; return the chunk and the number of rows read."""
        try:
            (frame, bad), rows = self.parquet.read(file.path, at, wanted)
        except ConnectorError as error:
            file.check_unchanged(at)
            error.split, error.position = split.name, at
            raise
        file.check_unchanged(at)
        if self.quota:
            self.quota.subtract_rows(frame.height)
        return Chunk(split, frame, at + rows, bad), rows


AnyFileReader: TypeAlias = TextFileReader | ParquetFileReader
