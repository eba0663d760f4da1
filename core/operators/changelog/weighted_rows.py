"""Rows with weights: a multiset, stored as the changes that make it up.

A row has all values of its columns as its identity, and a weight: the number of its copies.
Changes are stored without a lookup, and equal rows are merged when runs are compacted or read. The
weight of a row may be negative for a while: its removal arrived before the row itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import NO_CLOCK_US, SLOT, RunsLayout, StepState
from headrace.core.operators.run_lookup import count_lookup_rows, is_selective
from headrace.core.types.change_columns import CHANGE, DELETED, INSERT
from headrace.core.types.elements import (
    DELETE,
    HIDDEN_COLUMNS,
    MAX_WATERMARK_US,
    ORDER,
    SEQUENCE,
    WEIGHT,
)
from headrace.core.types.frames import add_columns, gather_rows, hash_rows, select_columns
from headrace.core.types.row_order import number_parts, restore_row_time

if TYPE_CHECKING:
    import polars as pl


def get_weights(frame: pl.DataFrame) -> pl.Series:
    """Return the weights of input rows; rows of an append-only stream are added once each."""
    import polars as pl

    if WEIGHT in frame.columns:
        return frame[WEIGHT]
    return pl.Series(WEIGHT, [1], dtype=pl.Int64).new_from_index(0, frame.height)


def consolidate(rows: pl.DataFrame) -> pl.DataFrame:
    """Subtract removed rows: merge equal rows, and drop those whose weights add up to nothing.

    Added rows alone are returned as they are, even if some are equal.
    """
    if (rows[WEIGHT] > 0).all():
        return rows  # nothing is removed
    return merge_rows(rows)


def merge_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Merge equal rows, and drop those whose weights add up to nothing."""
    import polars as pl

    names = [name for name in rows.columns if name not in (WEIGHT, SLOT)]
    equal = _find_repeated(hash_rows(rows, names))
    if not len(equal):
        return rows
    # Grouping takes several times as long as hashing, so rows without an equal one are left out.
    repeated = gather_rows(rows, equal).with_columns(equal.alias("__row"))
    merged = repeated.group_by(names).agg(pl.col(WEIGHT).sum(), pl.col("__row").first())
    weights = rows[WEIGHT].clone().scatter(equal, 0).scatter(merged["__row"], merged[WEIGHT])
    return rows.with_columns(weights).filter(weights != 0)


def _find_repeated(hashes: pl.Series) -> pl.Series:
    """Return the numbers of the rows whose hash another row has too."""
    ascending = hashes.sort(multithreaded=False)
    following = ascending[1:]
    repeated = following.filter(following == ascending[:-1])
    return hashes.is_in(repeated.implode()).arg_true()


def subtract_rows(after: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that are added, with weight 1, and those that are removed, with -1."""
    import polars as pl

    weighted = (
        rows.with_columns(pl.lit(weight, dtype=pl.Int64).alias(WEIGHT))
        for rows, weight in ((after, 1), (before, -1))
    )
    return consolidate(pl.concat(weighted))


def repeat_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each row as often as its weight says, without WEIGHT."""
    import polars as pl

    weights = rows[WEIGHT]
    there = rows.drop(WEIGHT)
    if weights.min() == weights.max() == 1:
        return there
    copies = pl.int_range(rows.height, dtype=pl.UInt32, eager=True).repeat_by(weights.clip(0))
    return gather_rows(there, copies.explode(empty_as_null=False))


def expand_weights(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each row as often as its weight says, with DELETE for copies that are removed."""
    import polars as pl

    signed = rows.with_columns((pl.col(WEIGHT) < 0).alias(DELETE), pl.col(WEIGHT).abs())
    return repeat_rows(signed)


def split_weights(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each row as often as its weight says, with the weight 1 or -1."""
    import polars as pl

    weight = pl.when(DELETE).then(-1).otherwise(1).cast(pl.Int64).alias(WEIGHT)
    return expand_weights(rows).with_columns(weight).drop(DELETE)


def make_change_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each copy that is added or removed, with the column CHANGE.

    An upsert is added, and the deletion of a key removed. As facts, they go by their event time.
    """
    import polars as pl

    rows = frame.drop(SEQUENCE, strict=False)
    if DELETE not in rows.columns:
        rows = expand_weights(rows.with_columns(get_weights(rows)))
    change = pl.when(DELETE).then(pl.lit(DELETED)).otherwise(pl.lit(INSERT)).alias(CHANGE)
    if ORDER in rows.columns:  # a removed row has the position of the row that was added
        rows = restore_row_time(number_parts(rows, pl.col(DELETE)))
    hidden = [name for name in HIDDEN_COLUMNS if name in rows.columns and name != DELETE]
    shown = [name for name in rows.columns if name not in HIDDEN_COLUMNS]
    return select_columns(rows, *shown, change, *hidden)


class WeightedRows:
    """The stored multiset of a step, or of one of its inputs."""

    def __init__(
        self,
        state: StepState,
        name: str,
        key: Sequence[str],
        columns: Mapping[str, pl.DataType],
        time: str | None = None,
    ) -> None:
        """`columns` are those of a row, including those of the key; `time` is that by which rows
        are dropped."""
        import polars as pl

        self.types = {**columns, WEIGHT: pl.Int64()}
        self._key = list(key)
        self._time = time
        self._before_first = -1 if time is None else NO_CLOCK_US
        self._runs = state.open_runs(name, RunsLayout(self.types, tuple(key), consolidate))
        self.whole: pl.DataFrame | None = None
        """All rows, if they were read and nothing was added since."""
        self._whole_found: pl.DataFrame | None = None

    def count_deferred_rows(self, keys: int) -> int:
        """Return how many stored rows a lookup of this number of keys has to process."""
        return count_lookup_rows(self._runs, keys)

    def add(self, rows: pl.DataFrame) -> None:
        """Store changes, with their WEIGHT."""
        import polars as pl

        if rows.height:
            self.whole = self._whole_found = None
            slot = pl.lit(0, dtype=pl.Int64) if self._time is None else pl.col(self._time)
            slotted = add_columns(rows, slot.alias(SLOT))
            self._runs.add(select_columns(slotted, *self.types, SLOT))

    def read(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of these keys, and perhaps of others."""
        if is_selective(self._runs, keys.height):
            found = self._runs.read_keys(keys.unique(), self._before_first)
            return consolidate(self._select_columns(found))
        return self.read_all()

    def read_all(self) -> pl.DataFrame:
        """Return all rows."""
        self._runs.compact()
        found = self._runs.read(self._before_first, MAX_WATERMARK_US)
        if self.whole is None or found is not self._whole_found:
            self.whole, self._whole_found = self._select_columns(found), found
        return self.whole

    @property
    def rows(self) -> int:
        """The number of stored changes: about how many rows there are."""
        return self._runs.rows

    def take_all(self) -> pl.DataFrame:
        """Remove and return all rows."""
        return consolidate(self._select_columns(self._runs.take(0)))

    def drop(self, until_us: int) -> None:
        """Drop the rows up to this time."""
        self.whole = self._whole_found = None
        self._runs.drop(until_us)

    def take(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Remove and return the rows of these keys; each key occurs once."""
        return consolidate(self._select_columns(self._runs.take_keys(keys)))

    def _select_columns(self, found: pl.DataFrame | None) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(schema=self.types) if found is None else found.select(*self.types)
