"""The join of two changelogs: stores the current rows of both, emits the changes of their pairs.

The rows of a join are pairs, and rows of one side alone: the unmatched rows of an outer join, the
matched rows of `semi`. The changed rows are paired in their old and new versions. A row of the
other side can only become matched or unmatched if it matched some changed row before and none now,
or the reverse, and matches none of the unchanged rows.

The state of a key is the rows of both sides, as a list each. The changes of a batch are compacted
to the last of each row first; a row that stays equal changes nothing. The output is the difference
between the old and new pairs of the changed rows, and between the rows without any match before and
after.

A row with a null in its key matches nothing and is not stored: if unmatched rows are emitted at
all, its changes are emitted as they come. In a full join, two rows without any key, one of each
side, replace each other: such rows are stored, and a job that has both at a checkpoint fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.api.state import KEY
from headrace.core.operators.indistinct_rows import IndistinctRows
from headrace.core.operators.joins.join_sides import LEFT, RIGHT, SymmetricJoin
from headrace.core.operators.joins.matched_pairs import JoinOutput
from headrace.core.operators.joins.materialized_side import (
    ID_COLUMNS,
    IS_DELETE,
    ChangeEffect,
    MaterializedSide,
    anti_join,
    inner_join,
    left_join,
    semi_join,
)
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Output, request_offload
from headrace.core.operators.ttl_operator import TtlOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import ChangelogMatch
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, MAX_WATERMARK_US
from headrace.core.types.frames import add_columns

if TYPE_CHECKING:
    import polars as pl

    Difference: TypeAlias = tuple[pl.DataFrame, pl.DataFrame]
    """Rows to retract, and rows to emit."""


MAX_PAIRS = 1 << 20
"""The approximate number of pairs built at once."""


_UNMATCHED_TYPES = {LEFT: ("left", "full", "anti"), RIGHT: ("right", "full")}
"""The join types that emit the unmatched rows of a side."""


class JoinDelta:
    """The difference that changes make to the rows of a join."""

    def __init__(
        self,
        operation: nodes.Join,
        sides: tuple[MaterializedSide, MaterializedSide],
        pairs: JoinOutput,
    ) -> None:
        self._sides = sides
        self._pairs = pairs
        self._emitted_alone: list[Literal["unmet", "met"] | None] = [
            "unmet" if operation.type in _UNMATCHED_TYPES[which] else None
            for which in (LEFT, RIGHT)
        ]
        """The rows of each side that are emitted alone."""
        if operation.type == "semi":
            self._emitted_alone[LEFT] = "met"
        self._missing_ids = ["-" * len(each.id_columns) for each in sides]
        """The id that replaces the other side's in a row alone, whose other columns are null."""
        if operation.type == "full":
            self._missing_ids = ["none", "none"]

    def diff_keyless(self, which: int, changes: pl.DataFrame) -> Difference:
        """Return the difference made by changes of rows that cannot match."""
        import polars as pl

        if self._emitted_alone[which] != "unmet":
            return changes.clear(), changes.clear()
        return changes.filter(IS_DELETE), changes.filter(~pl.col(IS_DELETE))

    def diff_changes(self, which: int, touched: ChangeEffect, others: pl.DataFrame) -> Difference:
        """Return the difference made by changed rows, given the rows of the other side."""
        if not touched.has_changes:
            return touched.old_rows, touched.new_rows
        met = [
            self._pairs.filter_pairs(inner_join(rows, others, KEY))
            for rows in (touched.old_rows, touched.new_rows)
        ]
        outs: list[list[pl.DataFrame]] = [[], []]
        for out, rows, pairs in zip(outs, (touched.old_rows, touched.new_rows), met, strict=True):
            if not self._pairs.is_one_sided:
                out.append(pairs)
            out.append(self._select_own(which, rows, pairs))
        if self._emitted_alone[1 - which] is not None:
            lost, won = self._find_turned(1 - which, others, met, touched)
            if self._emitted_alone[1 - which] == "unmet":
                lost, won = won, lost
            outs[0].append(lost)
            outs[1].append(won)
        before, after = (self._add_ids(out) for out in outs)
        return anti_join(before, after, (KEY, *ID_COLUMNS)), after

    def _select_own(self, which: int, rows: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return the changed rows that are emitted alone."""
        alone = self._emitted_alone[which]
        if alone is None:
            return rows.clear()
        chosen = anti_join if alone == "unmet" else semi_join
        return chosen(rows, pairs, self._sides[which].row_columns)

    def _find_turned(
        self, which: int, rows: pl.DataFrame, met: list[pl.DataFrame], touched: ChangeEffect
    ) -> Difference:
        """Return the rows of the other side that lost all matches, and those that gained one.

        Their time is the later one of their own and that of the change.
        """
        side = self._sides[which]
        met_before, met_after = (semi_join(rows, pairs, side.row_columns) for pairs in met)
        lost = anti_join(met_before, met_after, side.row_columns)
        won = anti_join(met_after, met_before, side.row_columns)
        found = []
        for turned in (lost, won):
            if turned.height:
                turned = self._add_times(
                    which, self._select_unmatched(which, turned, touched.unchanged_rows), touched
                )
            found.append(turned)
        return found[0], found[1]

    def _add_times(self, which: int, rows: pl.DataFrame, touched: ChangeEffect) -> pl.DataFrame:
        import polars as pl

        time, other = self._sides[which].side.time, self._sides[1 - which].side.time
        both = pl.concat([touched.old_rows.select(KEY, other), touched.new_rows.select(KEY, other)])
        later = pl.max_horizontal(time, other).alias(time)
        last = both.group_by(KEY).agg(pl.col(other).max())
        return left_join(rows, last, (KEY,)).with_columns(later).drop(other)

    def _select_unmatched(
        self, which: int, rows: pl.DataFrame, others: pl.DataFrame
    ) -> pl.DataFrame:
        """Return the rows that match none of the others."""
        if not self._pairs.has_condition:
            return anti_join(rows, others, (KEY,))
        for start, count in _split_chunks(others.height, rows.height):
            pairs = self._pairs.filter_pairs(inner_join(rows, others.slice(start, count), KEY))
            rows = anti_join(rows, pairs, self._sides[which].row_columns)
        return rows

    def _add_ids(self, rows: list[pl.DataFrame]) -> pl.DataFrame:
        """Concatenate the rows, with ids that identify them, also for rows alone."""
        import polars as pl

        missing_id_columns = [
            pl.col(name).fill_null(pl.lit(missing_id))
            for name, missing_id in zip(ID_COLUMNS, self._missing_ids, strict=True)
        ]
        full = [frame for frame in rows if frame.height] or rows[:1]
        whole = pl.concat(full, how="diagonal") if len(full) > 1 else full[0]
        lacking = [
            pl.lit(None, dtype=pl.String).alias(n) for n in ID_COLUMNS if n not in whole.columns
        ]
        return whole.with_columns_seq(lacking).with_columns_seq(missing_id_columns)


def _split_chunks(rows: int, each: int) -> Iterator[tuple[int, int]]:
    """Return chunks of rows, as (start, count), that make a bounded number of pairs."""
    count = max(1, MAX_PAIRS // max(1, each))
    return ((start, count) for start in range(0, rows, count))


def split_lots(changes: pl.DataFrame, found: pl.DataFrame, rows_of: str) -> Iterator[pl.DataFrame]:
    """Split the changes into lots that make a bounded number of pairs with the stored rows."""
    import polars as pl

    many = found.select(KEY, pl.col(rows_of).list.len().cast(pl.Int64).alias("__pairs"))
    if changes.height * (many["__pairs"].max() or 0) <= MAX_PAIRS:  # type: ignore[operator]
        yield changes
        return
    pairs = left_join(changes, many, (KEY,))["__pairs"]
    lot = (pairs.fill_null(0).cum_sum() // MAX_PAIRS).alias("__lot")
    for part in changes.hstack([lot]).partition_by("__lot", maintain_order=True):
        yield part.drop("__lot")


NEWEST_TIME = "__last"
"""The greatest event time of a key, over both sides."""


class ChangelogJoin(SymmetricJoin, TtlOperator):
    """The operator of a join whose inputs are both changelogs."""

    def __init__(
        self, operation: nodes.Join, matching: ChangelogMatch, context: KeyedContext
    ) -> None:
        super().__init__(matching.ttl, context)
        left, right = (
            MaterializedSide(operation, which, matching.keys[which], ordered=context.is_ordered)
            for which in (LEFT, RIGHT)
        )
        self._sides = (left, right)
        self._pairs = JoinOutput(operation, context.stream, ordered=context.is_ordered)
        self._delta = JoinDelta(operation, (left, right), self._pairs)
        self._is_full = operation.type == "full"
        self._is_aligned = context.is_aligned
        self._null_key: pl.Series | None = None
        """The encoded key of nulls, if a row of a full join had it since the start."""
        rows = {each.state_column: each.type for each in self._sides}
        self.open_table({**rows, NEWEST_TIME: to_polars(TIMESTAMP)})

    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        yield from self.announce_work()
        side = self._sides[which].side
        changes = self._sides[which].compact_changes(frame)
        if (lacks := side.find_null_keys(changes)) is not None:
            keyless = changes.filter(lacks)
            yield from self._emit_difference(*self._delta.diff_keyless(which, keyless))
            if self._is_full:
                yield from self._store_keyless(which, keyless)
            changes = changes.filter(~lacks)
        if changes.height:
            found = self.get_live_table().find(changes[KEY].unique(maintain_order=True))
            yield from self._apply_changes(which, changes.drop(side.key), found)

    def _store_keyless(self, which: int, changes: pl.DataFrame) -> Iterator[Output]:
        """Store the row whose key is all nulls; once it is gone, emit that of the other side."""
        import polars as pl

        own, other = self._sides[which], self._sides[1 - which]
        joined = pl.all_horizontal(pl.col(own.side.key).is_null())
        changes = changes.filter(joined, pl.col(own.id) == "-" * len(own.id_columns))
        if not changes.height:
            return
        self._null_key = changes[KEY]
        found = self.get_live_table().find(self._null_key)
        changes = changes.drop(own.side.key)
        touched = own.apply_changes(changes, own.unnest_rows(found))
        self._store_rows(which, changes, found, touched.current_rows)
        others = other.unnest_rows(found)
        if others.height and not touched.current_rows.height:
            yield from self._emit_difference(others.clear(), others)

    def _check_distinct(self) -> None:
        """Check that at most one side has a row whose key is all nulls. Raises IndistinctRows."""
        if self._null_key is None:
            return
        found = self.get_live_table().find(self._null_key)
        if all(found[side.state_column].count() for side in self._sides):
            raise IndistinctRows

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Remove expired keys; at the end of the input, check them. Raises IndistinctRows."""
        if watermark_us == MAX_WATERMARK_US:
            self._check_distinct()
        return super().advance(watermark_us)

    def flush_to_state(self) -> None:
        """Check the keys at an aligned checkpoint. Raises IndistinctRows."""
        if self._is_aligned:
            self._check_distinct()

    def _apply_changes(
        self, which: int, changes: pl.DataFrame, found: pl.DataFrame
    ) -> Iterator[Output]:
        """Emit the difference that these changes make, in lots of a bounded number of pairs."""
        own, other = self._sides[which], self._sides[1 - which]
        parts = list(split_lots(changes, found, other.state_column))
        for part in parts:
            if len(parts) > 1:
                found = self.get_live_table().find(part[KEY].unique(maintain_order=True))
            rows, others = own.unnest_rows(found), other.unnest_rows(found)
            yield from request_offload(rows.height + others.height)
            touched = own.apply_changes(part, rows)
            if self.has_ttl or touched.has_changes:
                self._store_rows(which, part, found, touched.current_rows)
            yield from self._emit_difference(*self._delta.diff_changes(which, touched, others))

    def _store_rows(
        self, which: int, changes: pl.DataFrame, stored_entries: pl.DataFrame, rows: pl.DataFrame
    ) -> None:
        """Store the new rows of these keys."""
        import polars as pl

        own, other = self._sides[which], self._sides[1 - which]
        time = pl.col(own.side.time).max().cast(to_polars(TIMESTAMP)).alias(NEWEST_TIME)
        keys = changes.group_by(KEY, maintain_order=True).agg(time)
        before = stored_entries.select(
            KEY, other.state_column, pl.col(NEWEST_TIME).alias("__before")
        )
        states = left_join(left_join(keys, before, (KEY,)), own.collect_rows(rows), (KEY,))
        states = states.with_columns(pl.max_horizontal(NEWEST_TIME, "__before").alias(NEWEST_TIME))
        empty = states[own.state_column].is_null() & states[other.state_column].is_null()
        if empty.any():
            self.get_live_table().remove(states.filter(empty)[KEY])
            states = states.filter(~empty)
        self.put(states.drop("__before"), states[NEWEST_TIME])

    def _emit_difference(self, before: pl.DataFrame, after: pl.DataFrame) -> Iterator[Output]:
        """Retract the rows that no longer exist, and emit the new ones."""
        import polars as pl

        for rows, deleted in ((before, True), (after, False)):
            for stream, frame in self._pairs.emit(rows):
                yield stream, add_columns(frame, pl.lit(deleted).alias(DELETE))
