"""Reader of text files: blocks of whole records, each decoded at once.

A block ends after the last record that is complete in it; the rest is read again at the start of
the next block, which costs less than carrying it over. The position of a chunk is the byte after
its last record, so reading resumes with the same records, wherever blocks were cut before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.connectors.files.open_file import (
    FileVersion,
    OpenFile,
    format_reset_hint,
    open_file,
)
from headrace.connectors.formats.lines import LineBlock
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import DEFAULT_MAX_RECORD, Chunk
from headrace.core.api.splits import Position, Split
from headrace.core.errors.rendering import format_size
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.connectors.files.folder_columns import FolderColumns
    from headrace.connectors.files.row_quota import RowQuota
    from headrace.connectors.formats.contract import Decoder

HEADER_BYTES = 64 << 10
"""Bytes within which a header is expected to end."""


@dataclass(frozen=True, slots=True)
class TextFileReader:
    """Reads files of a folder; can be pickled, except its quota, which belongs to one process."""

    folder: str
    decoder: Decoder
    block: int
    quota: RowQuota | None = None
    max_record_bytes: int = DEFAULT_MAX_RECORD
    resumed_identities: Mapping[str, str] = field(default_factory=dict)
    """The identities of the files in which reading resumes."""
    folder_columns: FolderColumns | None = None
    read_sizes: dict[str, int] = field(default_factory=dict, compare=False)
    """The size of each file that was read to its end, which the reader adds."""

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """Yield the chunks from a byte on, with identities."""
        at = position if isinstance(position, int) else 0
        with open_file(os.path.join(self.folder, split.name), split.name) as text:
            if at and (identity := self.resumed_identities.get(split.name)):
                text.check_identity(identity, split, at, may_grow=True)
            for chunk in self._read_chunks(text, split, at):
                assert isinstance(chunk.position, int)
                yield replace(chunk, identity=text.identify(chunk.position))
                del chunk
            self.read_sizes[split.name] = text.size

    def read_range(
        self, split: Split, at: int, end: int | None = None, seen: FileVersion | None = None
    ) -> Iterator[Chunk]:
        """Yield the chunks from byte `at` to byte `end`; records begin at both."""
        with open_file(os.path.join(self.folder, split.name), split.name, end, seen) as text:
            yield from self._read_chunks(text, split, at)

    def _read_chunks(self, text: OpenFile, split: Split, at: int) -> Iterator[Chunk]:
        decoder = self.decoder
        if decoder.has_header:
            header = self._read_records(text, split, 0, 1, min(HEADER_BYTES, self.block))
            if not header:
                return
            decoder = begin_decoder(decoder, header, split.name)
            at = max(at, len(header))
        while chunk := self._read_chunk(text, decoder, split, skip_line_end(text, split, at)):
            yield chunk
            assert isinstance(chunk.position, int)
            at = chunk.position
            # Frees the chunk's memory for the next one.
            del chunk

    def _read_chunk(self, text: OpenFile, decoder: Decoder, split: Split, at: int) -> Chunk | None:
        block = self._read_records(text, split, at, self._count_wanted(), self.block)
        if not block:
            return None
        frame, bad = decoder.decode(block, at)
        if self.quota:
            self.quota.subtract_rows(frame.height)
        if self.folder_columns:
            frame = self.folder_columns.add(frame, split.name)
        find = partial(LineBlock(block, at).list_positions, bad)
        return Chunk(split, frame, at + len(block), bad, list_positions=find)

    def _count_wanted(self) -> int | None:
        return self.quota.left if self.quota else None

    def _read_records(
        self, text: OpenFile, split: Split, at: int, wanted: int | None, size: int
    ) -> bytes:
        """Return the next whole records, up to `wanted`; `size` grows until it holds one."""
        if wanted is not None and wanted <= 0:
            return b""
        # One byte more is the newline, or shows that there is none.
        enough = self.max_record_bytes + 1
        while True:
            fitting = text.fit_to_line_end(at, size)
            data = text.read_at(at, fitting)
            ended = len(data) < fitting
            whole = len(data) if ended else self.decoder.find_cut(data)
            if whole or ended:
                return self._cut_records(data[:whole], split, at, wanted)
            if size >= enough:
                raise build_record_size_error(split.name, at, self.max_record_bytes)
            size = min(2 * size, enough)

    def _cut_records(self, whole: bytes, split: Split, at: int, wanted: int | None) -> bytes:
        cut, limit = self.decoder.find_cut, self.max_record_bytes
        data = cut_before_large_record(whole, limit, cut)
        if whole and not data:
            raise build_record_size_error(split.name, at, limit)
        return data if wanted is None else cut_first_records(data, wanted, cut)


def build_record_size_error(split: str, at: int, limit: int) -> ConnectorError:
    """Build the error of a record that begins at a byte and is longer than the limit."""
    return ConnectorError(
        f"{split} has a record longer than max_record, {format_size(limit)}",
        "a record ends in a newline; in CSV, a quote may lack its partner. max_record in settings"
        " is the limit",
        split=split,
        position=at,
        final=True,
    )


def cut_before_large_record(data: bytes, limit: int, cut: Callable[[bytes], int]) -> bytes:
    r"""Return the whole records before the first one of more than `limit` bytes.

    >>> cut_before_large_record(b"a\nbcd\nefgh\ni", 3, lambda data: data.rfind(b"\n") + 1)
    b'a\nbcd\n'
    """
    end = 0
    while len(data) - end > limit:
        size = cut(data[end : end + limit + 1])
        if not size:
            return data[:end]
        end += size
    return data


def skip_line_end(text: OpenFile, split: Split, at: int) -> int:
    """Return the position of the next line, where a last line without an end was read before.

    Raises ConnectorError if that line has been continued since.
    """
    if at == 0 or text.ends_line(at):
        return at
    added = text.read_at(at, len(b"\r\n"))
    if not added or added.startswith(b"\n"):
        return at + len(added[:1])
    if added.startswith(b"\r\n"):
        return at + len(b"\r\n")
    raise ConnectorError(
        f"{split.name} was read up to {at}, within a line that has been continued since",
        format_reset_hint("append only whole lines, which end in a newline", split),
        split=split.name,
        position=at,
    )


def begin_decoder(decoder: Decoder, header: bytes, split: str) -> Decoder:
    """Return the decoder of a split with this header; an error of the header names the split."""
    try:
        return decoder.with_header(header)
    except ConnectorError as error:
        error.split, error.position = split, 0
        raise


def cut_first_records(data: bytes, records: int, cut: Callable[[bytes], int]) -> bytes:
    """Return at most `records` records from the start of whole ones, and at least one."""
    if data.count(b"\n") < records:
        return data
    end = lines = whole = 0
    while lines < records or not whole:
        end = data.find(b"\n", end) + 1
        if not end:
            return data
        lines += 1
        if lines >= records:
            whole = cut(data[:end])
    return data[:whole]
