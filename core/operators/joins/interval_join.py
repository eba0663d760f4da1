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

from headrace.core.api.state import SLOT
from headrace.core.operators.joins.join_probe import JoinProbe, ProbeIndex
from headrace.core.operators.joins.join_sides import (
    LEFT,
    RIGHT,
    JoinSideBuffer,
    SymmetricJoin,
    TimeBounds,
    compute_expired_us,
    emits_unmatched,
)
from headrace.core.operators.joins.matched_pairs import JoinOutput, MatchedPairs, drop_rows
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, WriteThroughOperator, request_offload
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import IntervalMatch
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.frames import gather_rows

if TYPE_CHECKING:
    import polars as pl

UNBOUNDED_DELAY_US = 1 << 62
"""Rows emitted at the end of input, or by the wall clock, may have any time."""

CLOCK_CHECKS = 64
"""The number of times that the wall clock is checked while a row is stored."""


class IntervalJoin(SymmetricJoin, WriteThroughOperator):
    """The operator of a join with `within`, with `ttl`, or with neither."""

    def __init__(
        self, operation: nodes.Join, matching: IntervalMatch, context: KeyedContext
    ) -> None:
        self._type = operation.type
        self._late_to = operation.late_to
        self._context, self._state = context, context.state
        self._processing = matching.uses_processing_time
        self._bounds: TimeBounds | None = None
        if matching.least_us is not None and matching.most_us is not None:
            self._bounds = TimeBounds(matching.least_us, matching.most_us, operation.type)
        self._by_event = self._bounds is not None and not matching.uses_processing_time
        self._buffers = tuple(
            JoinSideBuffer(operation, which, context, "slot" if self._by_event else "kept")
            for which in (LEFT, RIGHT)
        )
        self._unmatched_sides = [w for w in (LEFT, RIGHT) if emits_unmatched(operation.type, w)]
        """The sides whose unmatched rows are emitted."""
        self._pairs = JoinOutput(operation, context.stream, ordered=context.is_ordered)
        self.watermark_delay_us = 0
        if self._by_event and self._bounds is not None:
            self.watermark_delay_us = self._bounds.watermark_delay_us
        elif operation.type != "inner":
            self.watermark_delay_us = UNBOUNDED_DELAY_US

    @property
    def pending_rows(self) -> int:
        """The number of stored rows."""
        return sum(buffer.row_count for buffer in self._buffers)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Advance the watermark; with processing time, only the end of input matters."""
        if not self._processing or watermark_us == MAX_WATERMARK_US:
            yield from self._advance_clock(watermark_us)

    def next_tick_us(self) -> int | None:
        """Return the wall-clock time at which rows must be emitted or forgotten."""
        if not self._processing or self._bounds is None or self._state.clock_us == MAX_WATERMARK_US:
            return None
        first = [buffer.runs.get_first_slot() for buffer in self._buffers]
        due = [
            at + self._bounds.get_open_us(which) + 1
            for which, at in enumerate(first)
            if at is not None
        ]
        if not due:
            return None
        seldom_us = (self._bounds.most_us - self._bounds.least_us) // CLOCK_CHECKS
        return max(min(due), self._state.clock_us + seldom_us)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        if self._processing:
            yield from self._advance_clock(now_us)

    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Leave out late rows, emit those that cannot match, and join the others."""
        if self._processing:
            yield from self._advance_clock(self._context.now_us())
        if self._by_event:
            frame = yield from self._context.drop_late_rows(frame, self._late_to[which])
        rows = self._buffers[which].project_input(frame, self._build_slot())
        lacks = self._buffers[which].side.find_null_keys(rows)
        if lacks is not None:
            if which in self._unmatched_sides:
                yield from self._emit_rows(which, rows.filter(lacks))
            rows = rows.filter(~lacks)
        if rows.height:
            owed = self._buffers[1 - which].count_deferred_rows(rows.height)
            yield from request_offload(
                owed + self._buffers[which].runs.estimate_deferred_rows(for_lookup=False)
            )
            yield from self._match_rows(which, rows)

    def _build_slot(self) -> pl.Expr | None:
        """Return the slot of the rows that arrive; None: their event time."""
        import polars as pl

        if self._bounds is None:
            return pl.lit(0, dtype=pl.Int64)
        if self._processing:
            return pl.lit(self._state.clock_us, dtype=pl.Int64)
        return None

    def _match_rows(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Join rows of this side with stored ones of the other, and store them."""
        if self._type == "semi" and which == RIGHT:
            yield from self._emit_first_matches(rows)
        elif self._type == "semi":
            met = self._find_matched(which, rows)
            yield from self._emit_rows(which, gather_rows(rows, met))
            rows = drop_rows(rows, met)
        elif self._type == "anti" and which == LEFT:
            rows = drop_rows(rows, self._find_matched(which, rows))
        elif self._type != "anti":
            for pairs in self._iterate_pairs(which, rows):
                yield from self._pairs.emit(pairs)
        if self._bounds is not None and self._bounds.get_open_us(which) < 0:
            over = rows[SLOT] <= compute_expired_us(
                self._state.clock_us, self._bounds.get_open_us(which)
            )
            yield from self._emit_unmatched(which, rows.filter(over))
        self._buffers[which].runs.add(rows)

    def _emit_first_matches(self, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit the left rows that match these right ones, and no earlier one."""
        near = None if self._bounds is None else self._bounds.get_range(RIGHT)
        probe_rows = self._buffers[LEFT].find_candidates(rows, near)
        if probe_rows is not None:
            probe_rows = gather_rows(probe_rows, self._find_matched(LEFT, probe_rows, rows))
            if probe_rows.height:
                yield from self._emit_rows(
                    LEFT, drop_rows(probe_rows, self._find_matched(LEFT, probe_rows))
                )

    def _advance_clock(self, now_us: int) -> Iterator[Output]:
        """Advance the clock: emit unmatched rows, and forget rows that can match no more."""
        was_us, bounds = self._state.clock_us, self._bounds
        if now_us <= was_us:
            return
        self._state.clock_us = now_us
        if bounds is None:
            yield from self._emit_at_end() if now_us == MAX_WATERMARK_US else ()
            return
        for which in self._unmatched_sides:
            open_us, runs = bounds.get_open_us(which), self._buffers[which].runs
            rows = runs.read(
                compute_expired_us(was_us, open_us), compute_expired_us(now_us, open_us)
            )
            if rows is not None:
                yield from self._emit_unmatched(which, rows)
        for which, buffer in enumerate(self._buffers):
            buffer.runs.drop(compute_expired_us(now_us, bounds.get_retention_us(which)))

    def _emit_at_end(self) -> Iterator[Output]:
        """Emit and forget unmatched rows, which would be emitted again at the next end."""
        for which in self._unmatched_sides:
            runs = self._buffers[which].runs
            rows = runs.take(MAX_WATERMARK_US)
            if rows is None:
                continue
            met = self._find_matched(which, rows)
            yield from self._emit_rows(which, drop_rows(rows, met))
            if self._type != "anti":
                runs.add(rows[met])

    def _emit_unmatched(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        """Emit the unmatched ones of these rows, if the join type emits them."""
        if which in self._unmatched_sides and rows.height:
            yield from self._emit_rows(which, drop_rows(rows, self._find_matched(which, rows)))

    def _find_matched(
        self, which: int, probe_rows: pl.DataFrame, there: pl.DataFrame | None = None
    ) -> pl.Series:
        """Return which rows match some of the others, or of the other side's stored rows."""
        import polars as pl

        pairs = self._probe(which, probe_rows, there)
        return pl.Series([], dtype=pl.UInt32) if pairs is None else pairs.find_matched()

    def _iterate_pairs(self, which: int, probe_rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Return the pairs of these rows with the stored rows of the other side."""
        pairs = self._probe(which, probe_rows, None)
        return iter(()) if pairs is None else pairs.iterate_rows()

    def _probe(
        self, which: int, probe_rows: pl.DataFrame, there: pl.DataFrame | None
    ) -> MatchedPairs | None:
        own, other = self._buffers[which], self._buffers[1 - which]
        near = None if self._bounds is None else self._bounds.get_range(which)
        there = other.find_candidates(probe_rows, near) if there is None else there
        if there is None:
            return None
        probe = JoinProbe(probe_rows, ProbeIndex(there, own.key, by_time=near is not None), near)
        return MatchedPairs(
            self._pairs, probe, own.project_output(probe_rows), other.project_output(there)
        )

    def _emit_rows(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        return self._pairs.emit(self._buffers[which].project_output(rows))
