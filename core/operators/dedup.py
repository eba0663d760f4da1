"""The operators of `dedup`: one row per key, in arrival order or in event-time order.

In arrival order, `keep: first` emits the first row of a key and stores the key. `keep: last` emits
the last row of each key in a batch as an upsert, and needs no state.

With `order: event_time`, event time decides which row of a key is first or last. Rows are buffered
until the watermark has passed them, and are then processed in row order, so the result does not
depend on the order of their arrival. Rows older than the watermark are late.

With `ttl` and `keep: first`, a row is the first of its key if no row of the key came within that
time before it. By event time the times of the rows decide, so their batches do not; when a key is
removed from the state affects memory, and in arrival order rows older than the watermark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.api.state import (
    KEY,
    KEY_INDEX,
    SLOT,
    KeyedTable,
    RunsLayout,
    SortedRuns,
    StepState,
)
from headrace.core.operators.folds import get_order_columns
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import (
    MAX_OUTPUT_ROWS,
    Output,
    StatelessOperator,
    request_offload,
)
from headrace.core.operators.ttl_operator import TtlOperator
from headrace.core.plan.nodes import Dedup
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, ORDER
from headrace.core.types.frames import add_columns, gather_rows, select_columns

if TYPE_CHECKING:
    import polars as pl


ROW_NUMBER = "__row"


SAMPLE_ROWS = 1024
"""The number of rows sampled to see how often keys repeat."""


NEWEST_TIME = "__last"
"""The greatest event time of a key."""


class FirstRowOperator(TtlOperator):
    """The operator of `dedup` with `keep: first` in arrival order."""

    def __init__(self, operation: Dedup, context: KeyedContext) -> None:
        super().__init__(operation.ttl, context)
        self._grouping = GroupingKey(operation.key)
        self._stream = context.stream
        self._ttl_us = (
            operation.ttl.after_us
            if operation.ttl and not operation.ttl.uses_processing_time
            else None
        )
        self.open_table({NEWEST_TIME: to_polars(TIMESTAMP)} if self.has_ttl else {})

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows whose keys are new."""
        yield from self.announce_work()
        if self._ttl_us is not None and EVENT_TIME in frame.columns:
            rows = self._grouping.encode_keys(self._grouping.project_rows(frame, ()))
            is_new, renewed = find_first_rows(rows, self.get_live_table(), self._ttl_us)
            self.put(renewed, renewed[NEWEST_TIME])
            new = is_new.arg_true()
        else:
            new = self._renew_keys(frame) if self.has_ttl else self._add_keys(frame)
        if len(new):
            yield self._stream, frame if len(new) == frame.height else gather_rows(frame, new)

    def _add_keys(self, frame: pl.DataFrame) -> pl.Series:
        """Store the new keys, and return the numbers of their rows."""
        key = list(self._grouping.internal_names)
        rows = self._grouping.project_rows(frame, ())
        if key and (
            rows.height <= SAMPLE_ROWS or rows[:SAMPLE_ROWS].n_unique(key) >= SAMPLE_ROWS // 2
        ):
            return self.get_live_table().add(self._grouping.encode_keys(rows)[[KEY]])
        # Where keys repeat, each is looked up once.
        heads = self._find_first_rows(frame)
        return heads[ROW_NUMBER][
            self.get_live_table().add(self._grouping.encode_keys(heads)[[KEY]])
        ]

    def _renew_keys(self, frame: pl.DataFrame) -> pl.Series:
        """Return the numbers of the first rows of new keys, and renew the TTL of all keys."""
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
    """The operator of `dedup` with `keep: last` in arrival order."""

    def __init__(self, operation: Dedup, context: KeyedContext) -> None:
        self._grouping = GroupingKey(operation.key)
        self._stream = context.stream

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the last row of each key."""
        import polars as pl

        last = frame.tail(1)
        if key := self._grouping.internal_names:
            rows = self._grouping.project_rows(frame, ()).with_row_index(ROW_NUMBER)
            last = frame[rows.unique(key, keep="last", maintain_order=True)[ROW_NUMBER]]
        if DELETE not in last.columns:
            last = last.with_columns(pl.lit(False).alias(DELETE))
        yield self._stream, last


BUFFER_STATE = "waiting"
"""The name of the state with the buffered rows."""


class WatermarkBuffer:
    """Rows buffered until the watermark has passed them, and then released in row order.

    Rows have their key columns and their position in the row order. They are stored under their
    event times as slots, and never merged.
    """

    def __init__(self, state: StepState, grouping: GroupingKey) -> None:
        self._state = state
        self._grouping = grouping
        self._runs: SortedRuns | None = None
        self._columns: tuple[str, ...] = ()
        columns = state.get_restored_columns(BUFFER_STATE)
        if columns is not None:
            self._open(
                {n: t for n, t in columns.items() if n not in (SLOT, *grouping.internal_names)}
            )

    @property
    def row_count(self) -> int:
        """The number of buffered rows."""
        return 0 if self._runs is None else self._runs.rows

    @property
    def deferred_rows(self) -> int:
        """The number of stored rows that the next `add` has to process."""
        return 0 if self._runs is None else self._runs.estimate_deferred_rows(for_lookup=False)

    def add(self, rows: pl.DataFrame) -> None:
        """Buffer rows, which have the key's internal columns in addition to their own."""
        import polars as pl

        if self._runs is None:
            inside = self._grouping.internal_names
            self._open({n: t for n, t in rows.schema.items() if n not in inside})
        assert self._runs is not None, "the runs are open"
        slotted = add_columns(rows, pl.col(EVENT_TIME).cast(pl.Int64).alias(SLOT))
        self._runs.add(
            select_columns(slotted, *self._grouping.internal_names, *self._columns, SLOT)
        )

    def release_rows(self, watermark_us: int) -> pl.DataFrame | None:
        """Remove and return the rows that the watermark has passed, in row order."""
        if self._runs is None:
            return None
        first = self._runs.get_first_slot()
        if first is None or first >= watermark_us:
            return None
        rows = self._runs.take(watermark_us - 1)
        return None if rows is None else rows.drop(SLOT).sort(get_order_columns())

    def _open(self, types: Mapping[str, pl.DataType]) -> None:
        self._columns = tuple(types)
        inside = self._grouping.internal_names
        layout = RunsLayout({**self._grouping.types, **types}, inside, lambda frame: frame)
        self._runs = self._state.open_runs(BUFFER_STATE, layout)


IS_NEW = "__new"
"""Whether a row's key was not in the state."""


class EventTimeDedupOperator(TtlOperator, ABC):
    """Base of the operators with `order: event_time`: rows are buffered until the watermark.

    Late rows are dropped, or emitted to `late_to`. `_select_rows` chooses the rows to emit.
    """

    def __init__(self, operation: Dedup, context: KeyedContext) -> None:
        super().__init__(operation.ttl, context)
        self._operation = operation
        self._context = context
        self._grouping = GroupingKey(operation.key)
        self._buffer = WatermarkBuffer(context.state, self._grouping)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer the rows that are not late."""
        frame = yield from self._context.drop_late_rows(frame, self._operation.late_to)
        if frame.height:
            yield from request_offload(self._buffer.deferred_rows)
            columns = [name for name in frame.columns if self._operation.stores_column(name)]
            self._buffer.add(self._drop_irrelevant(self._grouping.project_rows(frame, columns)))

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
        """Return the rows to emit among released rows, which are in row order."""

    def _emit_rows(self, rows: pl.DataFrame) -> Iterator[Output]:
        place = () if self._context.is_ordered else (ORDER,)
        out = rows.drop(KEY, *self._grouping.internal_names, *place, strict=False)
        for start in range(0, out.height, MAX_OUTPUT_ROWS):
            yield self._context.stream, out.slice(start, MAX_OUTPUT_ROWS)


class FirstByTimeOperator(EventTimeDedupOperator):
    """The operator of `keep: first`."""

    def __init__(self, operation: Dedup, context: KeyedContext) -> None:
        super().__init__(operation, context)
        self._after_us = operation.ttl.after_us if operation.ttl else 0
        self.open_table({NEWEST_TIME: to_polars(TIMESTAMP)} if self.has_ttl else {})

    def _drop_irrelevant(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Without a TTL, return only the first row of each key."""
        if self.has_ttl or not rows.height:
            return rows
        key = self._grouping.internal_names
        ordered = rows.sort(get_order_columns())
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
        is_new, renewed = find_first_rows(rows, self.get_live_table(), self._after_us)
        self.put(renewed, renewed[NEWEST_TIME])
        return rows.filter(is_new)


class LastByTimeOperator(EventTimeDedupOperator):
    """The operator of `keep: last`: rows that are released later are always newer."""

    def _select_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        key = self._grouping.internal_names
        last = rows.unique(key, keep="last", maintain_order=True) if key else rows.tail(1)
        return add_columns(last, pl.lit(False).alias(DELETE))


def find_first_rows(
    rows: pl.DataFrame, table: KeyedTable, ttl_us: int
) -> tuple[pl.Series, pl.DataFrame]:
    """Return whether each row, in its order, is more than the TTL after all rows of its key before
    it, and the greatest time of each key."""
    import polars as pl

    keys = rows[KEY].unique(maintain_order=True)
    found = table.find(keys)
    # A key that was stored when the step had no ttl has no time, but is known.
    known = pl.DataFrame({KEY: keys[found[KEY_INDEX]], NEWEST_TIME: found[NEWEST_TIME]})
    known = known.with_columns(pl.lit(False).alias(IS_NEW))
    rows = rows.select(KEY, EVENT_TIME).join(known, on=KEY, how="left", maintain_order="left")
    earlier = pl.col(EVENT_TIME).cum_max().shift(1).over(KEY)
    since_us = pl.col(EVENT_TIME) - pl.max_horizontal(earlier, NEWEST_TIME)
    is_known = earlier.is_not_null() | pl.col(IS_NEW).is_not_null()
    is_new = (since_us.dt.total_microseconds() > ttl_us).fill_null(~is_known)
    newest = pl.max_horizontal(pl.col(EVENT_TIME).max(), pl.col(NEWEST_TIME).first())
    renewed = rows.group_by(KEY, maintain_order=True).agg(newest.alias(NEWEST_TIME))
    return rows.select(is_new.alias(IS_NEW)).to_series(), renewed
