"""Checksummed JSON: an object whose first member is a checksum of the rest.

    sealed = '{"checksum":"' 32 hexadecimal digits '",' rest

The checksum is the first half of the SHA-256 of the bytes of `rest`, so no canonical form is
needed, and people and `jq` can read the file. `rest` begins with the format number: a document that
a later headrace wrote in another format is refused, and not taken for damaged.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import orjson

from headrace.core.api.snapshots import Blob, RefusedSnapshot
from headrace.core.api.stored_documents import MalformedDocument, convert_document

T = TypeVar("T", bound=bytes | memoryview)

FORMAT = 1
_PREFIX, _CHECKSUM_END = b'{"checksum":"', b'",'
_REST_OFFSET = len(_PREFIX) + 32 + len(_CHECKSUM_END)


class CorruptData(Exception):
    """The bytes are not those that were written."""


class HashingIterator(Generic[T]):
    """Pass-through iterator that counts and hashes bytes: the first half of their SHA-256."""

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
        """Hash of the bytes that have passed: the first 32 digits of `sha256sum`."""
        return self._hash.hexdigest()[:32]


def compute_blob(pieces: Iterable[bytes | memoryview]) -> Blob:
    """Return the blob of some bytes, given in pieces."""
    passing = HashingIterator(pieces)
    deque(passing, maxlen=0)
    return Blob(passing.hash, passing.bytes)


def compute_digest(data: bytes) -> str:
    """Return the hash of some bytes.

    >>> compute_digest(b"headrace")
    'a09d5e23da520b4829e421f51dfd6dc5'
    """
    return hashlib.sha256(data).hexdigest()[:32]


def encode_checksummed(document: Mapping[str, object], format: int = FORMAT) -> bytes:
    """Encode a document with its checksum and format number."""
    rest = orjson.dumps({"format": format, **document}, option=orjson.OPT_APPEND_NEWLINE)[1:]
    return _PREFIX + compute_digest(rest).encode() + _CHECKSUM_END + rest


def decode_document(path: str, data: bytes, form: type) -> dict[str, object]:
    """Decode a file's document, which must have this form. Raises as `decode_checksummed`."""
    document = decode_checksummed(path, data)
    try:
        convert_document(document, form)
    except MalformedDocument as error:
        raise CorruptData(str(error)) from error
    return document


def decode_checksummed(path: str, data: bytes, format: int = FORMAT) -> dict[str, object]:
    """Decode a file's document. Raises CorruptData, or RefusedSnapshot for another format."""
    rest = data[_REST_OFFSET:]
    if data[:_REST_OFFSET] != _PREFIX + compute_digest(rest).encode() + _CHECKSUM_END:
        raise CorruptData(f"its {len(data)} bytes are not those of its checksum")
    try:
        document: dict[str, object] = orjson.loads(b"{" + rest)
    except orjson.JSONDecodeError as error:
        raise CorruptData(f"it is no JSON: {error}") from error
    got = document.pop("format", None)
    if type(got) is not int:
        raise CorruptData("it lacks the number of its format")
    if got != format:
        hint = "another version of headrace wrote it: run it with that one"
        raise RefusedSnapshot(f"{path}: wanted format {format}, got {got}", hint)
    return document
