"""The operator at the head of a loop over a table: it holds the table of the round and of the next.

The rows that come back are the changes of the next table: rows added and removed, by their weights.
At the end of a round the head sends the difference of the two into the loop, so the steps inside
process only what has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import Redistribution
from headrace.core.operators.changelog.weighted_rows import get_weights, merge_rows, repeat_rows
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator
from headrace.core.plan import nodes
from headrace.core.plan.states import NEXT_TABLE_STATE, ROUND_STATE, TABLE_STATE
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import WEIGHT
from headrace.core.types.frames import pick_columns

if TYPE_CHECKING:
    import polars as pl


ROUNDS, ROWS_CHANGED = "rounds", "rows_changed"
"""The metrics of a head: the rounds that have ended, and the rows that they added or removed."""


class TableRoundsHead(StatelessOperator):
    """The operator of `iterate` with `bulk`."""

    def __init__(self, step: nodes.Step, loop: nodes.Loop, context: KeyedContext) -> None:
        assert loop.table is not None
        self._name, self._inside = step.name, nodes.name_loop_stream(step.name)
        self._table = loop.table
        schema = step.outputs[0].schema
        self._columns = schema.names
        self._types = {column.name: to_polars(column.type) for column in schema}
        self._now_us: Callable[[], int] = context.now_us
        self._entries = [
            context.state.open_entries(name, Redistribution.LIST)
            for name in (TABLE_STATE, NEXT_TABLE_STATE, ROUND_STATE)
        ]
        self._counts = context.state.counters.metrics.counters
        self._counts.update(dict.fromkeys((ROUNDS, ROWS_CHANGED), 0))
        before, after, progress = (each.rows for each in self._entries)
        self._before = [] if before is None else [before]
        self._after = [] if after is None else [after]
        self.round = 1 if progress is None else int(progress["round"][0])
        """The round that goes on, from 1."""
        self.is_done = progress is not None and bool(progress["is_done"][0])
        """Whether the table of the last round was emitted."""

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Add rows to the table of the first round, and send them into the loop."""
        rows = self._weigh(frame)
        self._before.append(rows)
        yield self._inside, rows

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Change the table of the next round."""
        self._after.append(self._weigh(frame))
        yield from ()

    def end_round(self) -> Iterator[Output]:
        """Emit the changes that the next round begins with, or the rows of the last round."""
        import polars as pl

        before, after = self._merge(self._before), self._merge(self._after)
        removed = before.with_columns(-pl.col(WEIGHT))
        changes = merge_rows(pl.concat([after, removed]))
        self._counts[ROUNDS] += 1
        self._counts[ROWS_CHANGED] += int(changes[WEIGHT].abs().sum())
        has_ended = self.round >= self._table.count or changes.is_empty()
        if has_ended or self._is_until(after, before):
            self.is_done = True
            self._before, self._after = [], []
            yield self._name, repeat_rows(after)
            return
        self.round += 1
        self._before, self._after = [after], [after]
        yield self._inside, changes

    def flush_to_state(self) -> None:
        """Write the tables and the number of the round to the state."""
        import polars as pl

        table, following, progress = self._entries
        table.rows = self._merge(self._before) if self._before else None
        following.rows = self._merge(self._after) if self._after else None
        progress.rows = pl.DataFrame({"round": [self.round], "is_done": [self.is_done]})

    def _weigh(self, frame: pl.DataFrame) -> pl.DataFrame:
        return pick_columns(frame.with_columns(get_weights(frame)), [*self._columns, WEIGHT])

    def _merge(self, frames: list[pl.DataFrame]) -> pl.DataFrame:
        import polars as pl

        if not frames:
            schema = {**self._types, WEIGHT: pl.Int64()}
            return pl.DataFrame(schema=schema)
        frames[:] = [merge_rows(pl.concat(frames))]
        return frames[0]

    def _is_until(self, after: pl.DataFrame, before: pl.DataFrame) -> bool:
        """Whether `until` holds for a round and the one before."""
        if self._table.until is None:
            return False
        from headrace.core.queries import run_query

        rows = repeat_rows(after)
        if self._table.key:
            rows = join_before(rows, repeat_rows(before), self._table.key)
        return run_query(self._table.until, rows, self._now_us())["done"][0] is True


def join_before(after: pl.DataFrame, before: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """Return rows with the row of the same key in the round before as a struct; null: none."""
    import polars as pl

    names = before.columns
    found = before.select(
        *(pl.col(name).alias(f"__{name}") for name in key),
        pl.struct(names).alias(nodes.BEFORE_COLUMN),
    ).unique([f"__{name}" for name in key], keep="first")
    right = [f"__{name}" for name in key]
    return after.join(found, left_on=list(key), right_on=right, how="left", nulls_equal=True)
