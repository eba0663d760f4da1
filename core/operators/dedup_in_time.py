"""`dedup` with `order: event_time`: which row of a key is first, or last, is settled by time.

Rows wait until the watermark has passed them, and are then looked at in the order of their places.
So the answer does not depend on how they came; rows that come behind the watermark are late.

With `ttl` a row is the first of its key if none came before it within that time. That is settled
by the times of the rows themselves: when a key is really forgotten only gives memory back.
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
"""Whether a key was not known."""


class InTime(Forgetting, ABC):
    """What waits, and who is late; what becomes of rows whose time has come is `_chosen`."""

    def __init__(self, operation: Dedup, place: Place) -> None:
        super().__init__(operation.ttl, place)
        self._operation = operation
        self._place = place
        self._grouping = Grouping(operation.key)
        self._waiting = Waiting(place.state, self._grouping)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Rows wait for their time; those for which it is over are late."""
        frame = yield from self._place.in_time(frame, self._operation.late_to)
        if frame.height:
            yield from aside(self._waiting.owed)
            kept = [name for name in frame.columns if self._operation.keeps(name)]
            self._waiting.add(self._worthy(self._grouping.rows(frame, kept)))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Rows whose time has come, in their order."""
        if watermark_us <= self._state.clock_us:
            return
        rows = self._waiting.passed(watermark_us)
        if rows is not None and rows.height:
            yield from self._put_out(self._chosen(rows))
        yield from super().advance(watermark_us)

    @property
    def held(self) -> int:
        """The rows that wait, and the keys that may be forgotten."""
        return self._waiting.rows + super().held

    def _worthy(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows that may matter when their time has come."""
        return rows

    @abstractmethod
    def _chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Those of the rows, in their order, that go out."""

    def _put_out(self, rows: pl.DataFrame) -> Iterator[Output]:
        place = () if self._place.ordered else (ORDER,)
        out = rows.drop(KEY, *self._grouping.inside, *place, strict=False)
        for start in range(0, out.height, MOST_ROWS):
            yield self._place.stream, out.slice(start, MOST_ROWS)


class FirstInTime(InTime):
    """The operator of `keep: first`."""

    def __init__(self, operation: Dedup, place: Place) -> None:
        super().__init__(operation, place)
        self._after_us = operation.ttl.after_us if operation.ttl else 0
        self.open({LAST: to_polars(TIMESTAMP)} if self.forgets else {})

    def _worthy(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Without ttl: the first row of each key here."""
        if self.forgets or not rows.height:
            return rows
        key = self._grouping.inside
        ordered = rows.sort(in_place())
        return ordered.unique(key, keep="first", maintain_order=True) if key else ordered.head(1)

    def _chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = self._grouping.encoded(rows)
        return self._renewing(rows) if self.forgets else self._new(rows)

    def _new(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The first row of each key that is not known; it is from now on."""
        return rows[self.table().add(rows[[KEY]])]

    def _renewing(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows before which their key had none for the time to live; each renews its key."""
        import polars as pl

        keys = rows[KEY].unique(maintain_order=True)
        found = self.table().find(keys)
        # A key that was remembered without ttl has no time, and yet it is known.
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
    """The operator of `keep: last`: what comes of a key is always later than what came before."""

    def _chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        key = self._grouping.inside
        last = rows.unique(key, keep="last", maintain_order=True) if key else rows.tail(1)
        return added(last, pl.lit(False).alias(DELETE))
