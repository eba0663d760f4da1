"""The footer of a Parquet file: its row groups, and the chunks of the wanted columns.

A footer describes every column in every row group, and most of it is not wanted. One regular
expression skips the chunk of a column as writers usually describe it; any other form is read field
by field, with the same result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from functools import cache
from itertools import islice

from headrace.connectors.formats import thrift

TAIL_BYTES = 8
GROUPS, COLUMNS = 4, 1
"""The fields of a footer and of a row group that list the parts of it."""
REPETITION, NAME, CHILDREN = 3, 4, 5
"""The fields of an element of the schema."""
REPEATED = 2


def read_footer(path: str, columns: Collection[str]) -> thrift.ThriftStruct:
    """Read the footer; its row groups have only the chunks of these columns."""
    with open(path, "rb") as file:
        file.seek(-TAIL_BYTES, os.SEEK_END)
        size = int.from_bytes(file.read(4), "little")
        file.seek(-TAIL_BYTES - size, os.SEEK_END)
        return _FooterReader(file.read(size), columns).read_footer()


def iterate_structs(of: thrift.ThriftStruct, number: int) -> Iterator[thrift.ThriftStruct]:
    """Yield the structs of a list field, if it is present."""
    if number in of:
        for each in of[number].items:
            assert isinstance(each, dict)
            yield each


def list_flat_columns(footer: thrift.ThriftStruct) -> set[str]:
    """Return the columns that have one value in each row, maybe null."""
    flat: set[str] = set()
    below = 0
    for element in islice(iterate_structs(footer, 2), 1, None):  # the first one is the root
        children = element[CHILDREN].number if CHILDREN in element else 0
        is_repeated = REPETITION in element and element[REPETITION].number == REPEATED
        if not (below or children or is_repeated):
            name = element[NAME].plain
            assert isinstance(name, bytes)
            flat.add(name.decode())
        below += children - bool(below)
    return flat


class _FooterReader:
    def __init__(self, data: bytes, columns: Collection[str]) -> None:
        self._reader = thrift.ThriftReader(data)
        self._columns = {column.encode() for column in columns}
        self._sized_columns = {bytes([len(name) % 256]) + name for name in self._columns}

    def read_footer(self) -> thrift.ThriftStruct:
        return self._reader.read_struct({GROUPS: self._read_groups})

    def _read_groups(self) -> thrift.ThriftList:
        kind, size = self._read_list_head()
        readers = {COLUMNS: self._read_chunks}
        return thrift.ThriftList(kind, [self._reader.read_struct(readers) for _ in range(size)])

    def _read_chunks(self) -> thrift.ThriftList:
        """Read the chunks of a row group, without those of other columns."""
        reader, match, columns = self._reader, build_chunk_pattern().match, self._sized_columns
        kind, size = self._read_list_head()
        chunks: list[thrift.ThriftPlain] = []
        for _ in range(size):
            usual = match(reader.data, reader.at)
            if usual and usual[1] not in columns:
                reader.at = usual.end()
                continue
            chunk = reader.read_struct()
            if chunk[3].struct[3].items[0] in self._columns:
                chunks.append(chunk)
        return thrift.ThriftList(kind, chunks)

    def _read_list_head(self) -> tuple[int, int]:
        kind, size = self._reader.read_list_head()
        if kind != thrift.STRUCT:
            raise ValueError(f"a Parquet footer has a list of kind {kind} in place of structs")
        return kind, size


def _join(*choices: str) -> str:
    return f"(?:{'|'.join(choices)})"


def _fields(*kinds: int) -> str:
    """Return the pattern of the first byte of a field: how many ids further, and its kind."""
    return "[" + "".join(rf"\x{step:x}{kind:x}" for step in range(1, 16) for kind in kinds) + "]"


@cache
def build_chunk_pattern() -> re.Pattern[bytes]:
    """Build the pattern of a column's chunk; its group is the first part of the column's path.

    The first byte of a value decides how it is read, so what matches has no other reading.
    """
    number = r"[\x80-\xff]{0,9}[\x00-\x7f]"
    text = _join(*(rf"\x{size:02x}.{{{size}}}" for size in range(128)))
    flat = _join(
        _fields(thrift.I32, thrift.I64) + number,
        _fields(thrift.TRUE, thrift.FALSE),
    )
    counts = sorted(range(15), key=lambda count: (not count, count))
    numbers = _join(*(rf"[\x{count:x}5\x{count:x}6]" + number * count for count in counts))
    structs = _join(*(rf"\x{count:x}c(?:{flat}*\x00){{{count}}}" for count in counts))
    deep = _join(
        flat,
        _fields(thrift.BINARY) + text,
        _fields(thrift.LIST) + _join(structs, numbers),
    )
    path = _join(*(rf"\x{count:x}8{text}{{{count}}}" for count in range(1, 8)))
    parts = _join(deep, _fields(thrift.STRUCT) + deep + r"*\x00")
    # The type, the encodings, the path and what follows it, such as statistics.
    column = (
        rf"\x15{number}\x19{numbers}\x19(?=.({text})){path}"
        rf"{parts}*\x00"
    )
    return re.compile(rf"\x26{number}\x1c{column}{flat}*\x00".encode(), re.DOTALL)
