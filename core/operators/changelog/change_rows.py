"""Changes as sinks write them: with their kind, the row that they replace, and a number.

The number orders the changes of a key, also where a key moves to another subtask. So a subtask
stores the last number that it used, and a restart continues after the highest one of all subtasks.
Rows without a key are counted, because the removal of a row may arrive before the row itself: then
neither is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, Redistribution, StepState
from headrace.core.operators.changelog.conversion import (
    OLD_PREFIX,
    RetractionsOperator,
    UpsertsOperator,
)
from headrace.core.operators.changelog.weighted_rows import (
    WeightedRows,
    consolidate,
    get_weights,
    repeat_rows,
)
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output, StatelessOperator, request_offload
from headrace.core.plan.nodes import ChangelogConversion
from headrace.core.types.change_columns import (
    BEFORE,
    CHANGE,
    CHANGE_NUMBER,
    DELETED,
    INSERT,
    SEQUENCE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
)
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE, WEIGHT

if TYPE_CHECKING:
    import polars as pl

SEQUENCE_STATE = "sequence"
"""The name of the entries with the last number of each subtask."""

ROWS_STATE = "rows"
"""The name of the runs with the counted rows."""

LAST_NUMBER = "last_number"


def get_counted_types(operation: ChangelogConversion) -> dict[str, pl.DataType]:
    """Return the types of the columns of a counted row besides those of its key."""
    key = {column.name for column in operation.key}
    return {f.name: to_polars(f.type) for f in operation.columns if f.name not in key}


class ChangeNumbers:
    """The numbers of a subtask's changes: each is higher than all before it of the same key."""

    def __init__(self, state: StepState) -> None:
        # Each subtask gets the numbers of all: the keys of any of them may be its own now.
        self._entries = state.open_entries(SEQUENCE_STATE, Redistribution.UNION)
        restored = self._entries.rows
        self._last = 0 if restored is None else int(restored[LAST_NUMBER].max() or 0)  # type: ignore[arg-type]

    def add(self, rows: pl.DataFrame, column: str) -> pl.DataFrame:
        """Return the rows with their numbers in that column, in their order."""
        import polars as pl

        first = self._last + 1
        self._last += rows.height
        numbers = pl.int_range(first, self._last + 1, dtype=pl.Int64, eager=True)
        return rows.hstack([numbers.alias(column)])

    def store(self) -> None:
        """Write the last number to the state."""
        import polars as pl

        self._entries.rows = pl.DataFrame({LAST_NUMBER: [self._last]}, {LAST_NUMBER: pl.Int64()})


class ChangeRows(ABC):
    """The output rows of keys whose current row has changed."""

    def __init__(self, operation: ChangelogConversion, state: StepState) -> None:
        self.columns = list(operation.columns.names)
        self.numbers = ChangeNumbers(state)

    @abstractmethod
    def build(self, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
        """Return the output rows; a key has at most one row before, and one after the changes."""


class FullChangeRows(ChangeRows):
    """A row for each row that is there no longer, and for each row that is new."""

    def build(self, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
        """Return the rows; the two of an update follow each other."""
        import polars as pl

        names = [KEY, *self.columns]
        rows = pl.concat([before.select(names), after.select(names)]).with_row_index("__place")
        is_old, is_update = pl.col("__place") < before.height, pl.len().over(KEY) > 1
        change = (
            pl.when(is_old & is_update)
            .then(pl.lit(UPDATE_BEFORE))
            .when(is_old)
            .then(pl.lit(DELETED))
            .when(is_update)
            .then(pl.lit(UPDATE_AFTER))
            .otherwise(pl.lit(INSERT))
        )
        rows = rows.with_columns(change.alias(CHANGE), pl.col("__place").min().over(KEY))
        rows = rows.sort("__place", maintain_order=True)
        return self.numbers.add(rows.select(*self.columns, CHANGE), SEQUENCE)


class EnvelopeRows(ChangeRows):
    """A row for each key that has changed, with the row before the change."""

    def build(self, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
        """Return the new rows, and the deleted ones with DELETE; each with BEFORE."""
        import polars as pl

        replaced = before.select(KEY, pl.struct(self.columns).alias(BEFORE))
        there = after.join(replaced, on=KEY, how="left", maintain_order="left")
        gone = before.join(after, on=KEY, how="anti", maintain_order="left")
        gone = gone.with_columns(pl.struct(self.columns).alias(BEFORE))
        rows = pl.concat(
            [
                there.with_columns(pl.lit(False).alias(DELETE)),
                gone.with_columns(pl.lit(True).alias(DELETE)),
            ]
        )
        return self.numbers.add(rows.drop(KEY), CHANGE_NUMBER)


def build_change_rows(operation: ChangelogConversion, state: StepState) -> ChangeRows:
    """Return the rows in the form of the conversion."""
    if operation.form == "full":
        return FullChangeRows(operation, state)
    return EnvelopeRows(operation, state)


class UpsertChangesOperator(RetractionsOperator):
    """The operator that emits upserts as changes, each with the row that it replaces."""

    def __init__(self, operation: ChangelogConversion, context: KeyedContext) -> None:
        super().__init__(operation, context)
        self._changes = build_change_rows(operation, context.state)

    def flush_to_state(self) -> None:
        """Write the last number to the state."""
        self._changes.numbers.store()

    def _emit_rows(self, removed: pl.DataFrame, added: pl.DataFrame) -> Iterator[Output]:
        columns = [KEY, *self._row]
        out = self._changes.build(removed.select(columns), added.select(columns))
        if out.height:
            yield self._stream, out


class RetractionChangesOperator(UpsertsOperator):
    """The operator that emits retractions with a key as changes of this key."""

    def __init__(self, operation: ChangelogConversion, context: KeyedContext) -> None:
        super().__init__(operation, context)
        self._columns = list(operation.columns.names)
        self._changes = build_change_rows(operation, context.state)

    def flush_to_state(self) -> None:
        """Write the last number to the state. Raises IndistinctRows."""
        super().flush_to_state()
        self._changes.numbers.store()

    def _emit_rows(self, before: pl.DataFrame, after: pl.DataFrame) -> Iterator[Output]:
        import polars as pl

        old = before.select(KEY, *(pl.col(n).alias(f"{OLD_PREFIX}{n}") for n in self._columns))
        pairs = after.join(old, on=KEY, how="inner", maintain_order="left")
        same = pl.all_horizontal(
            pl.col(name).eq_missing(pl.col(f"{OLD_PREFIX}{name}")) for name in self._columns
        )
        unchanged = pairs.filter(same).select(KEY)
        columns = [KEY, *self._row]
        out = self._changes.build(
            *(
                rows.select(columns).join(unchanged, on=KEY, how="anti", maintain_order="left")
                for rows in (before, after)
            )
        )
        if out.height:
            yield self._stream, out


class CountedChangesOperator(StatelessOperator):
    """The operator that emits retractions without a key as inserted and deleted rows."""

    def __init__(self, operation: ChangelogConversion, context: KeyedContext) -> None:
        self._stream = context.stream
        self._columns = list(operation.columns.names)
        self._grouping = GroupingKey(operation.key)
        types = {**self._grouping.types, **get_counted_types(operation)}
        self._row = list(types)
        self._rows = WeightedRows(context.state, ROWS_STATE, self._grouping.internal_names, types)
        self._numbers = ChangeNumbers(context.state)

    def flush_to_state(self) -> None:
        """Write the last number to the state."""
        self._numbers.store()

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the copies of rows that are there now, and those that are no longer."""
        import polars as pl

        yield from request_offload(self._rows.count_deferred_rows(frame.height))
        weighted = frame.with_columns(get_weights(frame))
        others = [name for name in self._row if name in self._columns]
        changes = self._grouping.project_columns(weighted, [*others, WEIGHT])
        changes = consolidate(changes.select(*self._row, WEIGHT))
        keys = changes.select(self._grouping.internal_names)
        moved = self._count_copies(self._rows.read(keys), changes)
        self._rows.add(changes)
        change = pl.when(pl.col(WEIGHT) > 0).then(pl.lit(INSERT)).otherwise(pl.lit(DELETED))
        rows = repeat_rows(moved.with_columns(pl.col(WEIGHT).abs(), change.alias(CHANGE)))
        if rows.height:
            out = self._grouping.restore_names(rows).select(*self._columns, CHANGE)
            yield self._stream, self._numbers.add(out, SEQUENCE)

    def _count_copies(self, stored: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of which there are more or fewer copies, with the difference."""
        import polars as pl

        none = pl.lit(0, dtype=pl.Int64)
        both = pl.concat(
            [
                changes.select(*self._row, WEIGHT, none.alias("__stored")),
                stored.select(*self._row, none.alias(WEIGHT), pl.col(WEIGHT).alias("__stored")),
            ]
        )
        sums = both.group_by(self._row, maintain_order=True).agg(
            pl.col(WEIGHT).sum(), pl.col("__stored").sum()
        )
        before = pl.col("__stored")
        copies = (before + pl.col(WEIGHT)).clip(0) - before.clip(0)
        return sums.select(*self._row, copies.alias(WEIGHT)).filter(pl.col(WEIGHT) != 0)
