"""The identity of a file that was read in part: a hash of its last block before the position.

A job resumes only in the file that it has read. Its modification time and inode do not decide
that: a copy on another machine is the same file, and one rewritten under its old time is another.

    identity = "size=" bytes " hashed=" offset "-" offset " sha256=" digest

`size` is that of the file when it was read. The hashed bytes are raw: of a text file, those before
the position; of a compressed file, those before the end of what was decompressed; of a Parquet
file, its footer. The digest has 32 digits.

>>> print(FileIdentity(9000, 0, 5216, "ba7816bf8f01cfea414140de5dae2223"))
size=9000 hashed=0-5216 sha256=ba7816bf8f01cfea414140de5dae2223
"""

from __future__ import annotations

import os
from hashlib import sha256

from headrace.core.types.lazy_dataclass import dataclass

BLOCK_BYTES = 64 << 10
"""The most bytes of text that are hashed, and the fewest of a Parquet file that has them."""
MAX_FOOTER_BYTES = 8 << 20
FOOTER_END_BYTES = 8
"""The length of the footer in four bytes, and four letters."""
DIGEST_DIGITS = 32


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The size of a file when it was read, and the hash of its bytes from `first` to `end`."""

    size: int
    first: int
    end: int
    digest: str

    def __str__(self) -> str:
        return f"size={self.size} hashed={self.first}-{self.end} sha256={self.digest}"


def parse_identity(text: str) -> FileIdentity:
    """Parse a stored identity.

    >>> parse_identity("size=9 hashed=2-7 sha256=ab")
    FileIdentity(size=9, first=2, end=7, digest='ab')
    """
    words = dict(word.split("=", 1) for word in text.split())
    first, _, end = words["hashed"].partition("-")
    return FileIdentity(int(words["size"]), int(first), int(end), words["sha256"])


def identify_before(file: int, end: int, size: int) -> FileIdentity:
    """Identify an open file of that size by its last block before `end`."""
    first = max(end - BLOCK_BYTES, 0)
    return FileIdentity(size, first, end, _hash_bytes(file, first, end))


def identify_by_footer(file: int, size: int) -> FileIdentity:
    """Identify an open Parquet file of that size by its footer, and the data just before."""
    length = os.pread(file, FOOTER_END_BYTES, max(size - FOOTER_END_BYTES, 0))[:4]
    footer = min(int.from_bytes(length, "little") + FOOTER_END_BYTES, MAX_FOOTER_BYTES)
    first = max(size - max(footer, BLOCK_BYTES), 0)
    return FileIdentity(size, first, size, _hash_bytes(file, first, size))


def find_difference(file: int, identity: FileIdentity, *, may_grow: bool) -> str:
    """Return in which way an open file differs from an identity; "" if it does not."""
    size = os.fstat(file).st_size
    if not may_grow and size != identity.size:
        return f"wanted {identity.size} bytes, got {size}"
    if size < identity.end:
        return f"wanted at least {identity.end} bytes, got {size}"
    if _hash_bytes(file, identity.first, identity.end) != identity.digest:
        return f"bytes {identity.first} to {identity.end} are not those that were read"
    return ""


def _hash_bytes(file: int, first: int, end: int) -> str:
    found = sha256()
    while first < end and (data := os.pread(file, end - first, first)):
        found.update(data)
        first += len(data)
    return found.hexdigest()[:DIGEST_DIGITS]
