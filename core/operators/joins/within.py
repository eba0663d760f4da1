"""Joins of append-only rows whose times are near each other, or that are stored for ever.

A pair is emitted when its second row arrives: rows probe the stored rows of the other side, and are
stored for future ones. That a row has no match is known when the clock has passed all its possible
matches; then the rows that are due probe once more, so the state needs no match flags. A row of a
semi join is emitted at its first match, and is not stored if that is at once; a stored row that
matches a new row was emitted before if it matched an earlier one.

The clock is the watermark, or the wall clock: then a row's time is its arrival. Without bounds
nothing is ever due but at the end of input, when only unmatched rows are emitted, and only those
are forgotten: rows that come after a restart still match the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import FOREVER_US
from headrace.core.operators.joins.beside import Beside, without
from headrace.core.operators.joins.both_sides import BothSides
from headrace.core.operators.joins.bounds import Bounds, before, goes_alone
from headrace.core.operators.joins.kept import Kept
from headrace.core.operators.joins.pairs import Pairs
from headrace.core.operators.joins.probing import Probe
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.operator import Filed, Output, aside
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.plan.matching import Within
from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

AGES_US = 1 << 62
"""Rows emitted at the end of input, or by the wall clock, may have any time."""

SELDOM = 64
"""The number of times that the wall clock is checked while a row is stored."""


class WithinJoin(BothSides, Filed):
    """The operator of a join with `within`, with `ttl`, or with neither."""

    def __init__(self, operation: nodes.Join, matching: Within, place: Place) -> None:
        self._type = operation.type
        self._late_to = operation.late_to
        self._context, self._state = place, place.state
        self._processing = matching.processing
        self._bounds: Bounds | None = None
        if matching.least_us is not None and matching.most_us is not None:
            self._bounds = Bounds(matching.least_us, matching.most_us, operation.type)
        self._by_event = self._bounds is not None and not matching.processing
        self._buffers = tuple(
            Kept(operation, which, place, "slot" if self._by_event else "kept")
            for which in (LEFT, RIGHT)
        )
        self._unmatched_sides = [w for w in (LEFT, RIGHT) if goes_alone(operation.type, w)]
        """The sides whose unmatched rows are emitted."""
        self._pairs = Pairs(operation, place.stream, ordered=place.ordered)
        self.behind_us = 0
        if self._by_event and self._bounds is not None:
            self.behind_us = self._bounds.behind_us
        elif operation.type != "inner":
            self.behind_us = AGES_US

    @property
    def held(self) -> int:
        """The number of stored rows."""
        return sum(kept.rows for kept in self._buffers)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark; with processing time, only the end of input matters."""
        if not self._processing or watermark_us == FOREVER_US:
            yield from self._reach(watermark_us)

    def due_us(self) -> int | None:
        """Return the wall-clock time at which rows must be emitted or forgotten."""
        if not self._processing or self._bounds is None or self._state.clock_us == FOREVER_US:
            return None
        first = [kept.runs.first() for kept in self._buffers]
        due = [
            at + self._bounds.open_us(which) + 1 for which, at in enumerate(first) if at is not None
        ]
        if not due:
            return None
        seldom_us = (self._bounds.most_us - self._bounds.least_us) // SELDOM
        return max(min(due), self._state.clock_us + seldom_us)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        if self._processing:
            yield from self._reach(now_us)

    def _take(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Leave out late rows, emit those that cannot match, and join the others."""
        if self._processing:
            yield from self._reach(self._context.now_us())
        if self._by_event:
            frame = yield from self._context.in_time(frame, self._late_to[which])
        rows = self._buffers[which].of(frame, self._slot())
        lacks = self._buffers[which].side.lacks_key(rows)
        if lacks is not None:
            if which in self._unmatched_sides:
                yield from self._out(which, rows.filter(lacks))
            rows = rows.filter(~lacks)
        if rows.height:
            owed = self._buffers[1 - which].owed(rows.height)
            yield from aside(owed + self._buffers[which].runs.owed(asking=False))
            yield from self._meet(which, rows)

    def _slot(self) -> pl.Expr | None:
        """Return the slot of the rows that arrive; None: their event time."""
        import polars as pl

        if self._bounds is None:
            return pl.lit(0, dtype=pl.Int64)
        if self._processing:
            return pl.lit(self._state.clock_us, dtype=pl.Int64)
        return None

    def _meet(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Join rows of this side with stored ones of the other, and store them."""
        if self._type == "semi" and which == RIGHT:
            yield from self._met_first(rows)
        elif self._type == "semi":
            met = self._met(which, rows)
            yield from self._out(which, rows[met])
            rows = without(rows, met)
        elif self._type == "anti" and which == LEFT:
            rows = without(rows, self._met(which, rows))
        elif self._type != "anti":
            for pairs in self._beside(which, rows):
                yield from self._pairs.rows(pairs)
        if self._bounds is not None and self._bounds.open_us(which) < 0:
            over = rows[SLOT] <= before(self._state.clock_us, self._bounds.open_us(which))
            yield from self._alone(which, rows.filter(over))
        self._buffers[which].runs.add(rows)

    def _met_first(self, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit the left rows that match these right ones, and no earlier one."""
        near = None if self._bounds is None else self._bounds.near(RIGHT)
        asking = self._buffers[LEFT].met_by(rows, near)
        if asking is not None:
            asking = asking[self._met(LEFT, asking, rows)]
            if asking.height:
                yield from self._out(LEFT, without(asking, self._met(LEFT, asking)))

    def _reach(self, now_us: int) -> Iterator[Output]:
        """Advance the clock: emit unmatched rows, and forget rows that can match no more."""
        was_us, bounds = self._state.clock_us, self._bounds
        if now_us <= was_us:
            return
        self._state.clock_us = now_us
        if bounds is None:
            yield from self._end() if now_us == FOREVER_US else ()
            return
        for which in self._unmatched_sides:
            open_us, runs = bounds.open_us(which), self._buffers[which].runs
            rows = runs.read(before(was_us, open_us), before(now_us, open_us))
            if rows is not None:
                yield from self._alone(which, rows)
        for which, kept in enumerate(self._buffers):
            kept.runs.drop(before(now_us, bounds.kept_us(which)))

    def _end(self) -> Iterator[Output]:
        """Emit and forget unmatched rows, which would be emitted again at the next end."""
        for which in self._unmatched_sides:
            runs = self._buffers[which].runs
            rows = runs.take(FOREVER_US)
            if rows is None:
                continue
            met = self._met(which, rows)
            yield from self._out(which, without(rows, met))
            if self._type != "anti":
                runs.add(rows[met])

    def _alone(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit the unmatched ones of these rows, if the join type emits them."""
        if which in self._unmatched_sides and rows.height:
            yield from self._out(which, without(rows, self._met(which, rows)))

    def _met(
        self, which: int, asking: pl.DataFrame, there: pl.DataFrame | None = None
    ) -> pl.Series:
        """Return which rows match some of the others, or of the other side's stored rows."""
        import polars as pl

        pairs = self._asked(which, asking, there)
        return pl.Series([], dtype=pl.UInt32) if pairs is None else pairs.met()

    def _beside(self, which: int, asking: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Return the pairs of these rows with the stored rows of the other side."""
        pairs = self._asked(which, asking, None)
        return iter(()) if pairs is None else pairs.rows()

    def _asked(self, which: int, asking: pl.DataFrame, there: pl.DataFrame | None) -> Beside | None:
        own, other = self._buffers[which], self._buffers[1 - which]
        near = None if self._bounds is None else self._bounds.near(which)
        there = other.met_by(asking, near) if there is None else there
        if there is None:
            return None
        probe = Probe(asking, there, own.key, near)
        return Beside(self._pairs, probe, own.shown(asking), other.shown(there))

    def _out(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        return self._pairs.rows(self._buffers[which].shown(rows))
