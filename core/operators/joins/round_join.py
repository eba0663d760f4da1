"""The join inside of a loop, of the table of a round with another one or with stored rows.

The rows of the round are held until it has ended, and joined at once. Those of other inputs, such
as a solution or rows from outside of the loop, are stored from round to round as in a `TableJoin`.

Tests: tests/core/job/test_table_rounds.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from headrace.core.operators.changelog.weighted_rows import get_weights
from headrace.core.operators.joins.join_sides import LEFT, RIGHT, emits_unmatched
from headrace.core.operators.joins.table_join import SIDE_WEIGHTS, TableJoin
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, RoundOperator
from headrace.core.operators.round_operators import select_rows
from headrace.core.plan import nodes
from headrace.core.types.elements import WEIGHT
from headrace.core.types.frames import concat_chunks, pick_columns

if TYPE_CHECKING:
    import polars as pl


class RoundJoin(TableJoin, RoundOperator):
    """The operator of a join of which at least one input has another table in each round."""

    def __init__(
        self, operation: nodes.Join, context: KeyedContext, stored: Collection[int]
    ) -> None:
        super().__init__(operation, context, stored)
        self._round_rows: dict[int, list[pl.DataFrame]] = {
            which: [] for which in (LEFT, RIGHT) if which not in stored
        }

    @property
    def pending_rows(self) -> int:
        """The number of rows that have come in the round."""
        return sum(frame.height for each in self._round_rows.values() for frame in each)

    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Take rows of the round, or store rows of another input."""
        side, frame = self._sides[which], select_rows(frame)
        rows = side.project_input(frame).with_columns(get_weights(frame))
        if which in self._round_rows:
            self._round_rows[which].append(rows)
        else:
            lacks = side.find_null_keys(rows)
            self._rows[which].add(rows if lacks is None else rows.filter(~lacks))
            self._indexes[which] = None
        yield from ()

    def end_round(self) -> Iterator[Output]:
        """Emit the join of the rows of the round."""
        first, *second = self._round_rows
        rows, lone = self._take_rows(first)
        yield from self._emit_alone(first, lone)
        if not second:
            if rows.height:
                others = self._rows[1 - first].read(pick_columns(rows, self._sides[first].key))
                yield from self._emit_own(first, rows, others)
            return
        others, lone = self._take_rows(second[0])
        yield from self._emit_own(first, rows, others)
        if emits_unmatched(self._type, second[0]):
            yield from self._emit_alone(second[0], lone)
            matched = self._find_matched(second[0], others, rows)
            yield from self._emit_alone(second[0], others.filter(~matched))

    def _emit_own(self, which: int, rows: pl.DataFrame, others: pl.DataFrame) -> Iterator[Output]:
        """Emit the pairs of the rows of a side, and those that are emitted alone."""
        import polars as pl

        needs_matches = self._needs_matches(which)
        if needs_matches and self._output.has_condition:
            yield from super()._emit_own(which, rows, others)
            return
        key, there = list(self._sides[which].key), self._select_pair_columns(1 - which, others)
        found = self._select_pair_columns(which, rows)
        if self._output.is_one_sided and needs_matches:
            one = found.join(there, on=key, how="semi" if self._type == "semi" else "anti")
            yield from self._output.emit(one.rename({SIDE_WEIGHTS[which]: WEIGHT}))
            return
        pairs = found.join(there, on=key, how="left" if needs_matches else "inner")
        own, other = (pl.col(SIDE_WEIGHTS[each]) for each in (which, 1 - which))
        pairs = pairs.with_columns((own * other.fill_null(1)).alias(WEIGHT))
        yield from self._output.emit(self._output.filter_pairs(pairs))

    def _select_pair_columns(self, which: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the key and the columns of rows in pairs, with their weight."""
        side = self._sides[which]
        names = [name for name in side.types if name != side.time]
        return pick_columns(rows, names, rows[WEIGHT].alias(SIDE_WEIGHTS[which]))

    def _take_rows(self, which: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows of the round that have a key, and those to emit as they have none."""
        import polars as pl

        side, frames = self._sides[which], self._round_rows[which]
        types = {**side.types, WEIGHT: pl.Int64()}
        rows = concat_chunks(frames) if frames else pl.DataFrame(schema=types)
        self._round_rows[which] = []
        lacks = side.find_null_keys(rows)
        if lacks is None:
            return rows, rows.clear()
        lone = rows.filter(lacks) if emits_unmatched(self._type, which) else rows.clear()
        return rows.filter(~lacks), lone
