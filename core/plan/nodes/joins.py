"""What has two inputs that are no union."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.core.plan.matching import Changing, Connected, Everywhere, Matching, Within
from headrace.core.plan.nodes.rows import Computed, Filter

JoinType: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two inputs of a join: by what its rows meet those of the other, and their columns.

    `key` is over the columns that come in; both sides have keys of the same types, in their order.
    A null in a key equals nothing. `columns` are those that are kept, under the names that they
    have behind the join: no two of both sides have the same.
    """

    name: str
    """The name before the dot in the texts of the join."""
    key: tuple[Computed, ...]
    columns: tuple[Computed, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of two inputs with equal keys, side by side; `semi` and `anti` have the left one's only.

    `only` says which of the pairs are meant, over the columns of both.
    """

    left: Side
    right: Side
    type: JoinType
    matching: Matching
    only: Filter | None
    text: str
    """What was said under `on`."""
    late_to: tuple[str | None, str | None] = (None, None)
    """The streams of left and right rows that came too late."""
    timed: bool = True
    """Whether its rows have an event time, as those of both inputs do."""

    @property
    def may_be_late(self) -> bool:
        """Whether rows can come too late to meet others."""
        match self.matching:
            case Changing() | Within(least_us=None):
                return False
            case Within(processing=processing):
                return not processing
            case Everywhere(in_time=in_time):
                return in_time
            case Connected(body):
                return body.in_time
        return True

    @property
    def keys(self) -> tuple[tuple[Computed, ...], tuple[Computed, ...]]:
        """By what the rows of each input are dealt out."""
        return self.left.key, self.right.key


TwoSided: TypeAlias = Join
"""What has two inputs that are no union; it is the first operation of its step."""
