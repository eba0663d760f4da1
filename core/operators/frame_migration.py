"""Migrations of the frames of a state: columns are added, as null, and dropped.

Tests: tests/core/operators/test_state_migration.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.state import EXPIRY, SLOT
from headrace.core.operators.changelog.aggregate import EMITTED_ROW
from headrace.core.operators.changelog.conversion import LIST_PREFIX
from headrace.core.operators.changelog.rows import ROW_ID
from headrace.core.operators.dedup import NEWEST_TIME
from headrace.core.operators.folds import KEPT_ROWS, ROW_TIME, WEIGHTED_ROWS, get_row_types
from headrace.core.operators.process.timers import TIMER_NAME
from headrace.core.operators.running_results import BEST_ROWS, IS_EMITTED
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import ORDER, WEIGHT

if TYPE_CHECKING:
    import polars as pl

FrameMigration: TypeAlias = "Callable[[pl.DataFrame], pl.DataFrame]"


def migrate_row_lists(
    wanted: Mapping[str, pl.DataType], *, as_evicted: bool = False
) -> FrameMigration:
    """Give the rows stored as lists these columns, in addition to their hidden ones."""
    import polars as pl

    def column(name: str, there: Sequence[str]) -> pl.Expr:
        if name in there:
            return pl.element().struct.field(name)
        return pl.lit(None, dtype=wanted[name]).alias(name)

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        for name in {KEPT_ROWS, BEST_ROWS}.intersection(frame.columns):
            there = list(get_row_types(frame.schema, name))
            hidden = [n for n in there if n.startswith("__")]
            names = [n for n in (*wanted, *hidden) if n not in (ORDER, ROW_TIME, ROW_ID)]
            last = [n for n in (ORDER, ROW_TIME, ROW_ID) if n in there]
            columns = [*(sorted(names) if as_evicted else names), *last]
            row = pl.struct(column(n, there) for n in columns)
            frame = frame.with_columns(pl.col(name).list.eval(row))
        return frame

    return change


def migrate_weighted_lists(wanted: Mapping[str, pl.DataType]) -> FrameMigration:
    """Give the rows with weights in the lists of windows these columns, besides hidden ones."""
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if WEIGHTED_ROWS not in frame.columns:
            return frame
        there = get_row_types(frame.schema, WEIGHTED_ROWS)
        hidden = {name for name in there if name.startswith("__")} - {WEIGHT}
        row = [
            (pl.element().struct.field(n) if n in there else pl.lit(None, wanted[n])).alias(n)
            for n in (*sorted({*wanted, *hidden}), WEIGHT)
        ]
        return frame.with_columns(pl.col(WEIGHTED_ROWS).list.eval(pl.struct(row)))

    return change


def migrate_listed_columns(
    wanted: Mapping[str, pl.DataType], prefix: str = LIST_PREFIX, counted: str = WEIGHT
) -> FrameMigration:
    """Give the rows of keys that are stored as a list for each column these columns.

    The list `counted` says how many rows there are.
    """
    import polars as pl

    weights = f"{prefix}{counted}"

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if weights not in frame.columns:
            return frame
        kept = [n for n in frame.columns if not n.startswith(prefix)]
        rows = frame.with_row_index("__number").select("__number", pl.col(weights).list.len())
        numbers = rows.select(pl.col("__number").repeat_by(weights).explode())
        lists = {f"{prefix}{name}": type for name, type in wanted.items()}
        new = [pl.lit(None, type).alias(n) for n, type in lists.items() if n not in frame.columns]
        nulls = numbers.with_columns(new).group_by("__number", maintain_order=True)
        added = nulls.agg(pl.col(each.meta.output_name()) for each in new).drop("__number")
        return frame.hstack(added.get_columns()).select([*dict.fromkeys((*kept, *lists, weights))])

    return change


def migrate_input_rows(wanted: Mapping[str, pl.DataType], *hidden: str) -> FrameMigration:
    """Give stored input rows these columns, in the order of the input.

    The columns of the key come before them, and those of these hidden columns that exist after
    them.
    """
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        key = [name for name in frame.columns if name.startswith("__k")]
        new = [pl.lit(None, t).alias(n) for n, t in wanted.items() if n not in frame.columns]
        trailing = [name for name in hidden if name in frame.columns]
        return frame.with_columns(new).select(*key, *wanted, *trailing)

    return change


def restrict_to_runs(change: FrameMigration) -> FrameMigration:
    """Restrict a migration to stored input rows; tables and timers are left unchanged."""

    def of_rows(frame: pl.DataFrame) -> pl.DataFrame:
        is_of_rows = SLOT in frame.columns and TIMER_NAME not in frame.columns
        return change(frame) if is_of_rows else frame

    return of_rows


def migrate_emitted_rows(wanted: Mapping[str, pl.DataType]) -> FrameMigration:
    """Give the emitted rows of groups these columns."""
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if EMITTED_ROW not in frame.columns:
            return frame
        there = pl.Schema(frame.schema[EMITTED_ROW])  # type: ignore[arg-type]
        row = [
            (pl.col(EMITTED_ROW).struct.field(n) if n in there else pl.lit(None, t)).alias(n)
            for n, t in wanted.items()
        ]
        return frame.with_columns(pl.struct(row).alias(EMITTED_ROW))

    return change


def migrate_emitted_flag(*, has: bool) -> FrameMigration:
    """Migrate the flag of emitted rows: without `having`, a running aggregate emitted all rows."""
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if has and IS_EMITTED not in frame.columns:
            return frame.with_columns(pl.lit(True).alias(IS_EMITTED))
        return frame if has else frame.drop(IS_EMITTED, strict=False)

    return change


def migrate_ttl(*, keep: bool) -> FrameMigration:
    """Drop the expiry times if the step has no TTL."""
    return lambda frame: frame if keep else frame.drop(EXPIRY, strict=False)


def migrate_dedup_keys(*, forgets: bool) -> FrameMigration:
    """Migrate dedup keys: with a TTL, a key has the greatest time of its rows, null if unknown."""
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if not forgets:
            return frame.drop(EXPIRY, NEWEST_TIME, strict=False)
        if NEWEST_TIME in frame.columns or SLOT in frame.columns:
            return frame
        return frame.with_columns(pl.lit(None, dtype=to_polars(TIMESTAMP)).alias(NEWEST_TIME))

    return change
