"""Streams: rows that go from one part to others, and whether they are facts or changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.core.elements import DELETE
from headrace.core.types import BOOLEAN, Field, Schema


@dataclass(frozen=True, slots=True)
class Append:
    """The kind of a stream whose rows are facts: each is new, none takes another back."""

    def __str__(self) -> str:
        return "append"


@dataclass(frozen=True, slots=True)
class Upsert:
    """The kind of a stream whose rows replace the earlier row of the same key.

    `deletes`: some of its rows only take the earlier one back.
    """

    key: tuple[str, ...]
    deletes: bool = False
    fixed: frozenset[str] = field(default=frozenset(), compare=False)
    """Columns that depend on nothing but the key: a row keeps their values when it changes."""

    def __str__(self) -> str:
        return f"upsert({', '.join(self.key)}){' with deletes' if self.deletes else ''}"


Kind: TypeAlias = Append | Upsert


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows that go from one part to others, under the name that `from:` uses."""

    name: str
    schema: Schema
    kind: Kind
    timed: bool
    """Whether the rows carry an event time, and watermarks run beside them."""
    ordered: bool = False
    """Whether the rows carry their place in the order of all rows, because a reader needs it."""

    @property
    def written(self) -> Schema:
        """The columns that sinks write: with `_delete` where rows may take earlier ones back."""
        if isinstance(self.kind, Upsert) and self.kind.deletes:
            return Schema((*self.schema, Field(DELETE, BOOLEAN, nullable=False)))
        return self.schema
