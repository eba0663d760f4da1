"""Where the records and fields of CSV begin and end, by RFC 4180.

A field is quoted if it begins with a quote; within, two quotes are one, and delimiters and line
ends are text. A quote anywhere else is an error of its record, which goes on to the end of its
line: one wrong quote spoils one line, unless it opens a field that nothing closes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from headrace.connectors.formats.lines import Line


@dataclass(frozen=True)
class Shape:
    """The two signs that make fields of a record, a byte each."""

    delimiter: bytes = b","
    quote: bytes = b'"'

    def cut(self, data: bytes) -> int:
        r"""How long the longest prefix of whole records is.

        >>> Shape().cut(b'a,"b\nc"\nd,"e\n')
        8
        """
        end = data.rfind(b"\n") + 1
        if self.quote not in data or self.quote not in self.unquoted(data[:end]):
            return end
        whole = 0
        for found in self._record.finditer(data):
            is_open = found.lastindex is not None
            if found[0].endswith(b"\n") and not is_open:
                whole = found.end()
        return whole

    def unquoted(self, block: bytes) -> bytes:
        """The block without its quoted fields: a quote that is left stands where none may."""
        return self._quoted.sub(b"", block) if self.quote in block else block

    def records(self, block: bytes, offset: int, width: int) -> Iterator[Line]:
        """The records; an empty line is one only if it can be: as a single field."""
        for found in self._record.finditer(block):
            text = found[0].removesuffix(b"\n").removesuffix(b"\r")
            if text or (width == 1 and found[0]):
                yield Line(offset + found.start(), text)

    def fields(self, record: bytes) -> list[tuple[bool, bytes]] | None:
        """Each field: whether it is quoted, and its text; None if a quote is out of place.

        >>> Shape().fields(b'a,"b ""c"" d",')
        [(False, b'a'), (True, b'b "c" d'), (False, b'')]
        """
        found: list[tuple[bool, bytes]] = []
        at = 0
        while field := self._field.match(record, at):
            quoted, plain, end = field.groups()
            if quoted is None:
                found.append((False, plain))
            else:
                found.append((True, quoted.replace(self.quote * 2, self.quote)))
            if not end:
                return found
            at = field.end()
        return None

    @property
    def _signs(self) -> tuple[bytes, bytes]:
        return re.escape(self.delimiter), re.escape(self.quote)

    @cached_property
    def _quoted(self) -> re.Pattern[bytes]:
        """A quoted field, from its first quote to its last."""
        d, q = self._signs
        whole = rb"(?:(?<=[%b\n])|\A)%b[^%b]*+(?:%b%b[^%b]*+)*+%b(?=%b|\r?\n|\r?\Z)"
        return re.compile(whole % (d, q, q, q, q, q, q, d))

    @cached_property
    def _record(self) -> re.Pattern[bytes]:
        """A record with its line end; what a wrong quote leaves is taken to the line's end.

        A group matches where a quoted field is still open at the end of the data.
        """
        d, q = self._signs
        quoted = rb"%b[^%b]*+(?:%b%b[^%b]*+)*+(?:%b[^%b\n]*+|(\Z))" % (q, q, q, q, q, q, d)
        field = rb"(?:%b|[^%b%b\n][^%b\n]*+)?+" % (quoted, q, d, d)
        return re.compile(rb"%b(?:%b%b)*+(?:\n|\Z)" % (field, d, field))

    @cached_property
    def _field(self) -> re.Pattern[bytes]:
        d, q = self._signs
        quoted = rb"%b((?:[^%b]|%b%b)*+)%b" % (q, q, q, q, q)
        return re.compile(rb"(?:%b|([^%b%b]*+))(%b|\Z)" % (quoted, d, q, d), re.DOTALL)


RFC_4180 = Shape()
