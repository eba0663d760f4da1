"""The join inside of a loop, of the table of a round with another one or with stored rows.

The rows of the round are held until it has ended, and joined at once. Those of other inputs, such
as a solution or rows from outside of the loop, are stored from round to round as in a `TableJoin`.

Tests: tests/core/job/test_table_rounds.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Literal

from headrace.core.operators.changelog.weighted_rows import consolidate, get_weights, repeat_rows
from headrace.core.operators.joins.join_sides import LEFT, RIGHT, JoinSideColumns, emits_unmatched
from headrace.core.operators.joins.table_join import TableJoin
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, RoundOperator
from headrace.core.operators.round_operators import select_rows
from headrace.core.plan import nodes
from headrace.core.types.frames import concat_chunks, pick_columns

if TYPE_CHECKING:
    import polars as pl

ROW_NUMBER = "__row"
"""The number of a row of the round."""


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
        side = self._sides[which]
        if which in self._round_rows:
            rows = self._project_rows(side, select_rows(frame))
            self._round_rows[which].append(self._hold(rows))
        else:
            rows = side.project_input(frame).with_columns(get_weights(frame))
            lacks = side.find_null_keys(rows)
            self._rows[which].add(consolidate(rows if lacks is None else rows.filter(~lacks)))
        yield from ()

    def _project_rows(self, side: JoinSideColumns, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the key, the columns, and the position (if any) of rows of the round."""
        if side.number is None:
            return side.project_pair_columns(rows)
        return side.project_input(rows).drop(side.time)

    def end_round(self) -> Iterator[Output]:
        """Emit the join of the rows of the round."""
        first, *second = self._round_rows
        rows = self._take_rows(first)
        if second:
            others = self._take_rows(second[0])
        elif rows.height:
            stored = self._rows[1 - first].read(pick_columns(rows, self._sides[first].key))
            others = repeat_rows(stored).drop(self._sides[1 - first].time)
        else:
            return
        if self._type == "semi":
            yield from self._output.emit_whole(self._match(rows, others, "semi"))
            return
        alone = [which for which in self._round_rows if emits_unmatched(self._type, which)]
        if not self._output.is_one_sided:
            is_whole = first in alone and not self._output.has_condition
            pairs = self._match(rows, others, "left" if is_whole else "inner")
            yield from self._output.emit_whole(pairs)
            alone = alone[1:] if is_whole else alone
        for which in alone:
            own, other = (rows, others) if which == first else (others, rows)
            yield from self._output.emit_whole(self._match(own, other, "anti"))

    def _match(
        self,
        rows: pl.DataFrame,
        others: pl.DataFrame,
        how: Literal["inner", "left", "semi", "anti"],
    ) -> pl.DataFrame:
        """Return the pairs of rows that match, or the rows that do or do not match any."""
        import polars as pl

        key = list(self._sides[LEFT].key)
        if not self._output.has_condition:
            return rows.join(others, on=key, how=how)
        if how == "inner":
            return self._output.filter_pairs(rows.join(others, on=key))
        numbered = rows.with_row_index(ROW_NUMBER)
        pairs = self._output.filter_pairs(numbered.join(others, on=key))
        return numbered.join(pairs.select(pl.col(ROW_NUMBER).unique()), on=ROW_NUMBER, how=how)

    def _take_rows(self, which: int) -> pl.DataFrame:
        """Return the rows of the round."""
        import polars as pl

        side, frames = self._sides[which], self._round_rows[which]
        self._round_rows[which] = []
        if frames:
            return concat_chunks(frames)
        return pl.DataFrame(schema={n: t for n, t in side.types.items() if n != side.time})
