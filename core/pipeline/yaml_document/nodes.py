"""The YAML document as nodes: scalars, mappings, sequences, each with its position in the file.

A mapping is a list of entries, so that a duplicate key can be reported. A scalar is only text; the
field that reads it decides its meaning, so that YAML's own rules for `on`, `no`, `1:30` and dates
do not apply. Only the absence of a value (`null`, `~`, an empty value) is recognised here.
"""

from __future__ import annotations

from typing import TypeAlias

from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.types.lazy_dataclass import dataclass

PART_KIND_BY_SECTION = {"sources": "source", "steps": "step", "sinks": "sink"}
NULL_WORDS = ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True, eq=False)
class NodeSpan:
    """A range of a file, which includes any `&anchor` and `!tag` before the node."""

    file: SourceText
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class YamlScalar(NodeSpan):
    """A text value; `style` is its quoting: one of ' " | >, or "" without quotes.

    The style = is that of a `--set` argument: exactly the characters from `start` to `end`.
    """

    value: str
    style: str = ""
    is_text: bool = False
    """Whether a tag makes it a text: `!!str null` is a word."""

    @property
    def is_null(self) -> bool:
        """Whether it means that there is no value."""
        return self.style in ("", "=") and not self.is_text and self.value in NULL_WORDS


@dataclass(frozen=True, slots=True, eq=False)
class YamlEntry:
    """A key and its value in a mapping."""

    key: YamlScalar
    value: YamlNode


@dataclass(frozen=True, slots=True, eq=False)
class YamlMapping(NodeSpan):
    """Entries in the order written; those added by `<<` come last."""

    entries: tuple[YamlEntry, ...]
    is_flow: bool = False
    is_incomplete: bool = False
    """Whether entries are missing because their keys were rejected, which has been reported."""

    def get(self, name: str) -> YamlEntry | None:
        """Return the first entry of that key."""
        return next((entry for entry in self.entries if entry.key.value == name), None)


@dataclass(frozen=True, slots=True, eq=False)
class YamlSequence(NodeSpan):
    """Items in order."""

    items: tuple[YamlNode, ...]
    is_flow: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RejectedNode(NodeSpan):
    """A node that was rejected and reported; `inner` is the node that it may mean."""

    inner: YamlNode | None = None


YamlNode: TypeAlias = YamlScalar | YamlMapping | YamlSequence | RejectedNode
