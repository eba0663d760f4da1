"""An aggregate over a changelog: each group that changes is aggregated again from its current rows.

A folded value cannot be removed from a minimum or a last value, nor exactly from a sum of doubles.
So the rows of a group are stored, and all of them are folded when one of them changes: the cost of
a batch is the size of the groups that it touches. A group without rows is deleted; for that, its
emitted row is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME, ORDER
from headrace.core.expressions.typed import to_expr
from headrace.core.operators.changes.filed import ROWS
from headrace.core.operators.changes.latest import GONE, ID, LAST, Latest
from headrace.core.operators.folds import Aggregates
from headrace.core.operators.forgetting import KEYS
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Output, Stateless, aside
from headrace.core.operators.outgoing import Outgoing
from headrace.core.operators.place import Place
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan.nodes import Aggregate
from headrace.core.state import ASKED, KEY, NO_CLOCK_US, SLOT, RunsLayout
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

ROW = "__row"
"""The emitted row of a group; null where it did not pass `having`."""
EARLIER = "__earlier"


def read_columns(fold: Aggregates) -> dict[str, pl.DataType]:
    """Return the types of the stored columns of rows, without the key's and ROW_ID."""
    types = {**fold.types, ORDER: to_polars(ORDER_TYPE)}
    return {name: types[name] for name in sorted(fold.reads)}


def row_columns(operation: Aggregate) -> dict[str, pl.DataType]:
    """Return the types of the output columns."""
    key = {each.name: to_polars(each.value.type) for each in operation.key}
    row = {column.name: to_polars(column.expression.type) for column in operation.columns}
    return {**key, **row}


class RunningOfChanges(Stateless):
    """The operator of `aggregate` without a window, over a changelog."""

    def __init__(self, operation: Aggregate, place: Place) -> None:
        import polars as pl

        assert operation.changes is not None, "append-only rows have another operator"
        self._grouping = grouping = Grouping(operation.key)
        self._compactor = Latest(grouping, operation.changes)
        self._fold = Aggregates(operation, grouping)
        self._results_out = Outgoing(operation, place.stream, ordered=place.ordered)
        self._having = to_expr(operation.having.condition) if operation.having else pl.lit(True)
        reads = read_columns(self._fold)
        self._input_columns = tuple(reads)
        kept = {**grouping.types, **reads, ID: pl.String()}
        self._stored_columns = (*kept, SLOT)
        layout = RunsLayout(kept, grouping.inside, lambda rows: rows)
        self._rows = place.state.runs(ROWS, layout)
        row = row_columns(operation)
        self._row = tuple(row)
        columns = {ROW: pl.Struct(row), LAST: to_polars(TIMESTAMP)}
        self._table = place.state.table(KEYS, columns)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the new row of each group that has changes in the batch."""
        import polars as pl

        if not frame.height:
            return
        yield from aside(self._rows.owed(asking=True) + self._table.owed(NO_CLOCK_US))
        changes = self._compactor.changes(frame, self._input_columns)
        groups = self._compactor.touched(changes)
        found = self._table.find(groups[KEY]).drop(ASKED).rename({LAST: EARLIER})
        groups = groups.join(found, on=KEY, how="left", maintain_order="left")
        groups = groups.with_columns(pl.max_horizontal(LAST, EARLIER).alias(LAST))
        results = self._results(self._now(changes, groups))
        self._keep(groups, results)
        out = self._changed(groups, results)
        yield from self._results_out.rows(
            out if EVENT_TIME in frame.columns else out.drop(EVENT_TIME)
        )

    def _now(self, changes: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
        """Apply the changes to the stored rows of these groups, and return their current rows."""
        import polars as pl

        slot = pl.lit(0, dtype=pl.Int64).alias(SLOT)
        now = changes.filter(~changes[GONE]).with_columns(slot).select(self._stored_columns)
        before = self._rows.take_keys(groups.select(self._grouping.inside))
        if before is not None:
            stay = before.filter(~pl.col(ID).is_in(changes[ID].implode()))
            now = pl.concat([stay.select(self._stored_columns), now])
        self._rows.add(now)
        return now

    def _results(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the results of the groups that have rows and pass `having`, with KEY."""
        encoded = self._grouping.encoded(rows)
        if not encoded.height:
            return encoded.clear().select(KEY)
        by = (KEY, *self._grouping.inside)
        results = self._fold.finish(self._fold.begin(encoded, by), by)
        return results.filter(self._having)

    def _keep(self, groups: pl.DataFrame, results: pl.DataFrame) -> None:
        import polars as pl

        if results.height:
            shown = results.select(KEY, pl.struct(self._row).alias(ROW))
            self._table.put(shown.join(groups.select(KEY, LAST), on=KEY))
        self._table.remove(groups.join(results, on=KEY, how="anti")[KEY])

    def _changed(self, groups: pl.DataFrame, results: pl.DataFrame) -> pl.DataFrame:
        """Return the current result rows, and deletes of those that no longer exist."""
        import polars as pl

        columns = [*self._row, DELETE, EVENT_TIME]
        time = groups.select(KEY, pl.col(LAST).alias(EVENT_TIME))
        gone = groups.filter(pl.col(ROW).is_not_null()).join(results, on=KEY, how="anti")
        deleted = gone.select(ROW, pl.col(LAST).alias(EVENT_TIME)).unnest(ROW)
        out = deleted.with_columns(pl.lit(True).alias(DELETE)).select(columns)
        if results.height:
            new = results.join(time, on=KEY).with_columns(pl.lit(False).alias(DELETE))
            out = pl.concat([new.select(columns), out])
        return out
