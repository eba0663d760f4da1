"""Blocks of lines: their cuts and their records."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, Self

from headrace.core.api.sources import BadRecord
from headrace.core.api.splits import Position
from headrace.core.types.lazy_dataclass import dataclass

BLANK = b" \t\r\n"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class RecordLine(NamedTuple):
    """A record: its position in the split, and its bytes without the line end."""

    position: int
    text: bytes


@dataclass(frozen=True)
class LineBlock:
    """Whole lines and the position of the first. Lines that are not blank are records."""

    data: bytes
    offset: int

    @cached_property
    def record_texts(self) -> list[bytes]:
        """The records, without their line feeds."""
        return [text for _, text in self._records]

    def get_record(self, row: int) -> RecordLine:
        """Return the record of a row."""
        position, text = self._records[row]
        return RecordLine(position, text.removesuffix(b"\r"))

    def list_positions(self, bad_records: Iterable[BadRecord]) -> list[Position]:
        """Return the positions of the records without the bad ones."""
        bad = {each.position for each in bad_records}
        return [position for position, _ in self._records if position not in bad]

    @cached_property
    def _records(self) -> list[tuple[int, bytes]]:
        lines = self.data.split(b"\n")
        starts = accumulate((len(line) + 1 for line in lines), initial=self.offset)
        return [pair for pair in zip(starts, lines, strict=False) if pair[1].strip(BLANK)]


def find_cut(data: bytes) -> int:
    r"""Return the length of the longest prefix of whole lines.

    >>> find_cut(b"a\nbc\nd")
    5
    """
    return data.rfind(b"\n") + 1


class LineDecoder:
    """The common part of decoders whose records are lines, without a header."""

    __slots__ = ()

    @property
    def has_header(self) -> bool:
        return False

    @property
    def quote_bytes(self) -> bytes:
        """No bytes: each line end ends a record."""
        return b""

    def with_header(self, header: bytes) -> Self:
        return self

    def find_cut(self, data: bytes) -> int:
        return find_cut(data)


def remove_byte_order_mark(block: bytes, offset: int) -> tuple[bytes, int]:
    """Remove the byte order mark from the start of a split."""
    if offset == 0 and block.startswith(BYTE_ORDER_MARK):
        return block[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
    return block, offset
