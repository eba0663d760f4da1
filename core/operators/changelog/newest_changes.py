"""The operator that passes on the changes of a table which are newer than those before them.

For each key it stores the sequence and the place of the newest change, and whether that was a
deletion: an older change that arrives later must not bring the row back. A change is newer if its
sequence is greater, or if it is equal and its place among all rows is later, so the table does not
depend on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY, KEY_INDEX
from headrace.core.operators.dedup import ROW_NUMBER
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output
from headrace.core.operators.ttl_operator import TtlOperator
from headrace.core.plan.nodes import Dedup
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, ORDER, SEQUENCE
from headrace.core.types.row_order import order_by_sequence

if TYPE_CHECKING:
    import polars as pl

PLACE = "__place"
"""The number of a change in the order of all rows."""

IS_DELETED = "__deleted"
"""Whether the newest change of a key is a deletion."""

STORED_PREFIX = "__old."
"""The prefix of the columns of the change that is stored."""


def get_change_types(operation: Dedup) -> dict[str, pl.DataType]:
    """Return the columns that are stored of the newest change of a key."""
    import polars as pl

    assert operation.changes is not None, "it orders changes"
    sequence = operation.changes.sequence
    sequences = {SEQUENCE: to_polars(sequence.value.type)} if sequence else {}
    return {**sequences, PLACE: pl.Int64(), IS_DELETED: pl.Boolean()}


class NewestChangesOperator(TtlOperator):
    """The operator of a table's changes that are ordered by sequence, or by place."""

    def __init__(self, operation: Dedup, context: KeyedContext) -> None:
        super().__init__(operation.ttl, context)
        self._grouping = GroupingKey(operation.key)
        self._stream = context.stream
        self._is_ordered = context.is_ordered
        assert operation.changes is not None, "it orders changes"
        self._orders_rows = context.is_ordered and operation.changes.orders_rows
        self._stored = [*get_change_types(operation)]
        self._order = [name for name in self._stored if name != IS_DELETED]
        self.open_table(get_change_types(operation))

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the newest change of each key, if it is newer than the one stored."""
        import polars as pl

        yield from self.announce_work()
        changes = self._find_newest(frame)
        found = self.get_live_table().find(changes[KEY])
        stored = {name: f"{STORED_PREFIX}{name}" for name in self._stored}
        known = found.select(KEY_INDEX, *self._stored).rename(stored)
        both = changes.with_row_index(KEY_INDEX).join(
            known, on=KEY_INDEX, how="left", maintain_order="left"
        )
        newer = both.filter(self._is_newer())
        self._store_changes(newer)
        has_row = ~pl.col(stored[IS_DELETED]).fill_null(True)
        emitted = newer.filter(~pl.col(IS_DELETED) | has_row)
        if emitted.height:
            rows = frame[emitted[ROW_NUMBER].sort()]
            if self._orders_rows:
                rows = order_by_sequence(rows, SEQUENCE)
            hidden = (SEQUENCE,) if self._is_ordered else (SEQUENCE, ORDER)
            yield self._stream, rows.drop(hidden, strict=False)

    def _find_newest(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the newest change of each key, with its row number."""
        import polars as pl

        rows = self._grouping.project_columns(
            frame,
            [name for name in (SEQUENCE, EVENT_TIME) if name in frame.columns],
            pl.col(ORDER).struct.field("at").alias(PLACE),
            pl.col(DELETE).alias(IS_DELETED),
        ).with_row_index(ROW_NUMBER)
        rows = self._grouping.encode_keys(rows)
        return rows.sort(self._order).unique(KEY, keep="last", maintain_order=True)

    def _is_newer(self) -> pl.Expr:
        """Whether a change is newer than the stored one of its key, or the first."""
        import polars as pl

        old = f"{STORED_PREFIX}{PLACE}"
        newer = pl.col(PLACE) > pl.col(old)
        if SEQUENCE in self._order:
            value, before = pl.col(SEQUENCE), pl.col(f"{STORED_PREFIX}{SEQUENCE}")
            newer = (value > before) | ((value == before) & newer)
        return pl.col(old).is_null() | newer

    def _store_changes(self, changes: pl.DataFrame) -> None:
        """Store the changes; with a TTL, deletions expire."""
        import polars as pl

        if not self.has_ttl:
            self.put(changes.select(KEY, *self._stored), changes[KEY])
            return
        alive = pl.lit(None, dtype=pl.Int64).alias(EXPIRY)
        rows, deleted = changes.filter(~pl.col(IS_DELETED)), changes.filter(pl.col(IS_DELETED))
        if rows.height:
            self.get_live_table().put(rows.select(KEY, *self._stored, alive))
        if deleted.height:
            # A deletion without an event time is as old as the newest row.
            clock = pl.lit(self._state.clock_us, dtype=pl.Int64)
            times = deleted.select(
                pl.col(EVENT_TIME).cast(pl.Int64).fill_null(clock)
                if EVENT_TIME in deleted.columns
                else clock.alias(EVENT_TIME)
            ).to_series()
            self.put(deleted.select(KEY, *self._stored), times)
