"""An open file or a range of it as text with positions, checked while it is read.

A position counts bytes of the text; in a compressed file, of the decompressed text. Each read
starts where the last one ended or a little before, so a decompressor only ever moves forward.

Reading is correct only while the file stays the same. It may grow; a file that shrinks, vanishes,
is overwritten or replaced is detected at the next block. A later run that resumes at a position
finds out by the identity that was stored with it.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from headrace.connectors.files.compression import Decompressor, find_decompressor
from headrace.connectors.files.errors import translate_errors
from headrace.connectors.files.file_identity import (
    find_difference,
    identify_before,
    identify_by_footer,
    parse_identity,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import Position, Split
from headrace.core.types.lazy_dataclass import dataclass

READ_BYTES = 1 << 20


TAIL_BYTES = 16 << 10


UNCHANGED_HINT = "a file must not change while it is read: write new files next to it"


def format_reset_hint(first: str, split: Split) -> str:
    """Return a hint with a first choice; the second is to read the source from its start."""
    return f"{first}; --reset-state {split.source} reads {split.source} again from its start"


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The size and modification time of a file when its batch splits were planned."""

    size: int
    modified_ns: int


class OpenFile:
    """An open file, read up to `end`; `name` is its name in messages."""

    def __init__(self, file: io.FileIO, path: str, name: str, end: int | None = None) -> None:
        self._file = file
        self.path = path
        self._name = name
        self._limit = sys.maxsize if end is None else end
        self._seen = os.fstat(file.fileno())

    @property
    def size(self) -> int:
        """The size of the file in bytes, as it was last seen."""
        return self._seen.st_size

    def check_version(self, seen: FileVersion) -> None:
        """Raise ConnectorError if the file differs from `seen`; with an end, it may have grown."""
        now, before = self._seen, seen.size
        if now.st_size < before:
            self._raise_changed(
                f"shrank from {before} to {now.st_size} bytes before it was read", 0
            )
        grew = now.st_size > before
        if self._limit == sys.maxsize if grew else now.st_mtime_ns != seen.modified_ns:
            self._raise_changed("was changed before it was read", 0)

    def read_at(self, position: int, size: int) -> bytes:
        """Read `size` bytes of the text from a position on; fewer only at its end."""
        with translate_errors(f"read {self._name}", self._name, position):
            data = self._read_bytes(position, size)
        self.check_unchanged(position)
        if not data and position > self._known_end():
            self._raise_changed("is shorter than it was: it ends before what was read", position)
        return data

    def _known_end(self) -> int:
        """Return the end of the text, which is known once it has been read."""
        return self._seen.st_size

    def ends_line(self, position: int) -> bool:
        """Whether a line ends just before a position, or the text is shorter."""
        with translate_errors(f"read {self._name}", self._name, position):
            return self._read_bytes(position - 1, 1)[:1] in (b"\n", b"")

    def identify(self, position: int) -> str:
        """Return the identity of the file as it was read up to a position."""
        with translate_errors(f"read {self._name}", self._name, position):
            end, size = self._locate_raw_end(position), self._seen.st_size
            identity = identify_before(self._file.fileno(), end, size)
        # Else the identity might be that of a file that was changed since the block was read.
        self.check_unchanged(position)
        return str(identity)

    def identify_footer(self) -> str:
        """Return the identity of a Parquet file."""
        with translate_errors(f"read {self._name}", self._name):
            return str(identify_by_footer(self._file.fileno(), self._seen.st_size))

    def check_identity(
        self, identity: str, split: Split, position: Position, *, may_grow: bool
    ) -> int:
        """Return by how many bytes the file has grown since it was identified.

        Raises ConnectorError if it is another file, or its content before the position has changed.
        """
        wanted = parse_identity(identity)
        with translate_errors(f"read {self._name}", self._name):
            difference = find_difference(self._file.fileno(), wanted, may_grow=may_grow)
        if difference:
            raise ConnectorError(
                f"{self._name} is not the file that was read up to {position}: {difference}",
                format_reset_hint("put back the file that was read", split),
                split=split.name,
                position=position,
                exit_status=3,
            )
        return self._seen.st_size - wanted.size

    def _locate_raw_end(self, position: int) -> int:
        """Return the offset in the file up to which it was read for the text up to a position."""
        return position

    def fit_to_line_end(self, position: int, size: int) -> int:
        """Return a size just below the given one at which a line ends, if one is found cheaply.

        The block then need not be copied to be cut at the line end.
        """
        after = position + size
        tail = (
            os.pread(self._file.fileno(), TAIL_BYTES, after - TAIL_BYTES)
            if size > 2 * TAIL_BYTES
            else b""
        )
        return (
            size - TAIL_BYTES + tail.rfind(b"\n") + 1
            if len(tail) == TAIL_BYTES and b"\n" in tail
            else size
        )

    def _read_bytes(self, position: int, size: int) -> bytes:
        number = self._file.fileno()
        # Allocating a whole block for a small file would cost more than reading the file.
        there = max(self._seen.st_size - position, TAIL_BYTES)
        size = max(0, min(size, self._limit - position))
        data = os.pread(number, min(size, there), position)
        while 0 < len(data) < size and (
            more := os.pread(number, min(size - len(data), TAIL_BYTES), position + len(data))
        ):
            data += more
        return data

    def check_unchanged(self, position: int) -> None:
        """Raise ConnectorError if the file has vanished, shrunk, changed or been replaced."""
        with translate_errors(f"read {self._name}", self._name, position):
            now, seen = os.fstat(self._file.fileno()), self._seen
            try:
                there = os.stat(self.path)
            except (FileNotFoundError, NotADirectoryError):
                self._raise_changed("vanished while it was read", position)
        if (there.st_dev, there.st_ino) != (now.st_dev, now.st_ino):
            self._raise_changed("was replaced by another file while it was read", position)
        if now.st_size < seen.st_size:
            change = f"shrank from {seen.st_size} to {now.st_size} bytes"
            self._raise_changed(f"{change} while it was read", position)
        if now.st_size == seen.st_size and now.st_mtime_ns != seen.st_mtime_ns:
            self._raise_changed("was changed while it was read", position)
        self._seen = now

    def _raise_changed(self, what: str, position: int) -> NoReturn:
        message = f"{self._name} {what}"
        raise ConnectorError(message, UNCHANGED_HINT, split=self._name, position=position)


class OpenCompressedFile(OpenFile):
    """A compressed file; retains the last block, whose end is read again with the next."""

    def __init__(self, file: io.FileIO, path: str, name: str, unpack: Decompressor) -> None:
        super().__init__(file, path, name)
        self._text = unpack(io.BufferedReader(file, READ_BYTES))
        self._kept = b""
        self._kept_at = 0

    def _locate_raw_end(self, position: int) -> int:
        return os.lseek(self._file.fileno(), 0, os.SEEK_CUR)

    def fit_to_line_end(self, position: int, size: int) -> int:
        """Return the size unchanged: the text ahead is not decompressed yet."""
        return size

    def _read_bytes(self, position: int, size: int) -> bytes:
        if not self._seen.st_size:
            raise EOFError("it is empty, which no compressed file is")
        while self._known_end() < position and self._skip(position - self._known_end()):
            pass
        if self._known_end() < position:
            return b""
        pieces = [self._kept[position - self._kept_at :]]
        missing = size - len(pieces[0])
        while missing > 0 and (piece := self._text.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
        self._kept, self._kept_at = b"".join(pieces), position
        return self._kept

    def _skip(self, size: int) -> bool:
        """Move forward by at most `size` bytes; return whether there was any text left."""
        self._kept, self._kept_at = self._text.read(min(READ_BYTES, size)), self._known_end()
        return bool(self._kept)

    def _known_end(self) -> int:
        return self._kept_at + len(self._kept)


@contextmanager
def open_file(
    path: str, name: str, end: int | None = None, seen: FileVersion | None = None
) -> Iterator[OpenFile]:
    """Open a file while the context lasts; the suffix of its name gives its compression.

    An uncompressed file is read up to `end`. Raises ConnectorError if the file differs from `seen`.
    """
    with translate_errors(f"read {name}", name):
        file = io.FileIO(path)
    with file:
        unpack = find_decompressor(name)
        text = (
            OpenCompressedFile(file, path, name, unpack)
            if unpack
            else OpenFile(file, path, name, end)
        )
        if seen is not None:
            text.check_version(seen)
        yield text


@dataclass(frozen=True, slots=True)
class FileRange:
    """A range of bytes of text or rows of Parquet; without an end, up to the file's end."""

    version: FileVersion
    first: int = 0
    end: int | None = None
