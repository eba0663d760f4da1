"""What is asked of a bucket: a few requests, each of which is done as a whole or not at all.

A request that was answered is done, and seen by all that ask later: S3, GCS and Azure hold that,
and so do servers that are like them. One that was not answered may have been done, may be done
later, or never: `Unanswered`. Whatever else is raised tells that it was not done.

One thing is taken for granted. Blobs are named by their hash, and removing has no condition: a
removal that was not answered is done soon or never, and not after somebody has put the same bytes
again, which is a checkpoint later at least.

Two requests have a condition, which the server looks at as it does them: `create` wants that
nothing is there, `replace` that it is what was seen. So of two processes that want the same one is
told `Conflict`, as is who asks a second time because an answer was lost: it reads what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import IO, Protocol

from headrace.core.snapshots import StoreError


@dataclass(frozen=True, slots=True)
class Version:
    """Which bytes an object had, as its server tells it apart."""

    tag: str | None
    number: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A small object."""

    data: bytes
    version: Version


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list tells of an object."""

    bytes: int
    version: Version


class Unanswered(StoreError):
    """Nobody can tell whether a request was done, or will be."""


class Conflict(Exception):
    """The condition did not hold."""


class Short(Exception):
    """An object has another size than was wanted: which; None if it is gone."""

    def __init__(self, bytes: int | None) -> None:
        super().__init__(bytes)
        self.bytes = bytes


class Objects(Protocol):
    """The objects below an address, by their names. Raises StoreError; threads use it at once."""

    @property
    def address(self) -> str:
        """Where they are, for messages."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Have these bytes there, whatever was."""
        ...

    def put_file(self, name: str, file: IO[bytes]) -> None:
        """Have a file's bytes there, of which only a part is in memory at any time."""
        ...

    def create(self, name: str, data: bytes) -> Version:
        """Have these bytes there, where nothing is. Raises Conflict."""
        ...

    def replace(self, name: str, data: bytes, version: Version) -> Version:
        """Have these bytes in the place of those. Raises Conflict."""
        ...

    def read(self, name: str) -> Found | None:
        """What is there."""
        ...

    def pieces(self, name: str, bytes: int) -> Iterator[bytes]:
        """What is there, piece by piece, if it has that size. Raises Short."""
        ...

    def listed(self, folder: str = "") -> dict[str, Listed]:
        """All that is there, by name."""
        ...

    def remove(self, names: Collection[str]) -> None:
        """Have them not there. One that is gone is no mistake."""
        ...
