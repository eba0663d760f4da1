"""The operator at the head of a loop over a table: it holds the table of the round and of the next.

The rows that come back are the changes of the next table: rows added and removed, by their weights.
At the end of a round the head sends the difference of the two into the loop, so the steps inside
process only what has changed. If they compute whole tables (`plan/round_tables`), it sends each
table as a whole instead, the rows that come back are the next table, and round 1 begins when all
inputs have ended.

In a delta iteration the table is the solution: the rows of a round replace rows by their key, and
those that change it are the next work set. The head then sends the differences of both, or those of
the solution and the whole work set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from headrace.core.api.failures import ConnectorError
from headrace.core.api.state import Redistribution
from headrace.core.api.user_metrics import (
    ROUND_ROWS_CHANGED,
    ROUND_SECONDS,
    ROUNDS,
    ROWS_CHANGED,
    RoundFigures,
)
from headrace.core.operators.changelog.weighted_rows import get_weights, merge_rows, repeat_rows
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator
from headrace.core.operators.round_budget import make_size_error
from headrace.core.plan import nodes
from headrace.core.plan.states import NEXT_TABLE_STATE, ROUND_STATE, TABLE_STATE, WORKSET_STATE
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import WEIGHT
from headrace.core.types.frames import concat_chunks, hash_rows, pick_columns, rechunk
from headrace.core.types.row_order import add_row_order

if TYPE_CHECKING:
    import polars as pl


class TableRoundsHead(StatelessOperator):
    """The operator of `iterate` with `bulk`."""

    table_names: ClassVar[tuple[str, ...]] = (TABLE_STATE, NEXT_TABLE_STATE)
    """The names of the states with the tables that the head holds."""

    def __init__(self, step: nodes.Step, loop: nodes.Loop, context: KeyedContext) -> None:
        assert loop.table is not None
        self._name, self._inside = step.name, loop.list_inner_streams(step.name)
        self._input = step.inputs[0]
        self._loop, self._table = loop, loop.table
        self.sends_tables = loop.table.sends_tables
        schema = step.outputs[0].schema
        self._is_ordered = any(stream.has_row_order for stream in step.outputs)
        self._columns = schema.names
        self._types = {column.name: to_polars(column.type) for column in schema}
        self._now_us: Callable[[], int] = context.now_us
        self._entries = {
            name: context.state.open_entries(name, Redistribution.LIST)
            for name in (*self.table_names, ROUND_STATE)
        }
        self._metrics = context.state.counters.metrics
        for counter in (ROUNDS, ROWS_CHANGED):
            self._metrics.counters.setdefault(counter, 0)
        restored = {name: self._entries[name].rows for name in self.table_names}
        self._tables = {n: [] if rows is None else [rows] for n, rows in restored.items()}
        """The rows of each table, in parts that are yet to be merged."""
        self._bytes = self._measure_tables()
        """About the size of the parts in memory."""
        self._round_began_us = self._now_us()
        progress = self._entries[ROUND_STATE].rows
        first = 0 if self.sends_tables else 1
        self.round = first if progress is None else int(progress["round"][0])
        """The round that goes on, from 1. Of whole tables: the last one that has begun."""
        self.is_done = progress is not None and bool(progress["is_done"][0])
        """Whether the table of the last round was emitted."""
        self._has_no_progress = context.is_restored and progress is None
        """Whether the head had ended before, or begins without its state."""

    @property
    def table_rows(self) -> int:
        """The number of rows in the tables."""
        return sum(rows.height for parts in self._tables.values() for rows in parts)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Add rows to the table of the first round, and send them if differences are sent."""
        rows = self._weigh(frame)
        self._add(TABLE_STATE, rows)
        if not self.sends_tables:
            yield self._emit(self._inside[0], rows)

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Change the table of the next round."""
        self._add(NEXT_TABLE_STATE, self._weigh(frame))
        yield from ()

    def end_round(self) -> Iterator[Output]:
        """Emit the changes that the next round begins with, or the rows of the last round."""
        import polars as pl

        before, after = self._merge(TABLE_STATE), self._merge(NEXT_TABLE_STATE)
        if self._table.until is not None and self._table.key:
            self._check_keys(before, *find_table_before(self._input, self._loop, self.round))
        if self.sends_tables:
            count = count_changes(after, before)
        else:
            changes = merge_rows(pl.concat([after, negate_weights(before)]))
            count = int(changes[WEIGHT].abs().sum())
        self._count_round(count)
        if self._is_last_round(count) or self._is_until(after, before):
            yield self._finish(after)
        elif self.sends_tables:
            self._set_tables({TABLE_STATE: after})
        else:
            self._start_round()
            self._set_tables({TABLE_STATE: after, NEXT_TABLE_STATE: after})
            yield self._emit(self._inside[0], changes)

    def begin_round(self) -> Iterator[Output]:
        """Emit the whole table of the next round."""
        self._start_round()
        yield self._emit(self._inside[0], repeat_rows(self._merge(TABLE_STATE)))

    def flush_to_state(self) -> None:
        """Write the tables and the number of the round to the state."""
        import polars as pl

        for name, parts in self._tables.items():
            self._entries[name].rows = self._merge(name) if parts else None
        progress = {"round": [self.round], "is_done": [self.is_done]}
        self._entries[ROUND_STATE].rows = pl.DataFrame(progress)

    def _count_round(self, changes: int) -> None:
        if self._has_no_progress and not self.table_rows:
            return  # a loop that had ended before has no rows, and ends again
        counters, gauges = self._metrics.counters, self._metrics.gauges
        counters[ROUNDS] += 1
        counters[ROWS_CHANGED] += changes
        seconds = round((self._now_us() - self._round_began_us) / 1e6, 3)
        gauges |= {ROUND_ROWS_CHANGED: changes, ROUND_SECONDS: seconds}
        self._metrics.record_round(RoundFigures(self.round, changes, seconds))

    def _is_last_round(self, changes: int) -> bool:
        return self.round >= self._table.count or not changes

    def _finish(self, rows: pl.DataFrame) -> Output:
        """Return the rows to emit after the last round, and forget the tables."""
        self.is_done = True
        self._tables = {name: [] for name in self._tables}
        return self._emit(self._name, repeat_rows(rows))

    def _start_round(self) -> None:
        self.round += 1
        self._round_began_us = self._now_us()

    def _set_tables(self, tables: Mapping[str, pl.DataFrame]) -> None:
        self._tables = {n: [tables[n]] if n in tables else [] for n in self.table_names}
        self._bytes = self._measure_tables()

    def _add(self, name: str, rows: pl.DataFrame) -> None:
        """Add rows to a table. Raises ConnectorError if the tables are too large for the memory."""
        self._tables[name].append(rows)
        self._bytes += int(rows.estimated_size())
        if self._bytes <= self._loop.max_bytes:
            return
        for table, parts in self._tables.items():
            if parts:
                self._merge(table)
        self._bytes = self._measure_tables()
        if self._bytes > self._loop.max_bytes:
            raise make_size_error("tables of the loop", self._bytes, self._loop.max_bytes)

    def _measure_tables(self) -> int:
        """Return about the size of all tables; they may share frames."""
        frames = {id(frame): frame for parts in self._tables.values() for frame in parts}
        return sum(int(frame.estimated_size()) for frame in frames.values())

    def _emit(self, stream: str, rows: pl.DataFrame) -> Output:
        """Return rows to emit. The rows of a table have no order: they all have the same place."""
        import polars as pl

        return stream, add_row_order(rows, pl.lit(0)) if self._is_ordered else rows

    def _weigh(self, frame: pl.DataFrame) -> pl.DataFrame:
        return pick_columns(frame.with_columns(get_weights(frame)), [*self._columns, WEIGHT])

    def _merge(self, name: str) -> pl.DataFrame:
        """Return the rows of a table."""
        import polars as pl

        frames = self._tables[name]
        if not frames:
            schema = {**self._types, WEIGHT: pl.Int64()}
            return pl.DataFrame(schema=schema)
        # Of whole tables no row is ever removed.
        frames[:] = [concat_chunks(frames) if self.sends_tables else merge_rows(pl.concat(frames))]
        return frames[0]

    def _check_keys(self, rows: pl.DataFrame, stream: str, round: int) -> None:
        """Raise ConnectorError if two rows have the same key."""
        keys = repeat_rows(rows).select(self._table.key)
        repeated = keys.filter(keys.is_duplicated())
        if not repeated.is_empty():
            raise make_repeated_key_error(stream, round, repeated.row(0, named=True))

    def _is_until(self, after: pl.DataFrame, before: pl.DataFrame) -> bool:
        """Whether `until` holds for a round and the one before."""
        if self._table.until is None:
            return False
        from headrace.core.queries import run_query

        rows = repeat_rows(after)
        if self._table.key:
            rows = join_before(rows, repeat_rows(before), self._table.key)
        return run_query(self._table.until, rows, self._now_us())["done"][0] is True


class DeltaRoundsHead(TableRoundsHead):
    """The operator of `iterate` with `delta`: its table is the solution."""

    table_names: ClassVar[tuple[str, ...]] = (TABLE_STATE, NEXT_TABLE_STATE, WORKSET_STATE)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Add rows to the solution, and to the work set if it begins with the same rows."""
        rows = self._weigh(frame)
        self._add(TABLE_STATE, rows)
        yield self._emit(self._inside[1], rows)
        delta = self._table.delta
        if delta is not None and delta.solution == delta.workset:
            yield from self.add_to_workset(frame)

    def add_to_workset(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Add rows to the work set of the first round."""
        rows = self._weigh(frame)
        self._add(WORKSET_STATE, rows)
        if not self.sends_tables:
            yield self._emit(self._inside[0], rows)

    def end_round(self) -> Iterator[Output]:
        """Emit the changes that the next round begins with, or the solution after the last one.

        An old work set is removed before the solution changes, so that no join inside computes
        what its rows would match in the new solution.
        """
        import polars as pl

        delta, key = self._table.delta, list(self._table.key)
        assert delta is not None
        solution, rows = self._merge(TABLE_STATE), self._merge(NEXT_TABLE_STATE)
        if self.round == 1:
            self._check_keys(solution, delta.solution, 1)
        self._check_keys(rows, self._loop.feedback, self.round)
        found = solution.join(rows, on=key, how="semi", nulls_equal=True)
        changes = merge_rows(pl.concat([rows, negate_weights(found)]))
        changed = changes.filter(pl.col(WEIGHT) > 0)
        others = solution.join(changed, on=key, how="anti", nulls_equal=True)
        after = pl.concat([others, changed])
        self._count_round(int(changes[WEIGHT].abs().sum()))
        if self._is_last_round(changed.height) or self._is_until(changed, solution):
            yield self._finish(after)
            return
        if self.sends_tables:
            self._set_tables({TABLE_STATE: after, WORKSET_STATE: changed})
            yield self._emit(self._inside[1], changes)
            return
        self._start_round()
        old_workset = self._merge(WORKSET_STATE)
        self._set_tables({TABLE_STATE: after, NEXT_TABLE_STATE: rows, WORKSET_STATE: changed})
        yield self._emit(self._inside[0], negate_weights(old_workset))
        yield self._emit(self._inside[1], changes)
        yield self._emit(self._inside[0], changed)

    def begin_round(self) -> Iterator[Output]:
        """Emit the whole work set of the next round."""
        self._start_round()
        workset = self._merge(WORKSET_STATE)
        self._tables[WORKSET_STATE] = []
        self._bytes = self._measure_tables()
        yield self._emit(self._inside[0], repeat_rows(workset))


def count_changes(after: pl.DataFrame, before: pl.DataFrame) -> int:
    """Return how many rows only one of two tables has, by the hashes of rows. Weights are 1.

    The lowest bit of a hash says which table has the row. In the order of the hashes equal rows
    are adjacent, and the sums of their signs are differences of a running sum.
    """
    import polars as pl

    names = [name for name in after.columns if name != WEIGHT]
    lowest = pl.Series([1], dtype=pl.UInt64)
    codes = hash_rows(after, names) | lowest
    codes.append((hash_rows(before, names) | lowest) - lowest)
    codes = codes.sort()
    signs = (codes & lowest).cast(pl.Int64) * 2 - 1
    rows = codes | lowest
    is_last = (rows != rows.shift(-1)).fill_null(True)
    sums = signs.cum_sum().filter(is_last)
    return int((sums - sums.shift(1, fill_value=0)).abs().sum())


def find_table_before(entering: str, loop: nodes.Loop, round: int) -> tuple[str, int]:
    """Return the stream of the table that a bulk round begins with, and the number of its round.

    The first table, of the stream that enters the loop, counts to round 1.
    """
    return (loop.feedback, round - 1) if round > 1 else (entering, 1)


def make_repeated_key_error(stream: str, round: int, key: Mapping[str, object]) -> ConnectorError:
    """Return the error for two rows with one key, of a first table or of a round."""
    shown = ", ".join(f"{name}: {value}" for name, value in key.items())
    part = stream.partition("@")[0]
    message = f'in round {round}, two rows of "{part}" have the same key, {shown}'
    hint = (
        "before and delta need one row of each key: leave one, as with aggregate or top by the key"
    )
    return ConnectorError(message, hint, final=True)


def negate_weights(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the removal of rows."""
    import polars as pl

    return rows.with_columns(-pl.col(WEIGHT))


def join_before(after: pl.DataFrame, before: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """Return rows with the row of the same key in the round before as a struct; null: none."""
    import polars as pl

    names = before.columns
    # Polars cannot join rows with a struct of maps that are in several chunks.
    found = rechunk(before).select(
        *(pl.col(name).alias(f"__{name}") for name in key),
        pl.struct(names).alias(nodes.BEFORE_COLUMN),
    )
    right = [f"__{name}" for name in key]
    return after.join(found, left_on=list(key), right_on=right, how="left", nulls_equal=True)
