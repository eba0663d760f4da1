"""The join of rows that are added and removed, by any columns.

The result of a join is a function of the rows on both sides: their pairs, and the rows of outer and
semi joins that have no match, or have one. A batch of changes on one side changes the result by
its pairs with the rows of the other side. Besides, rows of the other side may gain their first
match, or lose their last one. Whether a row has a match is decided by the rows with a positive
weight.

A row with a null in its key matches nothing and is not stored.

With `ttl`, two rows match only if their event times are at most that much apart. A change of a row
that is older than the watermark by more than the `ttl` is late, whether it adds the row or removes
it. So each change that is not late finds all the rows that its row matched when it was added, if
rows are stored for twice the `ttl`. To know whether a row of the other side still has a match, they
are stored for three times the `ttl`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import SLOT
from headrace.core.operators.changelog.weighted_rows import (
    WeightedRows,
    consolidate,
    get_weights,
    make_change_rows,
)
from headrace.core.operators.joins.join_probe import JoinProbe, ProbeIndex
from headrace.core.operators.joins.join_sides import (
    LEFT,
    RIGHT,
    SIDE_STATES,
    JoinSideColumns,
    SymmetricJoin,
    compute_expired_us,
    emits_unmatched,
)
from headrace.core.operators.joins.matched_pairs import JoinOutput, MatchedPairs
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator, request_offload
from headrace.core.plan import nodes
from headrace.core.types.elements import EVENT_TIME, WEIGHT
from headrace.core.types.frames import pick_columns, to_integers

if TYPE_CHECKING:
    import polars as pl

SIDE_WEIGHTS = ("__left_weight", "__right_weight")
"""The weights of the two rows of a pair."""


def get_retention_us(ttl_us: int) -> int:
    """Return how long after its event time a row is stored."""
    return 3 * ttl_us


class TableJoin(SymmetricJoin, StatelessOperator):
    """The operator of a join of which at least one input is a changelog."""

    _is_expiring = False

    def __init__(
        self, operation: nodes.Join, context: KeyedContext, stored: Collection[int] = (LEFT, RIGHT)
    ) -> None:
        """`stored` are the sides whose rows are stored."""
        self._type = operation.type
        self._sides = [
            JoinSideColumns(operation, which, ordered=context.is_ordered) for which in (LEFT, RIGHT)
        ]
        self._rows = {
            which: WeightedRows(
                context.state,
                SIDE_STATES[which],
                self._sides[which].key,
                self._sides[which].types,
                self._sides[which].time if self._is_expiring else None,
            )
            for which in stored
        }
        self._indexes: list[ProbeIndex | None] = [None, None]
        self._output = JoinOutput(operation, context.stream, ordered=context.is_ordered)

    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the changes of the join that these changes of a side make."""
        side = self._sides[which]
        rows = side.project_input(frame).with_columns(get_weights(frame))
        if (lacks := side.find_null_keys(rows)) is not None:
            if emits_unmatched(self._type, which):
                yield from self._emit_alone(which, rows.filter(lacks))
            rows = rows.filter(~lacks)
        rows = consolidate(rows) if WEIGHT in frame.columns else rows
        if not rows.height:
            return
        keys = pick_columns(rows, side.key)
        yield from request_offload(
            sum(each.count_deferred_rows(keys.height) for each in self._rows.values())
        )
        others = self._rows[1 - which].read(keys)
        yield from self._emit_own(which, rows, others)
        if self._needs_matches(1 - which) and others.height:
            yield from self._emit_turned(which, rows, others, self._rows[which].read(keys))
        self._rows[which].add(rows)
        self._indexes[which] = None

    def _needs_matches(self, which: int) -> bool:
        """Whether the result depends on whether a row of this side has a match."""
        return emits_unmatched(self._type, which) or (self._type == "semi" and which == LEFT)

    def _emit_own(self, which: int, rows: pl.DataFrame, others: pl.DataFrame) -> Iterator[Output]:
        """Emit the pairs of changed rows, and changed rows that are emitted alone."""
        import polars as pl

        if not self._output.is_one_sided:
            pairs = self._probe(which, rows, others).iterate_rows()
            weight = (pl.col(SIDE_WEIGHTS[LEFT]) * pl.col(SIDE_WEIGHTS[RIGHT])).alias(WEIGHT)
            for pair_rows in pairs:
                yield from self._output.emit(pair_rows.with_columns(weight))
        if self._needs_matches(which):
            met = self._find_matched(which, rows, others)
            yield from self._emit_alone(which, rows.filter(met == (self._type == "semi")))

    def _emit_turned(
        self, which: int, rows: pl.DataFrame, others: pl.DataFrame, before: pl.DataFrame
    ) -> Iterator[Output]:
        """Emit or remove rows of the other side that gain their first match, or lose their last."""
        import polars as pl

        after = consolidate(pl.concat([before, rows.select(before.columns)]))
        was = self._find_matched(1 - which, others, before)
        now = self._find_matched(1 - which, others, after)
        removed, added = (now & ~was, was & ~now)
        if self._type == "semi":
            removed, added = added, removed
        taken = others.filter(removed).with_columns(-pl.col(WEIGHT))
        yield from self._emit_alone(1 - which, pl.concat([taken, others.filter(added)]))

    def _find_matched(self, which: int, rows: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
        """Return which rows match some of the other rows that are there."""
        import polars as pl

        met = self._probe(which, rows, others.filter(pl.col(WEIGHT) > 0)).find_matched()
        mask = pl.repeat(False, rows.height, dtype=pl.Boolean, eager=True)
        return mask.scatter(met, True) if len(met) else mask

    def _probe(self, which: int, rows: pl.DataFrame, others: pl.DataFrame) -> MatchedPairs:
        return MatchedPairs(
            self._output,
            self._build_probe(which, rows, others),
            self._project_pair_side(which, rows),
            self._project_pair_side(1 - which, others),
        )

    def _build_probe(self, which: int, rows: pl.DataFrame, others: pl.DataFrame) -> JoinProbe:
        """Return the probe of rows with equal keys."""
        return JoinProbe(rows, self._index_rows(1 - which, others))

    def _index_rows(self, which: int, rows: pl.DataFrame) -> ProbeIndex:
        """Return an index of these rows; that of all rows is used until a change of the side."""
        index = self._indexes[which]
        if index is not None and index.rows is rows:
            return index
        index = ProbeIndex(rows, self._sides[which].key)
        if rows is self._rows[which].whole:
            self._indexes[which] = index
        return index

    def _project_pair_side(self, which: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the columns of a row in a pair, with its weight."""
        names = [name for name in self._sides[which].types if name not in self._sides[which].key]
        return pick_columns(rows, names, rows[WEIGHT].alias(SIDE_WEIGHTS[which]))

    def _emit_alone(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        side = self._sides[which]
        return self._output.emit(rows.drop(side.key))


class ExpiringTableJoin(TableJoin):
    """The operator of such a join with a `ttl`."""

    _is_expiring = True

    def __init__(self, operation: nodes.Join, ttl_us: int, context: KeyedContext) -> None:
        super().__init__(operation, context)
        self._context, self._state = context, context.state
        self._ttl_us = ttl_us
        self._late_to = operation.late_to

    @property
    def pending_rows(self) -> int:
        """The number of stored rows."""
        return sum(rows.rows for rows in self._rows.values())

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Drop the rows that no change will find any more."""
        if watermark_us > self._state.clock_us:
            self._state.clock_us = watermark_us
            for rows in self._rows.values():
                rows.drop(compute_expired_us(watermark_us, get_retention_us(self._ttl_us)))
        return iter(())

    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Leave out late changes, and emit what the others change."""
        times = to_integers(frame[EVENT_TIME])
        is_late = times <= compute_expired_us(self._state.clock_us, self._ttl_us)
        if is_late.any():
            late = make_change_rows(frame.filter(is_late))
            yield from self._context.emit_late_rows(self._late_to[which], late)
            frame = frame.filter(~is_late)
        if frame.height:
            yield from super()._process_side(which, frame)

    def _build_probe(self, which: int, rows: pl.DataFrame, others: pl.DataFrame) -> JoinProbe:
        """Return the probe of rows with equal keys whose times are near each other."""
        side, other = self._sides[which], self._sides[1 - which]
        stored_rows = others.hstack([others[other.time].alias(SLOT)])
        return JoinProbe(
            rows.hstack([rows[side.time].alias(SLOT)]),
            ProbeIndex(stored_rows, other.key, by_time=True),
            (-self._ttl_us, self._ttl_us),
        )
