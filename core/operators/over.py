"""The operator of `over`: columns from the rows of a key, in the order of event time.

Rows are buffered until the watermark has passed them. Then they follow the earlier rows of their
key in row order, and get their values once the rows are known that their frames need. Late rows are
dropped, or emitted to `late_to`.

The state of a key is one row of a table: the last rows, as far as frames reach back or a row still
waits for rows after it; and for what is before them the number of rows and of times, and the
partial states of aggregates whose frames are unbounded. Where rows wait for rows after them, times
are filed at which a key is looked at though it has no new rows.

With a `ttl`, a row more than that after the one before begins its key again, and is not waited for.
When a key is removed from the state affects memory only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.aggregates import compute_partial_states, merge_states
from headrace.core.aggregates.over_calls import (
    FrameCall,
    OffsetCall,
    RankCall,
    deduplicate_over_calls,
    find_computed_inputs,
    read_computed_inputs,
)
from headrace.core.api.state import KEY, KEY_INDEX, SLOT, RunsLayout, SortedRuns
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import Constant
from headrace.core.operators.dedup import NEWEST_TIME, WatermarkBuffer
from headrace.core.operators.folds import get_order_columns
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output, request_offload
from headrace.core.operators.over_state import (
    EARLIER_ROWS,
    EARLIER_TIMES,
    LAST_ROWS,
    WAITING_ROWS,
    choose_state_columns,
    list_row_columns,
    list_table_columns,
)
from headrace.core.operators.row_frames import (
    accumulate_ranges,
    can_accumulate,
    compute_row_states,
    merge_ranges,
)
from headrace.core.operators.row_sequences import (
    GROUP,
    IS_EMITTED,
    IS_STORED,
    LEAST_US,
    NUMBER,
    STATE,
    TARGET,
    TIME,
    TIME_NUMBER,
    KeyRows,
)
from headrace.core.operators.ttl_operator import TtlOperator
from headrace.core.plan.nodes import Over
from headrace.core.plan.over_reach import measure_reach
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER

if TYPE_CHECKING:
    import polars as pl

DUE_STATE = "due"
"""The name of the state with the times at which keys are looked at."""
END_SLOT = MAX_WATERMARK_US - 1
"""The slot of a key that waits for its next row for as long as it takes."""


class OverOperator(TtlOperator):
    """The operator of `over`."""

    def __init__(self, operation: Over, context: KeyedContext) -> None:
        super().__init__(operation.ttl, context)
        self._operation = operation
        self._context = context
        self._grouping = GroupingKey(operation.key)
        self._buffer = WatermarkBuffer(context.state, self._grouping)
        self._reach = measure_reach(operation)
        self.watermark_delay_us = self._reach.watermark_delay_us
        calls = deduplicate_over_calls(column.expression for column in operation.columns)
        self._calls = [read_computed_inputs(call) for call in calls]
        self._computed = [
            to_expr(typed).alias(n) for n, typed in find_computed_inputs(calls).items()
        ]
        self._finish = [
            to_expr(column.expression.finish).alias(column.name) for column in operation.columns
        ]
        self._stored_types = list_row_columns(operation)
        self._state_rows = choose_state_columns(operation)
        unbounded = [c for c in self._calls if isinstance(c, FrameCall) and c.frame.start is None]
        self._carried_calls = list({c.aggregate.name: c.aggregate for c in unbounded}.values())
        self._due: SortedRuns | None = None
        self._table_columns = list_table_columns(operation)
        self.open_table(self._table_columns)
        if self._reach.follows:
            inside = self._grouping.internal_names
            layout = RunsLayout(self._grouping.types, inside, lambda frame: frame.unique())
            self._due = context.state.open_runs(DUE_STATE, layout)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer the rows that are not late."""
        frame = yield from self._context.drop_late_rows(frame, self._operation.late_to)
        if frame.height:
            yield from request_offload(self._buffer.deferred_rows)
            names = [name for name in frame.columns if name in self._stored_types]
            self._buffer.add(self._grouping.project_columns(frame, names, *self._computed))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the rows whose values are known."""
        if watermark_us <= self._state.clock_us:
            return
        rows = self._buffer.release_rows(watermark_us)
        due = None if self._due is None else self._due.take(watermark_us)
        keys = [each for each in (rows, due) if each is not None and each.height]
        if keys:
            known = list(self._take_known_rows(rows, due, watermark_us))
            yield from self._emit_rows(known)
        yield from super().advance(watermark_us)

    @property
    def pending_rows(self) -> int:
        """The number of buffered rows, and of keys that may expire."""
        return self._buffer.row_count + super().pending_rows

    def _take_known_rows(
        self, rows: pl.DataFrame | None, due: pl.DataFrame | None, watermark_us: int
    ) -> Iterator[pl.DataFrame]:
        """Add new rows to their keys, and yield the rows whose values are now known, with them."""
        import polars as pl

        new = pl.DataFrame(schema={**self._grouping.types, **self._stored_types})
        if rows is not None:
            new = rows.select(new.columns)
        new = self._grouping.encode_keys(new)
        names = (*self._grouping.internal_names, KEY)
        heads = [new.select(names)]
        if due is not None:
            heads.append(self._grouping.encode_keys(due).select(names))
        keys = pl.concat(heads).unique(KEY, maintain_order=True)
        yield from self._take_of_keys(keys, new.select(KEY, *self._stored_types), watermark_us)

    def _take_of_keys(
        self, keys: pl.DataFrame, new: pl.DataFrame, watermark_us: int
    ) -> Iterator[pl.DataFrame]:
        found = self.get_live_table().find(keys[KEY])
        grouped = self._order_rows(keys, found, new)
        frames = [call.frame for call in self._calls if isinstance(call, FrameCall)]
        if grouped.sequences.needs_division(frames):
            half = keys.height // 2
            for part in (keys[:half], keys[half:]):
                mine = new.join(part, on=KEY, how="semi", maintain_order="left")
                yield from self._take_of_keys(part, mine, watermark_us)
            return
        is_known = grouped.find_known(self._reach, watermark_us)
        if is_known.any():
            yield self._compute_values(grouped, found, is_known)
        if grouped.rows.height:
            self._store_keys(grouped.find_last(is_known), keys, found, watermark_us)

    def _order_rows(self, keys: pl.DataFrame, found: pl.DataFrame, new: pl.DataFrame) -> KeyRows:
        """Return the stored and the new rows of keys, divided into sequences."""
        import polars as pl

        group = keys.select(KEY).with_row_index(GROUP)
        frames = [
            new.join(group, on=KEY, how="left", maintain_order="left")
            .drop(KEY)
            .with_columns(pl.lit(False).alias(IS_STORED), pl.lit(False).alias(IS_EMITTED))
        ]
        if self._state_rows and found.height:
            waiting = pl.col(WAITING_ROWS) if self._reach.follows else 0
            count = pl.col(LAST_ROWS).list.len().cast(pl.Int64)
            stored = found.filter(count > 0).select(
                pl.col(KEY_INDEX).cast(pl.UInt32).alias(GROUP),
                LAST_ROWS,
                pl.int_ranges(0, count).alias(IS_EMITTED),
                (count - waiting).alias("__done"),
            )
            old = stored.explode(LAST_ROWS, IS_EMITTED).unnest(LAST_ROWS)
            emitted = (pl.col(IS_EMITTED) < pl.col("__done")).alias(IS_EMITTED)
            old = old.with_columns(emitted, pl.lit(True).alias(IS_STORED)).drop("__done")
            frames.insert(0, old)
        rows = pl.concat(frames, how="diagonal").sort(GROUP, maintain_order=True)
        state = group.select(GROUP).join(
            found.with_row_index(STATE).select(
                pl.col(KEY_INDEX).cast(pl.UInt32).alias(GROUP),
                STATE,
                pl.col(NEWEST_TIME).cast(pl.Int64).alias("__last"),
            ),
            on=GROUP,
            how="left",
            maintain_order="left",
        )
        return KeyRows.build(rows, state, self._reach.ttl_us)

    def _compute_values(
        self, grouped: KeyRows, found: pl.DataFrame, is_known: pl.Series
    ) -> pl.DataFrame:
        """Return the known rows with their columns of this step."""
        import polars as pl

        targets = grouped.sequences.positions.filter(is_known)
        rows = grouped.rows.filter(is_known)
        values = list[pl.Series]()
        for call in self._calls:
            match call:
                case RankCall():
                    values.append(self._compute_rank(call, grouped, found, is_known))
                case OffsetCall():
                    values.append(_shift_values(call, grouped, rows, targets))
        framed = [call for call in self._calls if isinstance(call, FrameCall)]
        for frame in dict.fromkeys(call.frame for call in framed):
            calls = [call for call in framed if call.frame == frame]
            values += self._merge_frames(calls, grouped, found, targets)
        return rows.hstack(values).with_columns(self._finish)

    def _compute_rank(
        self, call: RankCall, grouped: KeyRows, found: pl.DataFrame, is_known: pl.Series
    ) -> pl.Series:
        import polars as pl

        starts = grouped.sequences.starts
        if call.function == "dense_rank":
            before, number = EARLIER_TIMES, grouped.time_numbers
        else:
            at = grouped.sequences.positions
            at = at if call.function == "row_number" else grouped.find_first_of_time()
            before, number = EARLIER_ROWS, at - starts + 1
        earlier = found[before].gather(grouped.states).fill_null(0)
        value = (number + earlier).filter(is_known)
        return pl.select(value.cast(pl.Int32, wrap_numerical=True).alias(call.name)).to_series()

    def _merge_frames(
        self,
        calls: list[FrameCall],
        grouped: KeyRows,
        found: pl.DataFrame,
        targets: pl.Series,
    ) -> Iterator[pl.Series]:
        """Yield the values of aggregates over the same frame."""
        import polars as pl

        frame, rows, sequences = calls[0].frame, grouped.rows, grouped.sequences
        bounds = sequences.find_bounds(frame, targets)
        state = pl.DataFrame([targets.alias(TARGET), grouped.states.gather(targets)]).drop_nulls()
        is_carried = frame.start is None and state.height > 0
        added = {c for c in calls if can_accumulate(c.aggregate, frame, rows.height)}
        for is_added in (True, False):
            mine = [call for call in calls if (call in added) == is_added]
            if not mine:
                continue
            aggregates = [call.aggregate for call in mine]
            states = compute_row_states(rows, aggregates)
            carried = None
            if is_carried:
                before = found.select(states.columns)[state[STATE]]
                carried = before.with_columns(state[TARGET])
            if is_added:
                merged = accumulate_ranges(states, bounds, frame, sequences.starts, carried)
            else:
                nothing = compute_partial_states(rows.clear(), (), aggregates)
                merged = merge_ranges(states, bounds, aggregates, nothing, carried)
            for call in mine:
                yield merged.select(call.aggregate.finish().alias(call.name)).to_series()

    def _store_keys(
        self, last: pl.DataFrame, keys: pl.DataFrame, found: pl.DataFrame, watermark_us: int
    ) -> None:
        """Store the state of the keys that have rows; `last` are those of their last sequences."""
        import polars as pl

        done = pl.col(IS_EMITTED)
        ends = last.group_by(GROUP, maintain_order=True).agg(
            pl.col(STATE).first(),
            pl.len().cast(pl.Int64).alias(_COUNT),
            pl.when(~done).then(1).sum().cast(pl.Int64).alias(WAITING_ROWS),
            pl.when(~done).then(pl.col(TIME)).min().alias(_FIRST_TIME),
            pl.col(TIME).last().alias(NEWEST_TIME),
            pl.col(TIME_NUMBER).last().alias(EARLIER_TIMES),
        )
        is_needed = self._find_needed(last, ends, watermark_us)
        needed, gone = last.filter(is_needed), last.filter(~is_needed)
        states = self._add_earlier(ends, needed, found)
        if self._carried_calls:
            states = self._carry_states(states, gone, found)
        if self._state_rows:
            of_key = needed.group_by(GROUP).agg(pl.struct(self._state_rows).alias(LAST_ROWS))
            states = states.join(of_key, on=GROUP, how="left", maintain_order="left")
            states = states.with_columns(pl.col(LAST_ROWS).fill_null([]))
        states = states.with_columns(
            keys[KEY].gather(states[GROUP]).alias(KEY),
            pl.col(NEWEST_TIME).cast(to_polars(TIMESTAMP)),
        )
        self.put(states.select(KEY, *self._table_columns), states[NEWEST_TIME])
        if self._due is not None:
            self._add_due(self._due, states, keys, found, watermark_us)

    def _find_needed(self, last: pl.DataFrame, ends: pl.DataFrame, watermark_us: int) -> pl.Series:
        """Return whether frames of later or waiting rows may look at each row."""
        import polars as pl

        if not self._state_rows:
            return pl.repeat(False, last.height, dtype=pl.Boolean, eager=True)
        reach = self._reach
        looks_from = pl.col(_FIRST_TIME).fill_null(max(watermark_us, LEAST_US)) - reach.us_before
        of_key = ends.select(
            pl.col(GROUP),
            (pl.col(_COUNT) - pl.col(WAITING_ROWS) - reach.rows_before).alias("__from"),
            looks_from.alias("__since"),
        )
        rows = last.select(GROUP, TIME, NUMBER).join(
            of_key, on=GROUP, how="left", maintain_order="left"
        )
        return rows.select(
            (pl.col(NUMBER) > pl.col("__from")) | (pl.col(TIME) >= pl.col("__since"))
        ).to_series()

    def _add_earlier(
        self, ends: pl.DataFrame, needed: pl.DataFrame, found: pl.DataFrame
    ) -> pl.DataFrame:
        """Return the ends of keys with the numbers of the rows and times before the needed rows."""
        import polars as pl

        first = needed.group_by(GROUP).agg(
            (pl.col(NUMBER).first() - 1).alias(EARLIER_ROWS),
            (pl.col(TIME_NUMBER).first() - 1).alias("__needed_times"),
        )
        joined = ends.join(first, on=GROUP, how="left", maintain_order="left").with_columns(
            pl.col(EARLIER_ROWS).fill_null(pl.col(_COUNT)),
            pl.coalesce("__needed_times", EARLIER_TIMES).alias(EARLIER_TIMES),
        )
        names = [name for name in (EARLIER_ROWS, EARLIER_TIMES) if name in found.columns]
        return joined.with_columns(
            pl.col(name) + found[name].gather(joined[STATE]).fill_null(0) for name in names
        )

    def _carry_states(
        self, ends: pl.DataFrame, gone: pl.DataFrame, found: pl.DataFrame
    ) -> pl.DataFrame:
        """Add the states of all rows before those that are stored."""
        import polars as pl

        calls = self._carried_calls
        states = compute_partial_states(gone, (GROUP,), calls)
        names = states.columns
        before = ends.select(GROUP, STATE).drop_nulls()
        parts = [states]
        if before.height:
            parts.append(found[before[STATE]].with_columns(before[GROUP]).select(names))
        none = ends.select(GROUP).join(
            pl.concat(p.select(GROUP) for p in parts), on=GROUP, how="anti"
        )
        if none.height:
            nothing = compute_partial_states(gone.clear(), (), calls)
            parts.append(nothing[[0] * none.height].with_columns(none[GROUP]).select(names))
        if len(parts) > 1:
            states = merge_states(pl.concat(parts), (GROUP,), calls)
        return ends.join(states, on=GROUP, how="left", maintain_order="left")

    def _add_due(
        self,
        due: SortedRuns,
        states: pl.DataFrame,
        keys: pl.DataFrame,
        found: pl.DataFrame,
        watermark_us: int,
    ) -> None:
        """File when to look at the keys with waiting rows if they have no new rows."""
        import polars as pl

        reach, inside = self._reach, list(self._grouping.internal_names)
        waiting = states.filter(pl.col(WAITING_ROWS) > 0)
        slots = []
        if reach.us_after:
            slots.append(waiting.select(GROUP, pl.col(_FIRST_TIME) + (reach.us_after + 1)))
        if reach.rows_after and reach.ttl_us is not None:
            newest = pl.col(NEWEST_TIME).cast(pl.Int64)
            slots.append(waiting.select(GROUP, newest + (reach.ttl_us + 1)))
        elif reach.rows_after:
            # A key that had waiting rows before is filed.
            was = found[WAITING_ROWS].gather(waiting[STATE]).fill_null(0)
            filed = waiting.filter(was == 0)
            slots.append(filed.select(GROUP, pl.lit(END_SLOT, dtype=pl.Int64)))
        for each in slots:
            each.columns = [GROUP, SLOT]
            later = each.filter(pl.col(SLOT) > watermark_us)
            due.add(keys[later[GROUP]].with_columns(later[SLOT]).select(*inside, SLOT))

    def _emit_rows(self, known: list[pl.DataFrame]) -> Iterator[Output]:
        import polars as pl

        if not known:
            return
        rows = pl.concat(known)
        hidden = (EVENT_TIME, ORDER) if self._context.is_ordered else (EVENT_TIME,)
        own = [f.name for f in self._operation.row if f.name in self._stored_types]
        added = [column.name for column in self._operation.columns]
        out = rows.sort(get_order_columns()).select(*own, *added, *hidden)
        for start in range(0, out.height, MAX_OUTPUT_ROWS):
            yield self._context.stream, out.slice(start, MAX_OUTPUT_ROWS)


_COUNT = "__count"
"""The number of rows of the last sequence of a key, stored and new."""
_FIRST_TIME = "__first_time"
"""The time of the first row of a key that waits for rows after it."""


def _shift_values(
    call: OffsetCall, grouped: KeyRows, rows: pl.DataFrame, targets: pl.Series
) -> pl.Series:
    """Return the values some rows before or after the target rows."""
    import polars as pl

    at = targets + call.offset
    sequences = grouped.sequences
    inside = (at >= sequences.starts.gather(targets)) & (at < sequences.ends.gather(targets))
    values = grouped.rows[call.value.name].gather(at.clip(0, max(grouped.rows.height - 1, 0)))
    default: pl.Expr | None = None
    if call.default is not None:
        typed = call.default.typed
        default = to_expr(typed) if isinstance(typed, Constant) else pl.col(call.default.name)
    chosen = pl.when(inside).then(values).otherwise(default)
    return rows.select(chosen.alias(call.name)).to_series()
