"""Streams between parts."""

from __future__ import annotations

from headrace.core.types.data_types import BOOLEAN, Field, Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.stream_kinds import Retract, StreamKind, Upsert


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
        kind = self.kind
        if isinstance(kind, Retract) or (isinstance(kind, Upsert) and kind.has_deletes):
            return Schema((*self.schema, Field(DELETE, BOOLEAN, nullable=False)))
        return self.schema
