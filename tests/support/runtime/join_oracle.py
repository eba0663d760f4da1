"""The expected output of a join of append-only rows, by nested loops over all rows in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from headrace.core.plan.nodes import JoinType
from headrace.core.types.elements import MAX_WATERMARK_US
from tests.support.runtime.two_input_operators import Row

LEFT, RIGHT = 0, 1


def greater(one: object, other: object) -> bool:
    """Whether one number is greater than the other; null is not."""
    return isinstance(one, int) and isinstance(other, int) and one > other


@dataclass(frozen=True, eq=False)
class Came:
    """A row, and its time."""

    row: Row
    at: int

    @property
    def key(self) -> object:
        """NaN is NaN, zero has no sign, and null is nothing."""
        key = self.row[0]
        if not isinstance(key, float):
            return key
        return "nan" if math.isnan(key) else key + 0.0


@dataclass
class Loops:
    """The base of the expected joins; `only` is over the values of left and right."""

    type: JoinType
    only: Callable[[object, object], bool] | None = None
    clock: int = -MAX_WATERMARK_US
    late: int = 0
    was: list[str] = field(default_factory=list)

    def time(self, clock: int) -> list[Row]:
        """Advance the time."""
        self.clock = max(self.clock, clock)
        return self.new()

    def new(self) -> list[Row]:
        """Return the expected rows that were not emitted before."""
        rows = sorted(self.all(), key=repr)
        before, self.was = self.was, [repr(row) for row in rows]
        new = []
        for row in rows:
            if repr(row) in before:
                before.remove(repr(row))
            else:
                new.append(row)
        assert not before, "an emitted row is never deleted"
        return new

    def all(self) -> Iterator[Row]:
        """Return all rows expected so far."""
        raise NotImplementedError

    def near(self, left: Came, right: Came) -> bool:
        """Whether the times of two rows are near enough."""
        return True

    def over(self, each: Came, side: int) -> bool:
        """Whether it can meet none any more."""
        return True

    def joined(self, lefts: Sequence[Came], rights: Sequence[Came]) -> Iterator[Row]:
        """Return the expected output of these rows."""
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
        """Whether the row is expected, if it matched none."""
        return each.key is None or self.clock == MAX_WATERMARK_US or self.over(each, side)


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
        """Return all rows expected so far."""
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
        """Return all rows expected so far."""
        for window, (lefts, rights) in self.sides.items():
            ended = window[1] <= self.clock
            for of_none in (True, False):
                if ended or of_none:
                    sides = (
                        [e for e in side if (e.key is None) == of_none] for side in (lefts, rights)
                    )
                    yield from ((*row, *window) for row in self.joined(*sides))


@dataclass
class Sessions(Loops):
    """Rows of one session, made of the rows of both sides; pairs that went out stay as they were.

    A row is in time if its session would not be over, were it alone in it, or if it touches a row
    that is there.
    """

    gap: int = 0
    lateness: int = 0
    open: list[tuple[int, Came]] = field(default_factory=list)
    """The rows of both sides that some row may still touch, each with its side."""
    past: list[tuple[int, Came]] = field(default_factory=list)
    pairs: dict[tuple[int, int], Row] = field(default_factory=dict)
    """By two rows what they went out as."""
    others: list[Row] = field(default_factory=list)

    def rows(self, side: int, rows: Sequence[Row], times: Sequence[int]) -> list[Row]:
        """Rows have come."""
        came = [Came(row, at) for row, at in zip(rows, times, strict=True)]
        for row in came:
            if row.key is not None:
                continue
            if row.at + self.gap + 1 + self.lateness <= self.clock:
                self.late += 1
            else:
                self.others += self.whole([row] if side == 0 else [], [row] if side else [])
        for row in came:
            if row.key is None:
                continue
            is_over = row.at + self.gap + 1 + self.lateness <= self.clock
            if is_over and not any(self.touches(row, other) for _, other in self.open):
                self.late += 1
            else:
                self.open.append((side, row))
        return self.new()

    def touches(self, row: Came, other: Came) -> bool:
        """Whether two rows belong to one session."""
        return repr(row.key) == repr(other.key) and abs(row.at - other.at) <= self.gap

    def sessions(self, rows: Sequence[tuple[int, Came]]) -> Iterator[list[tuple[int, Came]]]:
        """Return the groups of these rows."""
        session: list[tuple[int, Came]] = []
        for side, row in sorted(rows, key=lambda each: (repr(each[1].key), each[1].at)):
            last = session[-1][1] if session else None
            if last is None or repr(last.key) != repr(row.key) or row.at - last.at > self.gap:
                if session:
                    yield session
                session = []
            session.append((side, row))
        if session:
            yield session

    def whole(self, lefts: list[Came], rights: list[Came]) -> list[Row]:
        """Return the output of complete sessions."""
        times = [each.at for each in (*lefts, *rights)]
        bounds = (min(times), max(times) + self.gap)
        return [(*row, *bounds) for row in self.joined(lefts, rights)]

    def all(self) -> Iterator[Row]:
        """Return all rows expected so far."""
        for session in list(self.sessions(self.open)):
            end = max(row.at for _, row in session) + self.gap
            if end >= self.clock:
                continue
            lefts, rights = ([row for at, row in session if at == side] for side in (0, 1))
            if self.type != "inner":
                self.others += self.whole(lefts, rights)
            bounds = (min(row.at for _, row in session), end)
            for one, other in product(lefts, rights):
                if self.type == "inner" and self.meet(one, other):
                    row = (*one.row, *other.row, *bounds)
                    self.pairs.setdefault((id(one), id(other)), row)
            if end + self.lateness < self.clock:
                self.past += session
                self.open = [each for each in self.open if each not in session]
        yield from self.pairs.values()
        yield from self.others
