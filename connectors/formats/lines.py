"""Blocks of lines: their cuts and their records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, Self

BLANK = b" \t\r\n"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A record: its position in the split, and its bytes without the line end."""

    position: int
    text: bytes


@dataclass(frozen=True)
class Block:
    """Whole lines and the position of the first. Lines that are not blank are records."""

    data: bytes
    offset: int

    @cached_property
    def texts(self) -> list[bytes]:
        """The records, without their line feeds."""
        return [text for _, text in self._records]

    def record(self, row: int) -> Line:
        """Return the record of a row."""
        position, text = self._records[row]
        return Line(position, text.removesuffix(b"\r"))

    @cached_property
    def _records(self) -> list[tuple[int, bytes]]:
        lines = self.data.split(b"\n")
        starts = accumulate((len(line) + 1 for line in lines), initial=self.offset)
        return [pair for pair in zip(starts, lines, strict=False) if pair[1].strip(BLANK)]


def cut(data: bytes) -> int:
    r"""Return the length of the longest prefix of whole lines.

    >>> cut(b"a\nbc\nd")
    5
    """
    return data.rfind(b"\n") + 1


class ByLine:
    """The common part of decoders whose records are lines, without a header."""

    __slots__ = ()

    @property
    def has_header(self) -> bool:
        return False

    @property
    def quote(self) -> bytes:
        """No bytes: each line end ends a record."""
        return b""

    def begin(self, header: bytes) -> Self:
        return self

    def cut(self, data: bytes) -> int:
        return cut(data)


def without_mark(block: bytes, offset: int) -> tuple[bytes, int]:
    """Remove the byte order mark from the start of a split."""
    if offset == 0 and block.startswith(BYTE_ORDER_MARK):
        return block[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
    return block, offset
