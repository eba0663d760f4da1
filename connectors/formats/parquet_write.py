"""Frames to Parquet, as bytes that are written as they come.

A Parquet file is its row groups and then a footer with their offsets. Polars writes files, not row
groups. So each group is written as a file of its own, in memory; its groups are copied, and the
footers are merged into one, with offsets within the whole file. A file therefore takes no more
memory than one group, and no second copy on disk.
"""

from __future__ import annotations

from dataclasses import field
from io import BytesIO
from typing import TYPE_CHECKING

from headrace.connectors.formats import thrift
from headrace.connectors.formats.thrift import ThriftValue
from headrace.core.types.data_types import Schema, to_polars
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

MAGIC = b"PAR1"
GROUP_ROWS = 1 << 18
GROUP_BYTES = 64 << 20

# The numbers of fields, from the format's `parquet.thrift`.
FILE_ROWS, FILE_GROUPS = 3, 4
GROUP_COLUMNS, GROUP_OFFSET, GROUP_ORDINAL = 1, 5, 7
COLUMN_OFFSET, COLUMN_DATA, COLUMN_INDEXES = 2, 3, (4, 5, 6, 7)
DATA_OFFSETS = (9, 10, 11, 14)


@dataclass(frozen=True, slots=True)
class ParquetEncoder:
    """Encodes rows of this schema, a file at a time."""

    schema: Schema

    @property
    def suffix(self) -> str:
        return ".parquet"

    def start_file(self) -> ParquetBody:
        """Start a new file."""
        return ParquetBody(self.schema)


@dataclass(slots=True)
class ParquetBody:
    """One file being encoded: the concatenated results of `add`, `flush` and `finish`."""

    schema: Schema
    _waiting: list[pl.DataFrame] = field(default_factory=list)
    _rows: int = 0
    _bytes: int = 0
    _size: int = 0
    _footer: thrift.ThriftStruct | None = None

    def add(self, frame: pl.DataFrame) -> bytes:
        """Add rows; return the bytes of a row group once it is full, else none."""
        columns = frame.select(self.schema.names)
        self._waiting.append(columns)
        self._rows += columns.height
        self._bytes += int(columns.estimated_size())
        if self._rows < GROUP_ROWS and self._bytes < GROUP_BYTES:
            return b""
        return self._write_group()

    @property
    def buffered_bytes(self) -> int:
        """The approximate bytes of memory of rows that are in no row group yet."""
        return self._bytes

    def flush(self) -> bytes:
        """Return a row group of the buffered rows; more rows may come."""
        return self._write_group() if self._rows else b""

    def finish(self) -> bytes:
        """Return the last row group and the footer."""
        last = self._write_group() if self._rows or self._footer is None else b""
        assert self._footer is not None
        footer = thrift.write_struct(self._footer)
        return b"".join((last, footer, len(footer).to_bytes(4, "little"), MAGIC))

    def _write_group(self) -> bytes:
        import polars as pl

        types = {f.name: to_polars(f.type) for f in self.schema}
        frame = pl.concat([pl.DataFrame(schema=types), *self._waiting])
        self._waiting, self._rows, self._bytes = [], 0, 0
        out = BytesIO()
        frame.write_parquet(out)
        data = out.getvalue()
        length = int.from_bytes(data[-8:-4], "little")
        footer = thrift.read_struct(data[-8 - length : -8])
        start = 0 if self._footer is None else len(MAGIC)
        groups = data[start : -8 - length]
        self._footer = _merge_footers(self._footer, footer, self._size - start)
        self._size += len(groups)
        return groups


def _merge_footers(
    whole: thrift.ThriftStruct | None, more: thrift.ThriftStruct, shift: int
) -> thrift.ThriftStruct:
    """Merge the row groups of another footer into one, with offsets shifted by `shift` bytes."""
    groups = more[FILE_GROUPS].items
    before = whole[FILE_GROUPS].items if whole else []
    for ordinal, group in enumerate(groups, len(before)):
        assert isinstance(group, dict)
        _shift_offset(group, GROUP_OFFSET, shift)
        if GROUP_ORDINAL in group:
            group[GROUP_ORDINAL].plain = ordinal
        for column in group[GROUP_COLUMNS].items:
            assert isinstance(column, dict)
            _shift_column(column, shift)
    if whole is None:
        return more
    before.extend(groups)
    rows = whole[FILE_ROWS].number + more[FILE_ROWS].number
    return {**whole, FILE_ROWS: ThriftValue(thrift.I64, rows)}


def _shift_column(column: thrift.ThriftStruct, shift: int) -> None:
    """Shift the offsets of a column; indexes, which contain offsets themselves, are dropped."""
    _shift_offset(column, COLUMN_OFFSET, shift)
    for offset in DATA_OFFSETS:
        _shift_offset(column[COLUMN_DATA].struct, offset, shift)
    for index in COLUMN_INDEXES:
        column.pop(index, None)


def _shift_offset(struct: thrift.ThriftStruct, id: int, shift: int) -> None:
    if id in struct and struct[id].number:
        struct[id].plain = struct[id].number + shift
