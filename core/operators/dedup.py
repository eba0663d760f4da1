"""`dedup`: one row per key, in arrival order.

With `keep: first` the first row of a key is emitted, and the key is stored. With `keep: last` each
row replaces the one before: the last row of each key in a batch is emitted, without state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME
from headrace.core.operators.forgetting import Forgetting
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Output, Stateless
from headrace.core.operators.place import Place
from headrace.core.plan.nodes import Dedup
from headrace.core.state import ASKED, KEY
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

ROW = "__row"
SAMPLE = 1024
"""The number of rows sampled to see how often keys repeat."""
LAST = "__last"
"""The greatest event time of a key."""


class First(Forgetting):
    """The operator of `dedup` with `keep: first`."""

    def __init__(self, operation: Dedup, place: Place) -> None:
        super().__init__(operation.ttl, place)
        self._grouping = Grouping(operation.key)
        self._stream = place.stream
        self.open({LAST: to_polars(TIMESTAMP)} if self.forgets else {})

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows whose keys are new."""
        yield from self.ahead()
        new = self._renewing(frame) if self.forgets else self._added(frame)
        if len(new):
            yield self._stream, frame[new]

    def _added(self, frame: pl.DataFrame) -> pl.Series:
        """Store the new keys, and return the numbers of their rows."""
        key = list(self._grouping.inside)
        rows = self._grouping.rows(frame, ())
        if key and (rows.height <= SAMPLE or rows[:SAMPLE].n_unique(key) >= SAMPLE // 2):
            return self.table().add(self._grouping.encoded(rows).select(KEY))
        # Where keys repeat, each is looked up once.
        heads = self._heads(frame)
        return heads[ROW][self.table().add(self._grouping.encoded(heads).select(KEY))]

    def _renewing(self, frame: pl.DataFrame) -> pl.Series:
        """Return the numbers of the rows with new keys; with a TTL, each row renews its key."""
        heads = self._grouping.encoded(self._heads(frame)).with_row_index(ASKED)
        found = self.table().find(heads[KEY])
        new = heads.filter(~heads[ASKED].is_in(found[ASKED].implode())) if found.height else heads
        renewed = self._renewed(heads, found)
        self.put(renewed, renewed[LAST])
        return new[ROW]

    def _heads(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return each key of the batch, with its first row number and greatest event time."""
        import polars as pl

        rows = self._grouping.rows(frame, ()).with_row_index(ROW)
        key = self._grouping.inside
        if key and not self.forgets:
            return rows.unique(key, keep="first", maintain_order=True)
        timed = EVENT_TIME in frame.columns
        last = pl.col(EVENT_TIME).max() if timed else pl.lit(None, dtype=to_polars(TIMESTAMP))
        both = (pl.col(ROW).first(), last.alias(LAST))
        return rows.group_by(key, maintain_order=True).agg(both) if key else rows.select(both)

    def _renewed(self, heads: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Return the keys, each with the greatest event time of new and stored rows."""
        import polars as pl

        before = found.select(ASKED, pl.col(LAST).alias("__before"))
        joined = heads.join(before, on=ASKED, how="left", maintain_order="left")
        return joined.select(KEY, pl.max_horizontal(LAST, "__before").alias(LAST))


class Last(Stateless):
    """The operator of `dedup` with `keep: last`."""

    def __init__(self, operation: Dedup, place: Place) -> None:
        self._grouping = Grouping(operation.key)
        self._stream = place.stream

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the last row of each key."""
        import polars as pl

        last = frame.tail(1)
        if key := self._grouping.inside:
            rows = self._grouping.rows(frame, ()).with_row_index(ROW)
            last = frame[rows.unique(key, keep="last", maintain_order=True)[ROW]]
        yield self._stream, last.with_columns(pl.lit(False).alias(DELETE))
