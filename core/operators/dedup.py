"""`dedup`: one row per key, in arrival order.

With `keep: first` the first row of a key is emitted, and the key is stored. With `keep: last` each
row replaces the one before: the last row of each key in a batch is emitted, without state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME
from headrace.core.operators.forgetting import TtlOperator
from headrace.core.operators.grouping import GroupingKey
from headrace.core.operators.operator import Output, StatelessOperator
from headrace.core.operators.place import KeyedContext
from headrace.core.plan.nodes import Dedup
from headrace.core.state import KEY, KEY_INDEX
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

ROW_NUMBER = "__row"
SAMPLE_ROWS = 1024
"""The number of rows sampled to see how often keys repeat."""
NEWEST_TIME = "__last"
"""The greatest event time of a key."""


class FirstRowOperator(TtlOperator):
    """The operator of `dedup` with `keep: first`."""

    def __init__(self, operation: Dedup, place: KeyedContext) -> None:
        super().__init__(operation.ttl, place)
        self._grouping = GroupingKey(operation.key)
        self._stream = place.stream
        self.open_table({NEWEST_TIME: to_polars(TIMESTAMP)} if self.has_ttl else {})

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows whose keys are new."""
        yield from self.announce_work()
        new = self._renew_keys(frame) if self.has_ttl else self._add_keys(frame)
        if len(new):
            yield self._stream, frame[new]

    def _add_keys(self, frame: pl.DataFrame) -> pl.Series:
        """Store the new keys, and return the numbers of their rows."""
        key = list(self._grouping.internal_names)
        rows = self._grouping.project_rows(frame, ())
        if key and (
            rows.height <= SAMPLE_ROWS or rows[:SAMPLE_ROWS].n_unique(key) >= SAMPLE_ROWS // 2
        ):
            return self.get_live_table().add(self._grouping.encode_keys(rows).select(KEY))
        # Where keys repeat, each is looked up once.
        heads = self._find_first_rows(frame)
        return heads[ROW_NUMBER][
            self.get_live_table().add(self._grouping.encode_keys(heads).select(KEY))
        ]

    def _renew_keys(self, frame: pl.DataFrame) -> pl.Series:
        """Return the numbers of the rows with new keys; with a TTL, each row renews its key."""
        heads = self._grouping.encode_keys(self._find_first_rows(frame)).with_row_index(KEY_INDEX)
        found = self.get_live_table().find(heads[KEY])
        new = (
            heads.filter(~heads[KEY_INDEX].is_in(found[KEY_INDEX].implode()))
            if found.height
            else heads
        )
        renewed = self._merge_times(heads, found)
        self.put(renewed, renewed[NEWEST_TIME])
        return new[ROW_NUMBER]

    def _find_first_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return each key of the batch, with its first row number and greatest event time."""
        import polars as pl

        rows = self._grouping.project_rows(frame, ()).with_row_index(ROW_NUMBER)
        key = self._grouping.internal_names
        if key and not self.has_ttl:
            return rows.unique(key, keep="first", maintain_order=True)
        timed = EVENT_TIME in frame.columns
        last = pl.col(EVENT_TIME).max() if timed else pl.lit(None, dtype=to_polars(TIMESTAMP))
        both = (pl.col(ROW_NUMBER).first(), last.alias(NEWEST_TIME))
        return rows.group_by(key, maintain_order=True).agg(both) if key else rows.select(both)

    def _merge_times(self, heads: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Return the keys, each with the greatest event time of new and stored rows."""
        import polars as pl

        before = found.select(KEY_INDEX, pl.col(NEWEST_TIME).alias("__before"))
        joined = heads.join(before, on=KEY_INDEX, how="left", maintain_order="left")
        return joined.select(KEY, pl.max_horizontal(NEWEST_TIME, "__before").alias(NEWEST_TIME))


class LastRowOperator(StatelessOperator):
    """The operator of `dedup` with `keep: last`."""

    def __init__(self, operation: Dedup, place: KeyedContext) -> None:
        self._grouping = GroupingKey(operation.key)
        self._stream = place.stream

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the last row of each key."""
        import polars as pl

        last = frame.tail(1)
        if key := self._grouping.internal_names:
            rows = self._grouping.project_rows(frame, ()).with_row_index(ROW_NUMBER)
            last = frame[rows.unique(key, keep="last", maintain_order=True)[ROW_NUMBER]]
        yield self._stream, last.with_columns(pl.lit(False).alias(DELETE))
