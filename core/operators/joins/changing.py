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
from headrace.core.frames import added
from headrace.core.operators.forgetting import Forgetting
from headrace.core.operators.joins.both_sides import BothSides
from headrace.core.operators.joins.differing import Differing, lots
from headrace.core.operators.joins.meeting import beside
from headrace.core.operators.joins.pairs import Pairs
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.joins.standing import Standing
from headrace.core.operators.operator import Output, aside
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.plan.matching import Changing
from headrace.core.state import KEY
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

LAST = "__last"
"""The greatest event time of a key, over both sides."""


class ChangingJoin(BothSides, Forgetting):
    """The operator of a join whose inputs are both changelogs."""

    def __init__(self, operation: nodes.Join, matching: Changing, place: Place) -> None:
        super().__init__(matching.ttl, place)
        left, right = (
            Standing(operation, which, matching.keys[which], ordered=place.ordered)
            for which in (LEFT, RIGHT)
        )
        self._sides = (left, right)
        self._pairs = Pairs(operation, place.stream, ordered=place.ordered)
        self._delta = Differing(operation, (left, right), self._pairs)
        rows = {each.rows_of: each.type for each in self._sides}
        self.open({**rows, LAST: to_polars(TIMESTAMP)})

    def _take(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        yield from self.ahead()
        side = self._sides[which].side
        changes = self._sides[which].changes(frame)
        if (lacks := side.lacks_key(changes)) is not None:
            yield from self._put_out(*self._delta.keyless(which, changes.filter(lacks)))
            changes = changes.filter(~lacks)
        if changes.height:
            found = self.table().find(changes[KEY].unique(maintain_order=True))
            yield from self._change(which, changes.drop(side.key), found)

    def _change(self, which: int, changes: pl.DataFrame, found: pl.DataFrame) -> Iterator[Output]:
        """Emit the difference that these changes make, in lots of a bounded number of pairs."""
        own, other = self._sides[which], self._sides[1 - which]
        parts = list(lots(changes, found, other.rows_of))
        for part in parts:
            if len(parts) > 1:
                found = self.table().find(part[KEY].unique(maintain_order=True))
            rows, others = own.rows(found), other.rows(found)
            yield from aside(rows.height + others.height)
            touched = own.touched(part, rows)
            if self.forgets or touched.changes:
                self._keep(which, part, found, touched.rows)
            yield from self._put_out(*self._delta.of(which, touched, others))

    def _keep(
        self, which: int, changes: pl.DataFrame, found: pl.DataFrame, rows: pl.DataFrame
    ) -> None:
        """Store the new rows of these keys."""
        import polars as pl

        own, other = self._sides[which], self._sides[1 - which]
        time = pl.col(own.side.time).max().cast(to_polars(TIMESTAMP)).alias(LAST)
        keys = changes.group_by(KEY, maintain_order=True).agg(time)
        before = found.select(KEY, other.rows_of, pl.col(LAST).alias("__before"))
        states = beside(beside(keys, before, (KEY,)), own.listed(rows), (KEY,))
        states = states.with_columns(pl.max_horizontal(LAST, "__before").alias(LAST))
        empty = states[own.rows_of].is_null() & states[other.rows_of].is_null()
        if empty.any():
            self.table().remove(states.filter(empty)[KEY])
            states = states.filter(~empty)
        self.put(states.drop("__before"), states[LAST])

    def _put_out(self, before: pl.DataFrame, after: pl.DataFrame) -> Iterator[Output]:
        """Retract the rows that no longer exist, and emit the new ones."""
        import polars as pl

        for rows, deleted in ((before, True), (after, False)):
            for stream, frame in self._pairs.rows(rows):
                yield stream, added(frame, pl.lit(deleted).alias(DELETE))
