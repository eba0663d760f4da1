"""Thrift's compact protocol, as far as the footer and the pages of a Parquet file need it.

A struct is a dictionary of its fields by number, each with its kind of value, so that unknown
fields are written back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from headrace.core.types.lazy_dataclass import dataclass

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
STOP = 0
MAX_SHIFT = 63
DAMAGE = (ValueError, TypeError, IndexError, KeyError, AssertionError, RecursionError)
"""The exceptions of data that is no struct, or not the one that was expected."""

ThriftStruct: TypeAlias = "dict[int, ThriftValue]"
ThriftPlain: TypeAlias = "bool | int | bytes | ThriftStruct | ThriftList"


@dataclass(slots=True)
class ThriftValue:
    """A value and its kind."""

    kind: int
    plain: ThriftPlain

    @property
    def number(self) -> int:
        """The value as a whole number."""
        assert isinstance(self.plain, int)
        return self.plain

    @property
    def struct(self) -> ThriftStruct:
        """The value as a struct: its fields by number."""
        assert isinstance(self.plain, dict)
        return self.plain

    @property
    def items(self) -> list[ThriftPlain]:
        """The value as a list: its elements."""
        assert isinstance(self.plain, ThriftList)
        return self.plain.elements


@dataclass(slots=True)
class ThriftList:
    """The elements of a list, all of one kind."""

    kind: int
    elements: list[ThriftPlain]


def read_struct(data: bytes) -> ThriftStruct:
    """Read a struct from bytes.

    >>> data = write_struct({1: ThriftValue(I32, -2), 20: ThriftValue(BINARY, b"x")})
    >>> read_struct(data)[20].plain
    b'x'
    """
    return ThriftReader(data).read_struct()


def read_sized_struct(data: bytes) -> tuple[ThriftStruct, int]:
    """Read a struct from the start of bytes, and return its size, too; IndexError if it is cut."""
    reader = ThriftReader(data)
    struct = reader.read_struct()
    if reader.at > len(data):
        raise IndexError("the struct is longer than the data")
    return struct, reader.at


def write_struct(struct: ThriftStruct) -> bytes:
    """Write a struct to bytes."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


FieldReader: TypeAlias = Callable[[], ThriftList]
NO_READERS: Mapping[int, FieldReader] = MappingProxyType({})


class ThriftReader:
    """A reader of values one after the other; `at` is where the next begins."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def read_byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def read_bytes(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def read_unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self.read_byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > MAX_SHIFT:
                raise ValueError("a number has more than 64 bits")

    def read_signed(self) -> int:
        number = self.read_unsigned()
        return (number >> 1) ^ -(number & 1)

    def read_struct(self, readers: Mapping[int, FieldReader] = NO_READERS) -> ThriftStruct:
        """Read a struct; the list fields that have readers are read by these."""
        fields: ThriftStruct = {}
        id = 0
        while head := self.read_byte():
            delta, kind = head >> 4, head & 0x0F
            id = id + delta if delta else self.read_signed()
            read = readers.get(id) if kind == LIST else None
            fields[id] = ThriftValue(kind, read() if read else self.read_plain(kind))
        return fields

    def read_plain(self, kind: int) -> ThriftPlain:
        match kind:
            case 1 | 2:
                return kind == TRUE
            case 3:
                return self.read_byte()
            case 4 | 5 | 6:
                return self.read_signed()
            case 7:
                return self.read_bytes(8)
            case 8:
                return self.read_bytes(self.read_unsigned())
            case 9 | 10:
                return self.read_list()
            case 12:
                return self.read_struct()
        raise ValueError(f"a Parquet footer has no values of kind {kind}")

    def read_list_head(self) -> tuple[int, int]:
        """Read the kind and the number of a list's elements."""
        head = self.read_byte()
        size, kind = head >> 4, head & 0x0F
        return kind, self.read_unsigned() if size == 15 else size

    def read_list(self) -> ThriftList:
        kind, size = self.read_list_head()
        # In a list, a boolean is a byte.
        kind_of = BYTE if kind in (TRUE, FALSE) else kind
        return ThriftList(kind, [self.read_plain(kind_of) for _ in range(size)])


def _write_struct(out: bytearray, struct: ThriftStruct) -> None:
    last = 0
    for id, value in sorted(struct.items()):
        kind = value.kind
        if kind in (TRUE, FALSE):
            kind = TRUE if value.plain else FALSE
        if 0 < id - last < 16:
            out.append((id - last) << 4 | kind)
        else:
            out.append(kind)
            _write_signed(out, id)
        last = id
        if kind not in (TRUE, FALSE):
            _write_plain(out, kind, value.plain)
    out.append(STOP)


def _write_plain(out: bytearray, kind: int, plain: ThriftPlain) -> None:
    match plain:
        case dict():
            _write_struct(out, plain)
        case ThriftList():
            kind_of = BYTE if plain.kind in (TRUE, FALSE) else plain.kind
            size = len(plain.elements)
            out.append(min(size, 15) << 4 | plain.kind)
            if size >= 15:
                _write_unsigned(out, size)
            for item in plain.elements:
                _write_plain(out, kind_of, item)
        case bytes():
            if kind == BINARY:
                _write_unsigned(out, len(plain))
            out += plain
        case int() if kind == BYTE:
            out.append(plain)
        case int():
            _write_signed(out, plain)


def _write_unsigned(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write_signed(out: bytearray, number: int) -> None:
    _write_unsigned(out, (number << 1) ^ (number >> 63))
