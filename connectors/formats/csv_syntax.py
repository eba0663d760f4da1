"""The boundaries of CSV records and fields, by RFC 4180.

A field is quoted if it starts with a quote; within, two quotes mean one, and delimiters and line
ends are text. A quote anywhere else is an error of its record, which extends to the end of its
line: one misplaced quote spoils one line, unless it opens a field that nothing closes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from headrace.connectors.formats.lines import RecordLine
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True)
class CsvSyntax:
    """The delimiter and the quote, a byte each."""

    delimiter: bytes = b","
    quote: bytes = b'"'

    def find_cut(self, data: bytes) -> int:
        r"""Return the length of the longest prefix of whole records.

        >>> CsvSyntax().find_cut(b'a,"b\nc"\nd,"e\n')
        8
        """
        end = data.rfind(b"\n") + 1
        if self.quote not in data or self.quote not in self.remove_quoted(data[:end]):
            return end
        whole = 0
        for found in self._record_pattern.finditer(data):
            is_open = found.lastindex is not None
            if found[0].endswith(b"\n") and not is_open:
                whole = found.end()
        return whole

    def remove_quoted(self, block: bytes) -> bytes:
        """Remove the quoted fields from a block: any quote that is left is misplaced."""
        return self._quoted_pattern.sub(b"", block) if self.quote in block else block

    def split_records(self, block: bytes, offset: int, width: int) -> Iterator[RecordLine]:
        """Yield the records; an empty line is a record only if records have a single field."""
        for found in self._record_pattern.finditer(block):
            text = found[0].removesuffix(b"\n").removesuffix(b"\r")
            if text or (width == 1 and found[0]):
                yield RecordLine(offset + found.start(), text)

    def split_fields(self, record: bytes) -> list[tuple[bool, bytes]] | None:
        """Split a record into fields, each quoted or not; None if a quote is misplaced.

        >>> CsvSyntax().split_fields(b'a,"b ""c"" d",')
        [(False, b'a'), (True, b'b "c" d'), (False, b'')]
        """
        fields: list[tuple[bool, bytes]] = []
        at = 0
        while field := self._field_pattern.match(record, at):
            quoted, plain, end = field.groups()
            if quoted is None:
                fields.append((False, plain))
            else:
                fields.append((True, quoted.replace(self.quote * 2, self.quote)))
            if not end:
                return fields
            at = field.end()
        return None

    @property
    def _escaped_signs(self) -> tuple[bytes, bytes]:
        return re.escape(self.delimiter), re.escape(self.quote)

    @cached_property
    def _quoted_pattern(self) -> re.Pattern[bytes]:
        """The pattern of a quoted field, from its first quote to its last."""
        d, q = self._escaped_signs
        whole = rb"(?:(?<=[%b\n])|\A)%b[^%b]*+(?:%b%b[^%b]*+)*+%b(?=%b|\r?\n|\r?\Z)"
        return re.compile(whole % (d, q, q, q, q, q, q, d))

    @cached_property
    def _record_pattern(self) -> re.Pattern[bytes]:
        """The pattern of a record with its line end; after a misplaced quote, up to the line's end.

        A group matches if a quoted field is still open at the end of the data.
        """
        d, q = self._escaped_signs
        quoted = rb"%b[^%b]*+(?:%b%b[^%b]*+)*+(?:%b[^%b\n]*+|(\Z))" % (q, q, q, q, q, q, d)
        field = rb"(?:%b|[^%b%b\n][^%b\n]*+)?+" % (quoted, q, d, d)
        return re.compile(rb"%b(?:%b%b)*+(?:\n|\Z)" % (field, d, field))

    @cached_property
    def _field_pattern(self) -> re.Pattern[bytes]:
        d, q = self._escaped_signs
        quoted = rb"%b((?:[^%b]|%b%b)*+)%b" % (q, q, q, q, q)
        return re.compile(rb"(?:%b|([^%b%b]*+))(%b|\Z)" % (quoted, d, q, d), re.DOTALL)


RFC_4180 = CsvSyntax()
