"""A running top: the first rows of each key so far, emitted rank by rank as they change.

The state of a key is the list of its best rows. The rows of a batch are ranked among themselves
first, so only rows that may matter are compared with the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME, HIDDEN, ORDER
from headrace.core.operators.forgetting import KEYS, Forgetting
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.kept import row_types
from headrace.core.operators.operator import MOST_ROWS, Output
from headrace.core.operators.place import Place
from headrace.core.operators.ranking import Ranks
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK
from headrace.core.state import KEY
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

BEST = "__best"
"""The best rows of a key, best first."""
LAST = "__last"
"""The greatest event time of a key."""
BEFORE = "__before"
"""The earlier rank of a row; null for a new row."""


class Top(Forgetting):
    """The operator of `top` without a window."""

    def __init__(self, operation: nodes.Top, place: Place) -> None:
        super().__init__(operation.ttl, place)
        self._grouping = Grouping(operation.key)
        self._ranks = Ranks(operation.by, operation.rows)
        self._stream = place.stream
        self._ordered = place.ordered
        self._keeps_column = operation.keeps
        self._stored_columns: tuple[str, ...] = ()
        columns = place.state.columns(KEYS)
        if columns is not None:
            self._open(row_types(columns, BEST))

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the ranks that change with these rows."""
        if not self.opened:
            self._open(frame.schema)
        table = self.table()
        best = self._best(frame)
        found = table.find(best[KEY].unique(maintain_order=True))
        ranked = self._ranked(best, found)
        changed = self._changed(ranked)
        kept = ranked if self.forgets else ranked.join(changed, on=KEY, how="semi")
        if kept.height:
            self._keep(kept)
        yield from self._put_out(changed, frame)

    def _open(self, types: Mapping[str, pl.DataType]) -> None:
        """Open the table; `types` are the types of the input columns."""
        import polars as pl

        kept = {n: type for n, type in types.items() if n != EVENT_TIME and self._keeps_column(n)}
        self._stored_columns = tuple(kept)
        self.open({BEST: pl.List(pl.Struct(kept)), LAST: to_polars(TIMESTAMP)})

    def _best(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the best rows of each key in the batch, with the key's greatest time."""
        import polars as pl

        rows = self._grouping.rows(frame, frame.columns)
        key = self._grouping.inside
        timed = EVENT_TIME in frame.columns
        last = pl.col(EVENT_TIME).max() if timed else pl.lit(None, dtype=to_polars(TIMESTAMP))
        rows = rows.with_columns((last.over(key) if key and timed else last).alias(LAST))
        return self._grouping.encoded(self._ranks.best(rows, key))

    def _ranked(self, best: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
        """Rank the stored and the new rows of each key."""
        import polars as pl

        columns = (KEY, *self._stored_columns, LAST, BEFORE)
        came = best.with_columns(pl.lit(None, dtype=pl.Int32).alias(BEFORE)).select(columns)
        if not found.height:
            return came.with_columns(best[RANK])
        rows = found.select(KEY, BEST, LAST).explode(BEST).unnest(BEST)
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        known = rows.with_columns(rank.alias(BEFORE)).select(columns)
        together = pl.concat([known, came]).with_columns(pl.col(LAST).max().over(KEY))
        return self._ranks.best(together, (KEY,))

    def _changed(self, ranked: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        return ranked.filter(pl.col(BEFORE).ne_missing(pl.col(RANK)))

    def _keep(self, ranked: pl.DataFrame) -> None:
        import polars as pl

        best = pl.struct(self._stored_columns).alias(BEST)
        states = ranked.group_by(KEY, maintain_order=True).agg(best, pl.col(LAST).first())
        self.put(states, states[LAST])

    def _put_out(self, changed: pl.DataFrame, frame: pl.DataFrame) -> Iterator[Output]:
        import polars as pl

        names = [name for name in self._stored_columns if name not in HIDDEN]
        hidden = [pl.lit(False).alias(DELETE)]
        if EVENT_TIME in frame.columns:
            hidden.append(pl.col(LAST).alias(EVENT_TIME))
        if self._ordered:
            hidden.append(pl.col(ORDER))
        out = changed.select(*names, RANK, *hidden)
        for start in range(0, out.height, MOST_ROWS):
            yield self._stream, out.slice(start, MOST_ROWS)
