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
from headrace.core.frames import added
from headrace.core.operators.dedup import LAST
from headrace.core.operators.forgetting import Forgetting
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import MOST_ROWS, Output, aside
from headrace.core.operators.place import Place
from headrace.core.operators.ranking import place as in_place
from headrace.core.operators.waiting import Waiting
from headrace.core.plan.nodes import Dedup
from headrace.core.state import ASKED, KEY
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

NEW = "__new"
"""Whether a key was not in the state."""


class InTime(Forgetting, ABC):
    """The base of both operators: rows are buffered until the watermark, late ones left out.

    `_select_rows` chooses the rows to emit.
    """

    def __init__(self, operation: Dedup, place: Place) -> None:
        super().__init__(operation.ttl, place)
        self._operation = operation
        self._context = place
        self._grouping = Grouping(operation.key)
        self._buffer = Waiting(place.state, self._grouping)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer the rows for the watermark; late rows are left out."""
        frame = yield from self._context.in_time(frame, self._operation.late_to)
        if frame.height:
            yield from aside(self._buffer.owed)
            kept = [name for name in frame.columns if self._operation.keeps(name)]
            self._buffer.add(self._worthy(self._grouping.rows(frame, kept)))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the chosen rows among those that the watermark has passed."""
        if watermark_us <= self._state.clock_us:
            return
        rows = self._buffer.passed(watermark_us)
        if rows is not None and rows.height:
            yield from self._put_out(self._chosen(rows))
        yield from super().advance(watermark_us)

    @property
    def held(self) -> int:
        """The number of buffered rows, and of keys that may expire."""
        return self._buffer.rows + super().held

    def _worthy(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that can affect the result."""
        return rows

    @abstractmethod
    def _chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows to emit, of rows in row order."""

    def _put_out(self, rows: pl.DataFrame) -> Iterator[Output]:
        place = () if self._context.ordered else (ORDER,)
        out = rows.drop(KEY, *self._grouping.inside, *place, strict=False)
        for start in range(0, out.height, MOST_ROWS):
            yield self._context.stream, out.slice(start, MOST_ROWS)


class FirstInTime(InTime):
    """The operator of `keep: first`."""

    def __init__(self, operation: Dedup, place: Place) -> None:
        super().__init__(operation, place)
        self._after_us = operation.ttl.after_us if operation.ttl else 0
        self.open({LAST: to_polars(TIMESTAMP)} if self.forgets else {})

    def _worthy(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Without a TTL, return only the first row of each key."""
        if self.forgets or not rows.height:
            return rows
        key = self._grouping.inside
        ordered = rows.sort(in_place())
        return ordered.unique(key, keep="first", maintain_order=True) if key else ordered.head(1)

    def _chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = self._grouping.encoded(rows)
        return self._renewing(rows) if self.forgets else self._new(rows)

    def _new(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Store the new keys, and return the first row of each."""
        return rows[self.table().add(rows[[KEY]])]

    def _renewing(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows without an earlier row of their key within the TTL.

        Each row renews its key.
        """
        import polars as pl

        keys = rows[KEY].unique(maintain_order=True)
        found = self.table().find(keys)
        # A key that was stored when the step had no ttl has no time, but is known.
        known = pl.DataFrame({KEY: keys[found[ASKED]], LAST: found[LAST]})
        known = known.with_columns(pl.lit(False).alias(NEW))
        rows = rows.join(known, on=KEY, how="left", maintain_order="left")
        before = pl.col(EVENT_TIME).shift(1).over(KEY).fill_null(pl.col(LAST))
        since_us = (pl.col(EVENT_TIME) - before).dt.total_microseconds()
        renewed = rows.group_by(KEY, maintain_order=True).agg(pl.col(EVENT_TIME).max().alias(LAST))
        self.put(renewed, renewed[LAST])
        is_new = (since_us > self._after_us).fill_null(pl.col(NEW).fill_null(True))
        return rows.filter(is_new).drop(LAST, NEW)


class LastInTime(InTime):
    """The operator of `keep: last`: rows that are released later are always newer."""

    def _chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        key = self._grouping.inside
        last = rows.unique(key, keep="last", maintain_order=True) if key else rows.tail(1)
        return added(last, pl.lit(False).alias(DELETE))
