"""`dedup` with `order: event_time`: event time decides which row of a key is first or last.

Rows wait until the watermark has passed them, and are then processed in row order. So the result
does not depend on how they arrived; rows older than the watermark are late.

With `ttl` a row is the first of its key if none came before it within that time. The times of the
rows decide; when a key is removed from the state only affects memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME, ORDER
from headrace.core.frames import add_columns
from headrace.core.operators.dedup import NEWEST_TIME
from headrace.core.operators.forgetting import TtlOperator
from headrace.core.operators.grouping import GroupingKey
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output, request_offload
from headrace.core.operators.place import KeyedContext
from headrace.core.operators.ranking import get_order_columns as in_place
from headrace.core.operators.waiting import WatermarkBuffer
from headrace.core.plan.nodes import Dedup
from headrace.core.state import KEY, KEY_INDEX
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

IS_NEW = "__new"
"""Whether a key was not in the state."""


class EventTimeDedupOperator(TtlOperator, ABC):
    """The base of both operators: rows are buffered until the watermark, late ones left out.

    `_select_rows` chooses the rows to emit.
    """

    def __init__(self, operation: Dedup, place: KeyedContext) -> None:
        super().__init__(operation.ttl, place)
        self._operation = operation
        self._context = place
        self._grouping = GroupingKey(operation.key)
        self._buffer = WatermarkBuffer(place.state, self._grouping)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer the rows for the watermark; late rows are left out."""
        frame = yield from self._context.drop_late_rows(frame, self._operation.late_to)
        if frame.height:
            yield from request_offload(self._buffer.deferred_rows)
            kept = [name for name in frame.columns if self._operation.stores_column(name)]
            self._buffer.add(self._drop_irrelevant(self._grouping.project_rows(frame, kept)))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the chosen rows among those that the watermark has passed."""
        if watermark_us <= self._state.clock_us:
            return
        rows = self._buffer.release_rows(watermark_us)
        if rows is not None and rows.height:
            yield from self._emit_rows(self._select_rows(rows))
        yield from super().advance(watermark_us)

    @property
    def pending_rows(self) -> int:
        """The number of buffered rows, and of keys that may expire."""
        return self._buffer.row_count + super().pending_rows

    def _drop_irrelevant(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that can affect the result."""
        return rows

    @abstractmethod
    def _select_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows to emit, of rows in row order."""

    def _emit_rows(self, rows: pl.DataFrame) -> Iterator[Output]:
        place = () if self._context.is_ordered else (ORDER,)
        out = rows.drop(KEY, *self._grouping.internal_names, *place, strict=False)
        for start in range(0, out.height, MAX_OUTPUT_ROWS):
            yield self._context.stream, out.slice(start, MAX_OUTPUT_ROWS)


class FirstByTimeOperator(EventTimeDedupOperator):
    """The operator of `keep: first`."""

    def __init__(self, operation: Dedup, place: KeyedContext) -> None:
        super().__init__(operation, place)
        self._after_us = operation.ttl.after_us if operation.ttl else 0
        self.open_table({NEWEST_TIME: to_polars(TIMESTAMP)} if self.has_ttl else {})

    def _drop_irrelevant(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Without a TTL, return only the first row of each key."""
        if self.has_ttl or not rows.height:
            return rows
        key = self._grouping.internal_names
        ordered = rows.sort(in_place())
        return ordered.unique(key, keep="first", maintain_order=True) if key else ordered.head(1)

    def _select_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = self._grouping.encode_keys(rows)
        return self._renew_keys(rows) if self.has_ttl else self._add_keys(rows)

    def _add_keys(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Store the new keys, and return the first row of each."""
        return rows[self.get_live_table().add(rows[[KEY]])]

    def _renew_keys(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows without an earlier row of their key within the TTL.

        Each row renews its key.
        """
        import polars as pl

        keys = rows[KEY].unique(maintain_order=True)
        found = self.get_live_table().find(keys)
        # A key that was stored when the step had no ttl has no time, but is known.
        known = pl.DataFrame({KEY: keys[found[KEY_INDEX]], NEWEST_TIME: found[NEWEST_TIME]})
        known = known.with_columns(pl.lit(False).alias(IS_NEW))
        rows = rows.join(known, on=KEY, how="left", maintain_order="left")
        before = pl.col(EVENT_TIME).shift(1).over(KEY).fill_null(pl.col(NEWEST_TIME))
        since_us = (pl.col(EVENT_TIME) - before).dt.total_microseconds()
        renewed = rows.group_by(KEY, maintain_order=True).agg(
            pl.col(EVENT_TIME).max().alias(NEWEST_TIME)
        )
        self.put(renewed, renewed[NEWEST_TIME])
        is_new = (since_us > self._after_us).fill_null(pl.col(IS_NEW).fill_null(True))
        return rows.filter(is_new).drop(NEWEST_TIME, IS_NEW)


class LastByTimeOperator(EventTimeDedupOperator):
    """The operator of `keep: last`: rows that are released later are always newer."""

    def _select_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        key = self._grouping.internal_names
        last = rows.unique(key, keep="last", maintain_order=True) if key else rows.tail(1)
        return add_columns(last, pl.lit(False).alias(DELETE))
