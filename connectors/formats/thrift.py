"""Thrift's compact protocol, as far as the footer of a Parquet file needs it: read and written.

A struct is a dictionary of its fields by number, each with its kind of value, so that unknown
fields are written back unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
STOP = 0

Struct: TypeAlias = "dict[int, Value]"
Plain: TypeAlias = "bool | int | bytes | Struct | Items"


@dataclass(slots=True)
class Value:
    """A value and its kind."""

    kind: int
    plain: Plain

    @property
    def number(self) -> int:
        """The value as a whole number."""
        assert isinstance(self.plain, int)
        return self.plain

    @property
    def struct(self) -> Struct:
        """The value as a struct: its fields by number."""
        assert isinstance(self.plain, dict)
        return self.plain

    @property
    def items(self) -> list[Plain]:
        """The value as a list: its elements."""
        assert isinstance(self.plain, Items)
        return self.plain.of


@dataclass(slots=True)
class Items:
    """The elements of a list, all of one kind."""

    kind: int
    of: list[Plain]


def read(data: bytes) -> Struct:
    """Read a struct from bytes.

    >>> read(write({1: Value(I32, -2), 20: Value(BINARY, b"x")}))[20].plain
    b'x'
    """
    return _Reading(data).struct()


def write(struct: Struct) -> bytes:
    """Write a struct to bytes."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Reading:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def signed(self) -> int:
        number = self.unsigned()
        return (number >> 1) ^ -(number & 1)

    def struct(self) -> Struct:
        fields: Struct = {}
        id = 0
        while head := self.byte():
            delta, kind = head >> 4, head & 0x0F
            id = id + delta if delta else self.signed()
            fields[id] = Value(kind, self.plain(kind))
        return fields

    def plain(self, kind: int) -> Plain:
        match kind:
            case 1 | 2:
                return kind == TRUE
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.signed()
            case 7:
                return self.take(8)
            case 8:
                return self.take(self.unsigned())
            case 9 | 10:
                return self.items()
            case 12:
                return self.struct()
        raise ValueError(f"a Parquet footer has no values of kind {kind}")

    def items(self) -> Items:
        head = self.byte()
        size, kind = head >> 4, head & 0x0F
        size = self.unsigned() if size == 15 else size
        # In a list, a boolean is a byte.
        kind_of = BYTE if kind in (TRUE, FALSE) else kind
        return Items(kind, [self.plain(kind_of) for _ in range(size)])


def _write_struct(out: bytearray, struct: Struct) -> None:
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


def _write_plain(out: bytearray, kind: int, plain: Plain) -> None:
    match plain:
        case dict():
            _write_struct(out, plain)
        case Items():
            kind_of = BYTE if plain.kind in (TRUE, FALSE) else plain.kind
            size = len(plain.of)
            out.append(min(size, 15) << 4 | plain.kind)
            if size >= 15:
                _write_unsigned(out, size)
            for item in plain.of:
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
