"""What a join of facts is to put out, by nested loops over all rows that came in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from headrace.core.elements import FOREVER_US
from headrace.core.plan.nodes import JoinType
from tests.runtime.joins.inputs import Row

LEFT, RIGHT = 0, 1


def greater(one: object, other: object) -> bool:
    """Whether one number is greater than the other; null is not."""
    return isinstance(one, int) and isinstance(other, int) and one > other


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
class Loops:
    """What joins of facts have in common; `only` is over the values of left and right."""

    type: JoinType
    only: Callable[[object, object], bool] | None = None
    clock: int = -FOREVER_US
    late: int = 0
    was: list[str] = field(default_factory=list)

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
        raise NotImplementedError

    def near(self, left: Came, right: Came) -> bool:
        """Whether the times of two rows are near enough."""
        return True

    def over(self, each: Came, side: int) -> bool:
        """Whether it can meet none any more."""
        return True

    def joined(self, lefts: Sequence[Came], rights: Sequence[Came]) -> Iterator[Row]:
        """What is to have gone out of these rows."""
        met = [[r for r in rights if self.meet(left, r)] for left in lefts]
        if self.type == "semi":
            yield from (left.row for left, found in zip(lefts, met, strict=True) if found)
        if self.type not in ("semi", "anti"):
            for left, found in zip(lefts, met, strict=True):
                yield from ((*left.row, *right.row) for right in found)
        if self.type in ("left", "full", "anti"):
            nulls = () if self.type == "anti" else (None, None)
            for left, found in zip(lefts, met, strict=True):
                if not found and self.done(left, LEFT):
                    yield (*left.row, *nulls)
        if self.type in ("right", "full"):
            for right in rights:
                alone = not any(self.meet(left, right) for left in lefts)
                if alone and self.done(right, RIGHT):
                    yield (None, None, *right.row)

    def meet(self, left: Came, right: Came) -> bool:
        """Whether the two are a pair."""
        if left.key is None or left.key != right.key or not self.near(left, right):
            return False
        return self.only is None or self.only(left.row[1], right.row[1])

    def done(self, each: Came, side: int) -> bool:
        """Whether it is to have gone out, if it met none."""
        return each.key is None or self.clock == FOREVER_US or self.over(each, side)


@dataclass
class Within(Loops):
    """Rows whose times are near each other."""

    least: int | None = None
    most: int | None = None
    processing: bool = False
    sides: tuple[list[Came], list[Came]] = field(default_factory=lambda: ([], []))

    def rows(self, side: int, rows: Sequence[Row], times: Sequence[int]) -> list[Row]:
        """Rows have come."""
        came = [Came(row, at) for row, at in zip(rows, times, strict=True)]
        if self.least is not None and not self.processing:
            self.late += sum(each.at < self.clock for each in came)
            came = [each for each in came if each.at >= self.clock]
        self.sides[side].extend(came)
        return self.new()

    def all(self) -> Iterator[Row]:
        """All that is to have gone out by now."""
        return self.joined(*self.sides)

    def near(self, left: Came, right: Came) -> bool:
        """Whether the times of two rows are within the bounds."""
        if self.least is None or self.most is None:
            return True
        return self.least <= right.at - left.at <= self.most

    def over(self, each: Came, side: int) -> bool:
        """Whether it can meet none any more."""
        if self.least is None or self.most is None:
            return False
        return self.clock > each.at + (-self.least if side else self.most)


Window = tuple[int, int]
"""Its start and its end."""


@dataclass
class Windows(Loops):
    """Rows of the same window; `windows_of` are those of a time."""

    windows_of: Callable[[int], Sequence[Window]] = lambda at: ()
    lateness: int = 0
    sides: dict[Window, tuple[list[Came], list[Came]]] = field(default_factory=dict)

    def rows(self, side: int, rows: Sequence[Row], times: Sequence[int]) -> list[Row]:
        """Rows have come; each goes into those of its windows that still take some."""
        for row, at in zip(rows, times, strict=True):
            windows = self.windows_of(at)
            open = [each for each in windows if each[1] > self.clock - self.lateness]
            self.late += bool(windows and not open)
            for window in open:
                came = Came(row, at)
                self.sides.setdefault(window, ([], []))[side].append(came)
        return self.new()

    def all(self) -> Iterator[Row]:
        """All that is to have gone out by now."""
        for window, (lefts, rights) in self.sides.items():
            ended = window[1] <= self.clock
            for of_none in (True, False):
                if ended or of_none:
                    sides = (
                        [e for e in side if (e.key is None) == of_none] for side in (lefts, rights)
                    )
                    yield from ((*row, *window) for row in self.joined(*sides))
