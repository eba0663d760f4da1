"""A join of two changelogs: the current rows of both inputs, and the changes of their pairs.

The state of a key is the rows of both sides, as a list each. The changes of a batch are compacted
to the last of each row first; a row that stays equal changes nothing. The output is the difference
between the old and new pairs of the changed rows, and between the rows without any match before and
after.

A row with a null in its key matches nothing and is not stored: if unmatched rows are emitted at
all, its changes are emitted as they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE
from headrace.core.frames import add_columns
from headrace.core.operators.forgetting import TtlOperator
from headrace.core.operators.joins.both_sides import SymmetricJoin
from headrace.core.operators.joins.differing import JoinDelta, split_lots
from headrace.core.operators.joins.meeting import left_join
from headrace.core.operators.joins.pairs import JoinOutput
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.joins.standing import MaterializedSide
from headrace.core.operators.operator import Output, request_offload
from headrace.core.operators.place import KeyedContext
from headrace.core.plan import nodes
from headrace.core.plan.matching import ChangelogMatch
from headrace.core.state import KEY
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

NEWEST_TIME = "__last"
"""The greatest event time of a key, over both sides."""


class ChangelogJoin(SymmetricJoin, TtlOperator):
    """The operator of a join whose inputs are both changelogs."""

    def __init__(
        self, operation: nodes.Join, matching: ChangelogMatch, place: KeyedContext
    ) -> None:
        super().__init__(matching.ttl, place)
        left, right = (
            MaterializedSide(operation, which, matching.keys[which], ordered=place.is_ordered)
            for which in (LEFT, RIGHT)
        )
        self._sides = (left, right)
        self._pairs = JoinOutput(operation, place.stream, ordered=place.is_ordered)
        self._delta = JoinDelta(operation, (left, right), self._pairs)
        rows = {each.state_column: each.type for each in self._sides}
        self.open_table({**rows, NEWEST_TIME: to_polars(TIMESTAMP)})

    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        yield from self.announce_work()
        side = self._sides[which].side
        changes = self._sides[which].compact_changes(frame)
        if (lacks := side.find_null_keys(changes)) is not None:
            yield from self._emit_difference(
                *self._delta.diff_keyless(which, changes.filter(lacks))
            )
            changes = changes.filter(~lacks)
        if changes.height:
            found = self.get_live_table().find(changes[KEY].unique(maintain_order=True))
            yield from self._apply_changes(which, changes.drop(side.key), found)

    def _apply_changes(
        self, which: int, changes: pl.DataFrame, found: pl.DataFrame
    ) -> Iterator[Output]:
        """Emit the difference that these changes make, in lots of a bounded number of pairs."""
        own, other = self._sides[which], self._sides[1 - which]
        parts = list(split_lots(changes, found, other.state_column))
        for part in parts:
            if len(parts) > 1:
                found = self.get_live_table().find(part[KEY].unique(maintain_order=True))
            rows, others = own.unnest_rows(found), other.unnest_rows(found)
            yield from request_offload(rows.height + others.height)
            touched = own.apply_changes(part, rows)
            if self.has_ttl or touched.has_changes:
                self._store_rows(which, part, found, touched.current_rows)
            yield from self._emit_difference(*self._delta.diff_changes(which, touched, others))

    def _store_rows(
        self, which: int, changes: pl.DataFrame, found: pl.DataFrame, rows: pl.DataFrame
    ) -> None:
        """Store the new rows of these keys."""
        import polars as pl

        own, other = self._sides[which], self._sides[1 - which]
        time = pl.col(own.side.time).max().cast(to_polars(TIMESTAMP)).alias(NEWEST_TIME)
        keys = changes.group_by(KEY, maintain_order=True).agg(time)
        before = found.select(KEY, other.state_column, pl.col(NEWEST_TIME).alias("__before"))
        states = left_join(left_join(keys, before, (KEY,)), own.collect_rows(rows), (KEY,))
        states = states.with_columns(pl.max_horizontal(NEWEST_TIME, "__before").alias(NEWEST_TIME))
        empty = states[own.state_column].is_null() & states[other.state_column].is_null()
        if empty.any():
            self.get_live_table().remove(states.filter(empty)[KEY])
            states = states.filter(~empty)
        self.put(states.drop("__before"), states[NEWEST_TIME])

    def _emit_difference(self, before: pl.DataFrame, after: pl.DataFrame) -> Iterator[Output]:
        """Retract the rows that no longer exist, and emit the new ones."""
        import polars as pl

        for rows, deleted in ((before, True), (after, False)):
            for stream, frame in self._pairs.emit(rows):
                yield stream, add_columns(frame, pl.lit(deleted).alias(DELETE))
