"""The kinds of streams: append-only rows, a changelog of upserts, or one of retractions."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from headrace.core.types.lazy_dataclass import dataclass


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
    has_change_times: bool = field(default=False, compare=False)
    """Whether the event time of a row is that of the last change of its group, not its own."""
    requires_key: bool = field(default=False, compare=False)
    """Whether a row with a null in its key is a bad record, whatever the types of the key are."""
    indistinct_joins: frozenset[str] = field(default=frozenset(), compare=False)
    """The steps whose full joins may emit two rows with this key: all its columns are null."""

    def __str__(self) -> str:
        return f"upsert({', '.join(self.key)}){' with deletes' if self.has_deletes else ''}"


@dataclass(frozen=True, slots=True)
class Retract:
    """The kind of a changelog whose rows are a multiset: each batch adds copies, or removes some.

    A removed row has all values of the row that was added. The removal may arrive first if both
    took different ways, so only the sum at a checkpoint counts.
    """

    key: tuple[str, ...] | None = None
    """The columns that identify a row of the multiset; None: equal rows may be there twice."""
    has_change_times: bool = field(default=False, compare=False)
    """Whether the event time of a row is that of a change, not its own."""

    def __str__(self) -> str:
        return "retract" if self.key is None else f"retract({', '.join(self.key)})"


StreamKind: TypeAlias = Append | Upsert | Retract
