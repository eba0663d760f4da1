"""A document that knows when it was changed: one JSON object whose first member is a checksum.

    sealed = '{"checksum":"' 32 hexadecimal digits '",' rest

The checksum is the first half of the SHA-256 of `rest`, byte by byte: it needs no canonical form,
and people and `jq` can read the file. `rest` begins with the number of the format: what a later
headrace wrote in another one is refused, and is not taken for damage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import orjson

from headrace.core.snapshots import RefusedSnapshot

T = TypeVar("T", bound=bytes | memoryview)

FORMAT = 1
_START, _END = b'{"checksum":"', b'",'
_REST = len(_START) + 32 + len(_END)


class Broken(Exception):
    """These are not the bytes that were written."""


class Passing(Generic[T]):
    """Bytes on their way through, counted and hashed: SHA-256, of which the first half is used."""

    def __init__(self, pieces: Iterable[T]) -> None:
        self._pieces: Iterable[T] = pieces
        self._hash = hashlib.sha256()
        self.bytes = 0

    def __iter__(self) -> Iterator[T]:
        for piece in self._pieces:
            self._hash.update(piece)
            self.bytes += memoryview(piece).nbytes
            yield piece

    @property
    def hash(self) -> str:
        """The hash of what has passed, as `sha256sum` begins it."""
        return self._hash.hexdigest()[:32]


def digest(data: bytes) -> str:
    """The hash of some bytes.

    >>> digest(b"headrace")
    'a09d5e23da520b4829e421f51dfd6dc5'
    """
    return hashlib.sha256(data).hexdigest()[:32]


def seal(document: Mapping[str, object], format: int = FORMAT) -> bytes:
    """The bytes of a document, and of which format it is."""
    rest = orjson.dumps({"format": format, **document}, option=orjson.OPT_APPEND_NEWLINE)[1:]
    return _START + digest(rest).encode() + _END + rest


def unseal(path: str, data: bytes, format: int = FORMAT) -> dict[str, object]:
    """The document of a file's bytes. Raises Broken, or RefusedSnapshot for another format."""
    rest = data[_REST:]
    if data[:_REST] != _START + digest(rest).encode() + _END:
        raise Broken(f"its {len(data)} bytes are not those of its checksum")
    document: dict[str, object] = orjson.loads(b"{" + rest)
    got = document.pop("format", None)
    if got != format:
        hint = "another version of headrace wrote it: run it with that one"
        raise RefusedSnapshot(f"{path}: wanted format {format}, got {got}", hint)
    return document
