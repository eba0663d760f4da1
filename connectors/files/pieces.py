"""The files of a source as batch splits, which a batch reads in parallel.

Text is divided where records begin: after a line end. So only text in which every line end ends a
record is divided. Compressed text is not, because decompression cannot start in the middle. A file
that grows meanwhile is read up to the size that it had.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import FileIO
from itertools import pairwise

from headrace.connectors.files.compression import unpacking
from headrace.connectors.files.failing import telling
from headrace.connectors.files.finding import find, nothing, refuse_dead_links
from headrace.connectors.files.opened import Seen
from headrace.connectors.files.options import FilesSource
from headrace.connectors.files.reader import FileReader
from headrace.connectors.files.rows import RowReader
from headrace.connectors.files.source import reader_of
from headrace.connectors.files.stretch import Stretch
from headrace.core.bench import Bench
from headrace.core.contracts import Chunk, Piece, PieceReader, Surroundings
from headrace.core.messages import Split
from headrace.core.plan import nodes

LEAST, MOST = 8 << 20, 64 << 20
"""The minimum and maximum bytes of text in a batch split."""
BLOCK = 64 << 10
UNPACKED = 5
"""The assumed ratio of decompressed to compressed text."""


@dataclass(frozen=True, slots=True)
class FilePieces:
    """The batch reader of files; a batch split has between `least` and `most` bytes."""

    name: str
    path: str
    reader: FileReader | RowReader
    bench: Bench
    least: int = LEAST
    most: int = MOST

    async def pieces(self, many: int) -> Sequence[Piece]:
        """Divide the files that exist now into batch splits."""
        return await self.bench.blocking(partial(self._pieces, many))

    def _pieces(self, many: int) -> Sequence[Piece]:
        found = find(self.reader.folder, self.path)
        if not found:
            raise nothing(self.reader.folder, self.path)
        refuse_dead_links(self.reader.folder, found)
        files = {name: self._seen(name) for name in found}
        total = sum(seen.size for seen in files.values())
        step = min(max(total // many, self.least), self.most)
        if isinstance(self.reader, RowReader):
            from headrace.connectors.files.parquet_pieces import parquet_pieces

            return list(parquet_pieces(self.name, self.reader, files, step))
        return [piece for name, seen in files.items() for piece in self._of(name, seen, step)]

    def _path(self, name: str) -> str:
        return os.path.join(self.reader.folder, name)

    def _seen(self, name: str) -> Seen:
        with telling(f"read {name}", name):
            found = os.stat(self._path(name))
        return Seen(found.st_size, found.st_mtime_ns)

    def _of(self, name: str, seen: Seen, step: int) -> Iterator[Piece]:
        """Yield the batch splits of a file, of about `step` bytes."""
        split = Split(self.name, name)
        if unpacking(name):
            yield Piece(split, Stretch(seen), seen.size * UNPACKED)
            return
        with telling(f"read {name}", name):
            borders = [0, *self._borders(name, seen.size, step), seen.size]
        for first, end in pairwise(borders):
            if first < end:
                yield Piece(split, Stretch(seen, first, end), end - first)

    def _borders(self, name: str, size: int, step: int) -> list[int]:
        assert isinstance(self.reader, FileReader)
        if size < 2 * step:
            return []
        with open(self._path(name), "rb", buffering=0) as file:
            quote = self.reader.decoder.quote
            quoted = _find(file, quote, 0) if quote else None
            return borders(file, size if quoted is None else quoted, step)

    def read(self, piece: Piece) -> Iterator[tuple[int, Chunk]]:
        """Yield the chunks of a batch split, each with its first byte or row."""
        stretch = piece.at
        assert isinstance(stretch, Stretch)
        at = stretch.first
        for chunk in self.reader.between(piece.split, at, stretch.end, stretch.seen):
            yield at, chunk
            assert isinstance(chunk.position, int)
            at = chunk.position


def borders(file: FileIO, end: int, step: int) -> list[int]:
    """Find the beginnings of lines, about every `step` bytes, before `end`."""
    found: list[int] = []
    at = step
    while at < end:
        line_end = _find(file, b"\n", at - 1)
        if line_end is None or line_end + 1 >= end:
            break
        found.append(line_end + 1)
        at = line_end + 1 + step
    return found


def _find(file: FileIO, sign: bytes, at: int) -> int | None:
    """Find the first position of a byte from a position on."""
    file.seek(at)
    while data := file.read(BLOCK):
        if (found := data.find(sign)) >= 0:
            return at + found
        at += len(data)
    return None


def open_pieces(source: nodes.Source, surroundings: Surroundings, block: int) -> PieceReader:
    """Build the batch reader that the plan describes."""
    options = source.options
    assert isinstance(options, FilesSource)
    of_files = reader_of(source, str(surroundings.folder), block, None)
    return FilePieces(source.name, str(options.path), of_files, surroundings.bench)
