"""Blocks of lines: where they may be cut, and the records that stand in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.connectors.formats.contract import Decoded
from headrace.core.contracts import BadRecord

if TYPE_CHECKING:
    import polars as pl

BLANK = b" \t\r\n"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """A record: where it starts in the split, and its bytes without the line end."""

    position: int
    text: bytes

    def bad(self, error: str) -> BadRecord:
        """This record as one that could not be read."""
        return BadRecord(error, self.position, self.text.decode("utf-8", "replace"))


@dataclass(frozen=True)
class Block:
    """Whole lines, and the position of the first; a byte order mark is not part of any."""

    data: bytes
    offset: int

    @classmethod
    def at(cls, data: bytes, offset: int) -> Block:
        """The block of these bytes at a position of the split."""
        if offset == 0 and data.startswith(BYTE_ORDER_MARK):
            return cls(data[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK))
        return cls(data, offset)

    @cached_property
    def records(self) -> list[Line]:
        """The lines in which something stands."""
        found = []
        position = self.offset
        for text in self.data.split(b"\n"):
            if text.strip(BLANK):
                found.append(Line(position, text.removesuffix(b"\r")))
            position += len(text) + 1
        return found

    def has_records(self, number: int) -> bool:
        """Whether that is how many records there are: at once if no line is blank."""
        ends = self.data.count(b"\n")
        lines = ends + (bool(self.data) and not self.data.endswith(b"\n"))
        return number == lines or number == len(self.records)

    def parted(self, frame: pl.DataFrame, faults: Mapping[int, str]) -> Decoded:
        """The rows, one of each record, without those that have a fault; and those."""
        import polars as pl

        good = pl.Series([at not in faults for at in range(len(self.records))], dtype=pl.Boolean)
        bad = tuple(self.records[at].bad(faults[at]) for at in sorted(faults))
        if not frame.width:
            return pl.DataFrame(height=len(self.records) - len(bad)), bad
        return frame.filter(good), bad


def cut(data: bytes) -> int:
    r"""How long the longest prefix of whole lines is.

    >>> cut(b"a\nbc\nd")
    5
    """
    return data.rfind(b"\n") + 1
