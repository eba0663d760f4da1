"""Sessions of rows that may be removed: a removal may end a session earlier, or split it in two.

Rows are stored by key and time, and sessions are derived from the rows that are there whenever
one of them may have ended. So a session is never merged with others: which rows belong together is
not known before it ends. Rows are filed under the time at which their session ends, as far as it is
known; then all rows of the key are read.

With `lateness`, the rows of sessions that have ended are stored for longer. The sessions that have
been emitted are those that have ended among the stored rows, so they need no state of their own.

What is late, and which sessions there are, does not depend on how rows are cut into batches. Rows
older than the watermark are taken in the order in which they come, and leave a mark until the next
watermark: a row that is removed still belongs to its session for the rows that come before then, so
an update that removes a row and adds another never ends a session between the two. Without
`lateness`, a session that such rows change is emitted with the next watermark.

Tests: tests/core/operators/sessions/test_table_sessions.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import NO_CLOCK_US, SLOT, RunsLayout
from headrace.core.operators.changelog.weighted_rows import make_change_rows, split_weights
from headrace.core.operators.folds import ROW_TIME, WEIGHTED_ROWS, WeightedFold
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import (
    ClocklessOperator,
    Output,
    WriteThroughOperator,
    request_offload,
)
from headrace.core.operators.result_rows import ResultRows
from headrace.core.operators.sessions.fragments import (
    FRAGMENT_END,
    FRAGMENT_START,
    ROW_NUMBER,
    find_continued,
    merge_fragments,
)
from headrace.core.operators.sessions.late_rows import find_late_rows
from headrace.core.operators.sessions.open_sessions import OPEN_STATE
from headrace.core.operators.sessions.row_sessions import SessionRules
from headrace.core.operators.sessions.session_operator import compute_session_delay
from headrace.core.operators.sessions.session_rows import SessionRowBuilder
from headrace.core.operators.windows.factory import build_fold
from headrace.core.plan.nodes import WindowedOperation
from headrace.core.plan.nodes.windows import Session
from headrace.core.types.elements import DELETE, EVENT_TIME, WEIGHT

if TYPE_CHECKING:
    import polars as pl

OWN_TIME = "__own_time"
"""The time of a piece, whose bounds are those of its session."""


class TableSessionOperator(ClocklessOperator, WriteThroughOperator):
    """The operator of `window: {session: ...}` over rows that may be removed.

    A piece is the rows of a key at one time: a fragment, whose weights may add up to nothing.
    """

    def __init__(
        self, operation: WindowedOperation, context: KeyedContext, types: Mapping[str, pl.DataType]
    ) -> None:
        """`types` are the types of the input columns; only `top` stores all of them."""
        window = operation.window
        assert window is not None and isinstance(window.shape, Session)
        self._late_to = window.late_to
        self._gap_us, self._lateness_us = window.shape.gap_us, window.lateness_us
        self._context, self._state = context, context.state
        self._grouping = grouping = GroupingKey(operation.key)
        fold = build_fold(operation, grouping, types)
        assert isinstance(fold, WeightedFold), "its rows have weights"
        self._fold = fold
        self._row_builder = SessionRowBuilder(operation, fold)
        self._out = ResultRows(operation, context.stream, ordered=context.is_ordered)
        self._key = grouping.internal_names
        self._group_columns = (*self._key, FRAGMENT_START, FRAGMENT_END)
        self._layout = _build_layout(grouping, fold)
        self._columns = (*self._layout.columns, SLOT)
        self._runs = context.state.open_runs(OPEN_STATE, self._layout)
        self.watermark_delay_us = compute_session_delay(window)

    @property
    def pending_rows(self) -> int:
        """The number of stored pieces."""
        return self._runs.rows

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Store the changes that are not late, and emit the ended sessions that they change."""
        import polars as pl

        if not frame.height:
            return
        rows = self._number_rows(frame)
        suspects = rows.filter(self._is_over())
        yield from request_offload(
            self._runs.estimate_deferred_rows(for_lookup=suspects.height > 0)
        )
        if suspects.height:
            if suspects[WEIGHT].min() < -1:  # type: ignore[operator]
                frame = split_weights(frame)  # some copies may be there, and others not
                rows = self._number_rows(frame)
            late = self._find_late_rows(rows)
            rows = rows.filter(~pl.col(ROW_NUMBER).is_in(late))
            if late:
                changes = make_change_rows(frame[sorted(late)])
                yield from self._context.emit_late_rows(self._late_to, changes)
        if rows.height:
            yield from self._store_changes(rows)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the sessions that have ended."""
        before_us = self._state.clock_us
        if watermark_us <= before_us:
            return
        self._state.clock_us = watermark_us
        first = self._runs.get_first_slot()
        if first is None or first > watermark_us:
            return
        yield from request_offload(self._runs.estimate_deferred_rows(for_lookup=True))
        due = self._runs.take(watermark_us)
        if due is None:
            return
        taken = self._runs.take_keys(due.select(self._key).unique())
        pieces = self._merge_pieces([due, taken]).filter(~_is_mark())
        sessions = self._find_sessions(pieces)
        self._store_pieces(pieces, sessions, after_us=watermark_us)
        newly = self._has_ended()
        if self._lateness_us:  # changes of sessions that had ended before were emitted at once
            newly &= self._compute_close() > before_us
        yield from self._emit(sessions.filter(newly))

    def _number_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return each row as a fragment, with its number."""
        import polars as pl

        rows = self._grouping.project_rows(frame, self._fold.input_columns)
        time = pl.col(EVENT_TIME).cast(pl.Int64)
        times = (time.alias(FRAGMENT_START), time.alias(FRAGMENT_END), time.alias(ROW_TIME))
        number = pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW_NUMBER)
        return rows.with_columns(*times, number)

    def _compute_close(self, end: str = FRAGMENT_END) -> pl.Expr:
        """Return the time from which a session has ended; `end` has the time of its last row."""
        import polars as pl

        return pl.col(end) + (self._gap_us + 1)

    def _has_ended(self) -> pl.Expr:
        return self._compute_close() <= self._state.clock_us

    def _is_over(self) -> pl.Expr:
        """Return whether a session takes no more changes."""
        return self._compute_close() + self._lateness_us <= self._state.clock_us

    def _find_late_rows(self, rows: pl.DataFrame) -> list[int]:
        """Return the numbers of the changes that are too late, as if they came one by one.

        That is added rows that belong to no session, and removed ones that are not stored, if they
        would be too late alone.
        """
        import polars as pl

        suspects = rows.filter(self._is_over())
        keys = suspects.select(self._key).unique()
        stored = self._merge_pieces([self._runs.read_keys(keys, NO_CLOCK_US)])
        there = stored.filter(_is_there() | _is_mark()).with_columns(
            pl.max_horizontal(FRAGMENT_START, FRAGMENT_END).alias(FRAGMENT_END)
        )
        rules = SessionRules(self._gap_us, self._lateness_us, self._state.clock_us, False)
        # Removed rows leave a mark, too; those that would be late are there before, or are absent.
        seen = rows.filter((pl.col(WEIGHT) > 0) | ~self._is_over())
        late = find_late_rows(seen, lambda _: (there,), self._key, rules)
        on_time = suspects.filter(~pl.col(ROW_NUMBER).is_in(late))
        return late + self._find_absent_rows(on_time, stored.filter(~_is_mark()))

    def _find_absent_rows(self, suspects: pl.DataFrame, stored: pl.DataFrame) -> list[int]:
        """Return the numbers of the removed rows that are not there when they are removed."""
        import polars as pl

        if not (suspects[WEIGHT] < 0).any():
            return []
        row = (*self._key, FRAGMENT_START, *sorted(self._fold.input_columns - {WEIGHT}))
        columns = (*row, WEIGHT, ROW_NUMBER)
        known = self._fold.unnest_rows(stored, (*self._key, FRAGMENT_START))
        both = [
            known.with_columns(pl.lit(-1, dtype=pl.Int64).alias(ROW_NUMBER)).select(columns),
            suspects.select(columns),
        ]
        changes = pl.concat(both).sort(ROW_NUMBER).group_by(row).agg(WEIGHT, ROW_NUMBER)
        absent = []
        for weights, numbers in changes.select(WEIGHT, ROW_NUMBER).iter_rows():
            count = 0
            for weight, number in zip(weights, numbers, strict=True):
                if number >= 0 and weight < 0 and count <= 0:
                    absent.append(number)
                else:
                    count += weight
        return absent

    def _store_changes(self, rows: pl.DataFrame) -> Iterator[Output]:
        """Store changes; with lateness, emit those of sessions that have ended."""
        import polars as pl

        next_us = self._state.clock_us + 1
        slot = pl.max_horizontal(self._compute_close(), next_us).alias(SLOT)
        pieces = self._fold.begin(rows, self._group_columns).with_columns(slot)
        pieces = pieces.select(self._columns)
        # Only what is older than the clock can be in a session that has ended, or end one.
        old = rows.filter(pl.col(FRAGMENT_START) < self._state.clock_us)
        if not old.height:
            self._runs.add(pieces)
            return
        marks = self._build_marks(old)
        if not self._lateness_us:
            self._runs.add(pl.concat([pieces, marks]))
            return
        keys = marks.select(self._key).unique()
        changed, others = pieces, pieces.clear()
        if self._key:
            others = pieces.join(keys, on=self._key, how="anti", nulls_equal=True)
            changed = pieces.join(keys, on=self._key, how="semi", nulls_equal=True)
        taken = self._merge_pieces([self._runs.take_keys(keys)])
        self._runs.add(pl.concat([others, marks, taken.filter(_is_mark())]))
        yield from self._change_sessions(taken.filter(~_is_mark()), changed)

    def _build_marks(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return a piece without rows for each time of these rows, until the next watermark."""
        import polars as pl

        time = pl.col(FRAGMENT_START)
        nothing = pl.lit([], dtype=self._layout.columns[WEIGHTED_ROWS]).alias(WEIGHTED_ROWS)
        slot = pl.lit(self._state.clock_us + 1, dtype=pl.Int64).alias(SLOT)
        end = (time - 1).alias(FRAGMENT_END)
        marks = rows.select(*self._key, FRAGMENT_START).unique()
        return marks.with_columns(nothing, end, slot).select(self._columns)

    def _change_sessions(self, before: pl.DataFrame, changed: pl.DataFrame) -> Iterator[Output]:
        """Store all pieces of keys, and emit the changes of sessions that have ended."""
        after = self._merge_pieces([before, changed])
        sessions = self._find_sessions(after)
        self._store_pieces(after, sessions)
        old = self._find_sessions(before).filter(self._has_ended())
        new = sessions.filter(self._has_ended())
        gone = old.join(new, on=self._group_columns, how="anti", nulls_equal=True)
        yield from self._emit(gone, deleted=True)
        bounds = new.select(self._group_columns).unique()
        same = bounds.join(old, on=self._group_columns, how="semi", nulls_equal=True)
        touched = find_continued(same, changed, self._key, 0)
        unchanged = same.join(touched, on=self._group_columns, how="anti", nulls_equal=True)
        yield from self._emit(
            new.join(unchanged, on=self._group_columns, how="anti", nulls_equal=True)
        )

    def _find_sessions(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """Return the pieces that are there with the bounds of their session, and their OWN_TIME."""
        import polars as pl

        there = pieces.filter(_is_there()).with_columns(pl.col(FRAGMENT_START).alias(OWN_TIME))
        return merge_fragments(there, self._key, self._gap_us)

    def _store_pieces(
        self, pieces: pl.DataFrame, sessions: pl.DataFrame, *, after_us: int | None = None
    ) -> None:
        """Store pieces until their session takes no more changes, and until the next watermark.

        `after_us`: a watermark that has come; what takes no more changes then is left out.

        A piece is filed under the time at which it would end its session, so that this is noticed
        if those after it are removed; and under the end of its session when that time has passed.
        """
        import polars as pl

        removed = pieces.filter(~_is_there())  # before their rows were added
        whole = pl.concat(
            [
                sessions.select(*self._key, OWN_TIME, FRAGMENT_END, WEIGHTED_ROWS),
                removed.select(
                    *self._key, pl.col(FRAGMENT_END).alias(OWN_TIME), FRAGMENT_END, WEIGHTED_ROWS
                ),
            ]
        )
        own = self._compute_close(OWN_TIME)
        due = (
            pl.when(self._has_ended())
            .then(self._compute_close() + self._lateness_us)
            .when(own > self._state.clock_us)
            .then(own)
            .otherwise(self._compute_close())
        )
        time = pl.col(OWN_TIME)
        bounds = (time.alias(FRAGMENT_START), time.alias(FRAGMENT_END))
        filed = whole.select(*self._key, WEIGHTED_ROWS, due.alias(SLOT), *bounds)
        if after_us is None:
            next_us = self._state.clock_us + 1
            filed = filed.with_columns(pl.max_horizontal(SLOT, next_us).alias(SLOT))
        else:
            filed = filed.filter(pl.col(SLOT) > after_us)
        self._runs.add(filed.select(self._columns))

    def _merge_pieces(self, frames: Sequence[pl.DataFrame | None]) -> pl.DataFrame:
        import polars as pl

        found = [frame.select(self._columns) for frame in frames if frame is not None]
        if not found:
            return pl.DataFrame(schema={**self._layout.columns, SLOT: pl.Int64()})
        return self._layout.merge(pl.concat(found))

    def _emit(self, pieces: pl.DataFrame, *, deleted: bool = False) -> Iterator[Output]:
        """Emit the results of sessions, of which these are the pieces."""
        import polars as pl

        if not pieces.height:
            return
        states = self._fold.merge(pieces, self._group_columns).sort(FRAGMENT_END)
        rows = self._row_builder.build(states, self._group_columns)
        yield from self._out.emit(
            rows.with_columns(pl.lit(True).alias(DELETE)) if deleted else rows
        )


def _build_layout(grouping: GroupingKey, fold: WeightedFold) -> RunsLayout:
    import polars as pl

    bounds = {FRAGMENT_START: pl.Int64(), FRAGMENT_END: pl.Int64()}
    columns = {**grouping.types, **fold.state_columns, **bounds}
    by = (*grouping.internal_names, *bounds)

    def merge(pieces: pl.DataFrame) -> pl.DataFrame:
        due = pieces.group_by(by).agg(pl.col(SLOT).max())
        merged = fold.merge(pieces, by).join(due, on=by, nulls_equal=True)
        marks = pieces.filter(_is_mark()).group_by(by).agg(pl.col(WEIGHTED_ROWS).first())
        marks = marks.join(due, on=by, nulls_equal=True)
        return pl.concat([each.select(pieces.columns) for each in (merged, marks)])

    return RunsLayout(columns, grouping.internal_names, merge)


def _is_mark() -> pl.Expr:
    """Return whether a piece only says that a row of that time has changed."""
    import polars as pl

    return pl.col(FRAGMENT_END) < pl.col(FRAGMENT_START)


def _is_there() -> pl.Expr:
    """Return whether a piece has rows that are there."""
    import polars as pl

    weights = pl.col(WEIGHTED_ROWS).list.eval(pl.element().struct.field(WEIGHT))
    return weights.list.max() > 0
