"""A running aggregate: without a window, the new row of a key is emitted whenever it has rows.

The rows of a batch are folded first, so each key is looked up and emitted once. The greatest event
time of a key is one more aggregate: it is the time of the output row, and `ttl` counts from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME
from headrace.core.expressions.typed import to_expr
from headrace.core.frames import projected, sorted_by, together
from headrace.core.operators.folds import Aggregates
from headrace.core.operators.forgetting import Forgetting
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Output
from headrace.core.operators.outgoing import Outgoing
from headrace.core.operators.place import Place
from headrace.core.plan.nodes import Aggregate
from headrace.core.state import ASKED, KEY
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

SHOWN = "__shown"
"""Whether the row of a key was emitted, and not deleted since."""


class Running(Forgetting):
    """The operator of `aggregate` without a window."""

    def __init__(self, operation: Aggregate, place: Place) -> None:
        import polars as pl

        super().__init__(operation.ttl, place)
        self._grouping = Grouping(operation.key)
        self._fold = Aggregates(operation, self._grouping, newest=True)
        self._out = Outgoing(operation, place.stream, ordered=place.ordered)
        self._having = to_expr(operation.having.condition) if operation.having else None
        self._state_columns = tuple(self._fold.columns)
        shown = {SHOWN: pl.Boolean()} if operation.having else {}
        self.open({**self._fold.columns, **shown})

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the new row of each key that has rows in the batch."""
        yield from self.ahead()
        table = self.table()
        timed = EVENT_TIME in frame.columns
        rows = self._grouping.rows(frame if timed else _untimed(frame), self._fold.reads)
        fresh = self._grouping.encoded(self._fold.begin(rows, self._grouping.inside))
        found = table.find(fresh[KEY])
        states = self._merged(fresh, found) if found.height else fresh
        results = self._finished(states)
        changed = results if self._having is None else self._passing(results, found)
        self._keep(states, results)
        yield from self._out.rows(changed if timed else changed.drop(EVENT_TIME))

    def _merged(self, fresh: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Merge the states of these rows with the stored states of their keys."""
        columns = [ASKED, *self._state_columns]
        numbered = fresh.with_row_index(ASKED)[columns]
        with self._fold.naming(fresh, ASKED):
            merged = self._fold.merge(together([found[columns], numbered]), (ASKED,))
        # Restore the order of the requested keys, which the table returns as KEY_INDEX.
        merged = sorted_by(merged, ASKED)[list(self._state_columns)]
        return fresh[[*self._grouping.inside, KEY]].hstack(merged.get_columns())

    def _finished(self, states: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of these states, with KEY, in the same order."""
        return self._fold.finish(states, (KEY, *self._grouping.inside))

    def _passing(self, results: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that pass `having`, and those emitted before that no longer pass."""
        import polars as pl

        assert self._having is not None
        shown = found.filter(SHOWN)[KEY]
        return results.filter(self._having | pl.col(KEY).is_in(shown.implode()))

    def _keep(self, states: pl.DataFrame, results: pl.DataFrame) -> None:
        kept = states[[KEY, *self._state_columns]]
        if self._having is not None:
            passes = projected(results, self._having.fill_null(False).alias(SHOWN))
            kept = kept.hstack(passes.get_columns())
        self.put(kept, results[EVENT_TIME])


def _untimed(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns_seq(pl.lit(None, dtype=to_polars(TIMESTAMP)).alias(EVENT_TIME))
