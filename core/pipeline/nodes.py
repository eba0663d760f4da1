"""The YAML document as nodes: scalars, mappings, sequences, each with its position in the file.

A mapping is a list of entries, so that a duplicate key can be reported. A scalar is only text; the
field that reads it decides its meaning, so that YAML's own rules for `on`, `no`, `1:30` and dates
do not apply. Only the absence of a value (`null`, `~`, an empty value) is recognised here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.pipeline.file import File

NOTHING_WORDS = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A range of a file, which includes any `&anchor` and `!tag` before the node."""

    file: File
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Scalar(Written):
    """A text value; `style` is its quoting: one of ' " | >, or "" without quotes.

    The style = is that of a `--set` argument: exactly the characters from `start` to `end`.
    """

    value: str
    style: str = ""
    is_text: bool = False
    """Whether a tag makes it a text: `!!str null` is a word."""

    @property
    def nothing(self) -> bool:
        """Whether it means that there is no value."""
        return self.style in ("", "=") and not self.is_text and self.value in NOTHING_WORDS


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A key and its value in a mapping."""

    key: Scalar
    value: Node


@dataclass(frozen=True, slots=True, eq=False)
class Mapping(Written):
    """Entries in the order written; those added by `<<` come last."""

    entries: tuple[Entry, ...]
    flow: bool = False
    lost: bool = False
    """Whether entries are missing because their keys were rejected, which has been reported."""

    def get(self, name: str) -> Entry | None:
        """Return the first entry of that key."""
        return next((entry for entry in self.entries if entry.key.value == name), None)


@dataclass(frozen=True, slots=True, eq=False)
class Sequence(Written):
    """Items in order."""

    items: tuple[Node, ...]
    flow: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Refused(Written):
    """A node that was rejected and reported; `inner` is the node that it may mean."""

    inner: Node | None = None


Node: TypeAlias = Scalar | Mapping | Sequence | Refused
