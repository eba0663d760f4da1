"""Streams between parts, and their kinds: append-only rows, or a changelog of upserts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.core.types.data_types import BOOLEAN, Field, Schema
from headrace.core.types.elements import DELETE


@dataclass(frozen=True, slots=True)
class Append:
    """The kind of an append-only stream: each row is new, and none retracts another."""

    def __str__(self) -> str:
        return "append"


@dataclass(frozen=True, slots=True)
class Upsert:
    """The kind of a changelog stream: each row replaces the earlier row of its key.

    `deletes`: some rows only retract the earlier row.
    """

    key: tuple[str, ...]
    has_deletes: bool = False
    key_dependent_columns: frozenset[str] = field(default=frozenset(), compare=False)
    """Columns that depend only on the key: a change of a row does not change their values."""

    def __str__(self) -> str:
        return f"upsert({', '.join(self.key)}){' with deletes' if self.has_deletes else ''}"


StreamKind: TypeAlias = Append | Upsert


@dataclass(frozen=True, slots=True)
class Stream:
    """The rows that one part sends to others, under the name that `from:` uses."""

    name: str
    schema: Schema
    kind: StreamKind
    has_event_time: bool
    """Whether the rows carry an event time, and the stream carries watermarks."""
    has_row_order: bool = False
    """Whether the rows carry their row order, because a reader needs it."""

    @property
    def sink_schema(self) -> Schema:
        """The columns that sinks write: with `_delete` if rows may retract earlier ones."""
        if isinstance(self.kind, Upsert) and self.kind.has_deletes:
            return Schema((*self.schema, Field(DELETE, BOOLEAN, nullable=False)))
        return self.schema
