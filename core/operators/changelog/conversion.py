"""The conversion of upserts into retractions, and of retractions into upserts.

An upsert names the key of the row that it replaces. A reader that groups rows by other columns
needs the old row itself, to remove it from its group. So the current row of each key is stored,
and a change removes it before it adds the new one.

The reverse is needed where rows are written by key. The removal and the new row of a key may have
taken different ways, so the rows of a key are stored with their weights, and the last one that is
there is the current one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, KEY_INDEX, NO_CLOCK_US
from headrace.core.operators.changelog.weighted_rows import (
    consolidate,
    get_weights,
    subtract_rows,
)
from headrace.core.operators.indistinct_rows import RepeatedKeys
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator, request_offload
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.plan.nodes import ChangelogConversion
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, MAX_WATERMARK_US, ORDER, WEIGHT
from headrace.core.types.frames import gather_rows
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl

CURRENT_ROW = "__row"
"""The state column with the current row of a key."""

OLD_PREFIX = "__old."
"""The prefix of the columns of the row that a change replaces."""

LIST_PREFIX = "__all."
"""The prefix of the state columns with the values of the rows of a key, in order of arrival."""


def get_row_types(operation: ChangelogConversion, *, ordered: bool) -> dict[str, pl.DataType]:
    """Return the types of the columns of a stored row."""
    types = {field.name: to_polars(field.type) for field in operation.columns}
    if operation.has_event_time:
        types[EVENT_TIME] = to_polars(TIMESTAMP)
    if ordered:
        types[ORDER] = to_polars(ORDER_TYPE)
    return types


class RetractionsOperator(StatelessOperator):
    """The operator that converts upserts into retractions."""

    def __init__(self, operation: ChangelogConversion, context: KeyedContext) -> None:
        import polars as pl

        self._stream = context.stream
        self._grouping = GroupingKey(operation.key)
        row = get_row_types(operation, ordered=context.is_ordered)
        self._row = list(row)
        # A row that depends on the row order is another row at another position.
        ignored = () if context.is_ordered else (EVENT_TIME,)
        self._compared = [name for name in row if name not in ignored]
        self._table = context.state.open_table(KEYS_STATE, {CURRENT_ROW: pl.Struct(row)})

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the replaced rows with weight -1, and the new ones with weight 1."""
        import polars as pl

        yield from request_offload(self._table.estimate_deferred_rows(NO_CLOCK_US))
        deletes = pl.col(DELETE).fill_null(False) if DELETE in frame.columns else pl.lit(False)
        keyed = self._grouping.encode_keys(
            self._grouping.project_columns(frame, self._row, deletes.alias(DELETE))
        )
        changes = keyed.unique(KEY, keep="last", maintain_order=True)
        found = self._table.find(changes[KEY])
        old = found.select(KEY, CURRENT_ROW).unnest(CURRENT_ROW)
        new = gather_rows(changes, found[KEY_INDEX])
        differs = self._find_differing(old, new)
        is_new = pl.repeat(True, changes.height, eager=True).scatter(found[KEY_INDEX], differs)
        removed = old.hstack([new[DELETE]]).filter(new[DELETE] | differs)
        added = changes.filter(is_new & ~changes[DELETE])
        self._store_rows(removed, added)
        yield from self._emit_rows(removed, added)

    def _find_differing(self, old: pl.DataFrame, new: pl.DataFrame) -> pl.Series:
        """Return a mask of the rows that are not equal; Polars plans all comparisons at once."""
        import polars as pl

        before = (old[name].alias(f"{OLD_PREFIX}{name}") for name in self._compared)
        both = pl.DataFrame([*(new[name] for name in self._compared), *before])
        differ = (
            pl.col(name).ne_missing(pl.col(f"{OLD_PREFIX}{name}")).alias(name)
            for name in self._compared
        )
        return reduce(or_, both.select_seq(*differ).get_columns())

    def _store_rows(self, removed: pl.DataFrame, added: pl.DataFrame) -> None:
        import polars as pl

        if added.height:
            self._table.put(added.select(KEY, pl.struct(self._row).alias(CURRENT_ROW)))
        deleted = removed.filter(pl.col(DELETE))
        if deleted.height:
            self._table.remove(deleted[KEY])

    def _emit_rows(self, removed: pl.DataFrame, added: pl.DataFrame) -> Iterator[Output]:
        import polars as pl

        before = removed.select(*self._row, pl.lit(-1, dtype=pl.Int64).alias(WEIGHT))
        after = added.select(*self._row, pl.lit(1, dtype=pl.Int64).alias(WEIGHT))
        out = pl.concat([before, after])
        if out.height:
            yield self._stream, out


class UpsertsOperator(StatelessOperator):
    """The operator that converts retractions into upserts."""

    def __init__(self, operation: ChangelogConversion, context: KeyedContext) -> None:
        import polars as pl

        self._stream = context.stream
        self._grouping = GroupingKey(operation.key)
        row = get_row_types(operation, ordered=context.is_ordered)
        self._row = list(row)
        # A list for each column: Polars fails to rebuild maps of structs in a list.
        self._stored = {**row, WEIGHT: pl.Int64()}
        lists = {f"{LIST_PREFIX}{name}": pl.List(type) for name, type in self._stored.items()}
        self._table = context.state.open_table(KEYS_STATE, lists)
        self._is_aligned = context.is_aligned
        self._repeated_keys = RepeatedKeys()

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the current row of each key whose current row has changed, or its delete."""
        import polars as pl

        yield from request_offload(self._table.estimate_deferred_rows(NO_CLOCK_US))
        weights = get_weights(frame)
        rows = self._grouping.project_columns(frame.with_columns(weights), [*self._row, WEIGHT])
        changes = self._grouping.encode_keys(rows).select(KEY, *self._row, WEIGHT)
        changed = changes[KEY].unique(maintain_order=True)
        found = self._table.find(changed).drop(KEY_INDEX)
        stored = explode_rows(found).select(changes.columns)
        rows = consolidate(pl.concat([stored, changes]))
        self._repeated_keys.update(changed, rows)
        self._store_rows(changes, rows)
        yield from self._emit_rows(_select_current(stored), _select_current(rows))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Check at the end of the input that each key has one row. Raises IndistinctRows."""
        if watermark_us == MAX_WATERMARK_US:
            self._repeated_keys.check()
        return iter(())

    def flush_to_state(self) -> None:
        """Check at an aligned checkpoint that each key has one row. Raises IndistinctRows."""
        if self._is_aligned:
            self._repeated_keys.check()

    def _store_rows(self, changes: pl.DataFrame, rows: pl.DataFrame) -> None:
        import polars as pl

        if rows.height:
            lists = (pl.col(name).alias(f"{LIST_PREFIX}{name}") for name in self._stored)
            self._table.put(rows.group_by(KEY, maintain_order=True).agg(*lists))
        empty = changes.join(rows, on=KEY, how="anti")[KEY].unique()
        if len(empty):
            self._table.remove(empty)

    def _emit_rows(self, before: pl.DataFrame, after: pl.DataFrame) -> Iterator[Output]:
        import polars as pl

        columns = [KEY, *self._row]
        deleted = before.join(after, on=KEY, how="anti", maintain_order="left")
        changed = subtract_rows(after.select(columns), before.select(columns))
        out = pl.concat(
            [
                changed.filter(pl.col(WEIGHT) > 0).select(*self._row, pl.lit(False).alias(DELETE)),
                deleted.select(*self._row, pl.lit(True).alias(DELETE)),
            ]
        )
        if out.height:
            yield self._stream, out


def explode_rows(table: pl.DataFrame, prefix: str = LIST_PREFIX) -> pl.DataFrame:
    """Return the rows in the lists of a state, whose columns have this prefix."""
    lists = [name for name in table.columns if name.startswith(prefix)]
    rows = table.explode(lists, empty_as_null=False)
    rows.columns = [name.removeprefix(prefix) for name in rows.columns]
    return rows


def _select_current(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the last row of each key that is there."""
    import polars as pl

    return rows.filter(pl.col(WEIGHT) > 0).unique(KEY, keep="last", maintain_order=True)
