"""The document as YAML says it: scalars, mappings, sequences, each with its place in the file.

A mapping is a list of entries, so that a key written twice is still there to be complained about.
A scalar is only text here: what it means is decided by whoever reads it, so YAML's own ideas about
`on`, `no`, `1:30` and dates never come up. Only "nothing" (`null`, `~`, an empty value) is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.pipeline.file import File

NOTHING_WORDS = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Something between two offsets of a file, any `&anchor` and `!tag` before it included."""

    file: File
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Scalar(Written):
    """A piece of text; `style` is how it was quoted: one of ' " | >, or nothing at all.

    The style = is an argument's: exactly the characters from `start` to `end`.
    """

    value: str
    style: str = ""
    is_text: bool = False
    """Said by a tag: `!!str null` is a word."""

    @property
    def nothing(self) -> bool:
        """Whether it says that there is no value."""
        return self.style in ("", "=") and not self.is_text and self.value in NOTHING_WORDS


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One line of a mapping."""

    key: Scalar
    value: Node


@dataclass(frozen=True, slots=True, eq=False)
class Mapping(Written):
    """Entries in the order written; those that `<<` brought in come last."""

    entries: tuple[Entry, ...]
    flow: bool = False
    lost: bool = False
    """There was more in it, with keys that could not be taken; that has been reported."""

    def get(self, name: str) -> Entry | None:
        """The first entry of that key."""
        return next((entry for entry in self.entries if entry.key.value == name), None)


@dataclass(frozen=True, slots=True, eq=False)
class Sequence(Written):
    """Items in order."""

    items: tuple[Node, ...]
    flow: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Refused(Written):
    """What was there could not be taken, and has been reported; `inner` is what it may mean."""

    inner: Node | None = None


Node: TypeAlias = Scalar | Mapping | Sequence | Refused
