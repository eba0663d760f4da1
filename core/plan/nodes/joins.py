"""Operations with two inputs."""

from __future__ import annotations

from typing import Literal, TypeAlias

from headrace.core.plan.nodes.matching import (
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    JoinMatching,
    TableMatch,
)
from headrace.core.plan.nodes.rows import ComputedColumn, Filter
from headrace.core.types.lazy_dataclass import dataclass

JoinType: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One of the two inputs of a join: its key and its columns.

    `key` is over the input columns; the keys of both sides have the same types in the same order. A
    null in a key equals nothing. `columns` are those in the output of the join, under names that
    are unique over both sides.
    """

    name: str
    """The name before the dot in expressions of the join."""
    key: tuple[ComputedColumn, ...]
    columns: tuple[ComputedColumn, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """A join of the rows of two inputs with equal keys; `semi` and `anti` emit left rows only.

    `residual_filter` is a further condition, over the columns of both.
    """

    left: JoinSide
    right: JoinSide
    type: JoinType
    matching: JoinMatching
    residual_filter: Filter | None
    text: str
    """The text of `on`."""
    late_to: tuple[str | None, str | None] = (None, None)
    """The streams of late left and right rows."""
    has_event_time: bool = True
    """Whether its rows have an event time, as those of both inputs do."""
    has_later_filter: bool = False
    """Whether a filter after the join computes a part of `text`, because it may fail."""

    @property
    def has_late_rows(self) -> bool:
        """Whether rows can arrive too late to match others."""
        match self.matching:
            case ChangelogMatch() | TableMatch(ttl_us=None) | IntervalMatch(least_us=None):
                return False
            case IntervalMatch(uses_processing_time=processing):
                return not processing
            case BroadcastMatch(uses_event_time=in_time):
                return in_time
            case ConnectedMatch(body):
                return body.uses_event_time
        return True

    @property
    def keys(self) -> tuple[tuple[ComputedColumn, ...], tuple[ComputedColumn, ...]]:
        """The keys by which the rows of each input are partitioned."""
        return self.left.key, self.right.key


TwoSided: TypeAlias = Join
"""An operation with two inputs; it is the first operation of its step."""
