"""Blocks of lines: where they may be cut, and the records that stand in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, Self

BLANK = b" \t\r\n"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A record: where it starts in the split, and its bytes without the line end."""

    position: int
    text: bytes


@dataclass(frozen=True)
class Block:
    """Whole lines, and the position of the first. Records are the lines that are not blank."""

    data: bytes
    offset: int

    @cached_property
    def texts(self) -> list[bytes]:
        """The records, without their line feeds."""
        return [text for _, text in self._records]

    def record(self, row: int) -> Line:
        """The record that became this row."""
        position, text = self._records[row]
        return Line(position, text.removesuffix(b"\r"))

    @cached_property
    def _records(self) -> list[tuple[int, bytes]]:
        lines = self.data.split(b"\n")
        starts = accumulate((len(line) + 1 for line in lines), initial=self.offset)
        return [pair for pair in zip(starts, lines, strict=False) if pair[1].strip(BLANK)]


def cut(data: bytes) -> int:
    r"""How long the longest prefix of whole lines is.

    >>> cut(b"a\nbc\nd")
    5
    """
    return data.rfind(b"\n") + 1


class ByLine:
    """What all decoders say whose records are lines: the first is a record, too."""

    __slots__ = ()

    @property
    def has_header(self) -> bool:
        """Every line is a record."""
        return False

    @property
    def quote(self) -> bytes:
        """Nothing: each line end ends a record."""
        return b""

    def begin(self, header: bytes) -> Self:
        """Nothing to begin with."""
        return self

    def cut(self, data: bytes) -> int:
        """Up to the last line end."""
        return cut(data)


def without_mark(block: bytes, offset: int) -> tuple[bytes, int]:
    """The block without the byte order mark that a split may begin with."""
    if offset == 0 and block.startswith(BYTE_ORDER_MARK):
        return block[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
    return block, offset
