"""What a join of facts is to put out, by nested loops over all rows that came in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from headrace.core.elements import FOREVER_US
from headrace.core.plan.nodes import JoinType
from tests.runtime.joins.inputs import Row

LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Came:
    """A row, and its time."""

    row: Row
    at: int

    @property
    def key(self) -> object:
        """NaN is NaN, and null is nothing."""
        key = self.row[0]
        return "nan" if isinstance(key, float) and math.isnan(key) else key


@dataclass
class Within:
    """All rows that came, and how late it is; `only` is over the values of left and right."""

    type: JoinType
    least: int | None
    most: int | None
    only: Callable[[object, object], bool] | None = None
    processing: bool = False
    clock: int = -FOREVER_US
    late: int = 0
    sides: tuple[list[Came], list[Came]] = field(default_factory=lambda: ([], []))
    was: list[str] = field(default_factory=list)

    def rows(self, side: int, rows: Sequence[Row], times: Sequence[int]) -> list[Row]:
        """Rows have come."""
        came = [Came(row, at) for row, at in zip(rows, times, strict=True)]
        if self.least is not None and not self.processing:
            self.late += sum(each.at < self.clock for each in came)
            came = [each for each in came if each.at >= self.clock]
        self.sides[side].extend(came)
        return self.new()

    def time(self, clock: int) -> list[Row]:
        """Time goes on."""
        self.clock = max(self.clock, clock)
        return self.new()

    def new(self) -> list[Row]:
        """What is to go out now: what was not put out before."""
        rows = sorted(self.all(), key=repr)
        before, self.was = self.was, [repr(row) for row in rows]
        new = []
        for row in rows:
            if repr(row) in before:
                before.remove(repr(row))
            else:
                new.append(row)
        assert not before, "what was put out stays"
        return new

    def all(self) -> Iterator[Row]:
        """All that is to have gone out by now."""
        lefts, rights = self.sides
        met = [[r for r in rights if self.meet(left, r)] for left in lefts]
        if self.type == "semi":
            yield from (left.row for left, found in zip(lefts, met, strict=True) if found)
        if self.type not in ("semi", "anti"):
            for left, found in zip(lefts, met, strict=True):
                yield from ((*left.row, *right.row) for right in found)
        if self.type in ("left", "full", "anti"):
            nulls = () if self.type == "anti" else (None, None)
            for left, found in zip(lefts, met, strict=True):
                if not found and self.over(left, self.most):
                    yield (*left.row, *nulls)
        if self.type in ("right", "full"):
            for right in rights:
                alone = not any(self.meet(left, right) for left in lefts)
                if alone and self.over(right, None if self.least is None else -self.least):
                    yield (None, None, *right.row)

    def meet(self, left: Came, right: Came) -> bool:
        """Whether the two are a pair."""
        if left.key is None or left.key != right.key:
            return False
        apart = right.at - left.at
        if (
            self.least is not None
            and self.most is not None
            and not self.least <= apart <= self.most
        ):
            return False
        return self.only is None or self.only(left.row[1], right.row[1])

    def over(self, each: Came, open: int | None) -> bool:
        """Whether it can meet none any more."""
        if each.key is None or self.clock == FOREVER_US:
            return True
        return open is not None and self.clock > each.at + open
