"""The kinds of streams: append-only rows, or a changelog of upserts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Append:
    """The kind of an append-only stream: each row is new, and none retracts another."""

    def __str__(self) -> str:
        return "append"


@dataclass(frozen=True, slots=True)
class Upsert:
    """The kind of a changelog stream: each row replaces the earlier row of its key.

    `has_deletes`: some rows only retract the earlier row.
    """

    key: tuple[str, ...]
    has_deletes: bool = False
    key_dependent_columns: frozenset[str] = field(default=frozenset(), compare=False)
    """Columns that depend only on the key: a change of a row does not change their values."""

    def __str__(self) -> str:
        return f"upsert({', '.join(self.key)}){' with deletes' if self.has_deletes else ''}"


StreamKind: TypeAlias = Append | Upsert
