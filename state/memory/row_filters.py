"""Key groups and expiry of the rows of a state, and filters by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY
from headrace.core.types.key_groups import compute_key_groups, compute_row_groups

if TYPE_CHECKING:
    import polars as pl


def compute_state_groups(
    rows: pl.DataFrame, key: tuple[str, ...] | None, key_groups: int
) -> pl.Series:
    """Return the key group of each row, by the columns of the key; None: by KEY."""
    if key is None:
        return compute_key_groups(rows[KEY], key_groups)
    return compute_row_groups(rows, key, key_groups)


def mask_groups(
    rows: pl.DataFrame, key: tuple[str, ...] | None, groups: range, key_groups: int
) -> pl.Series:
    """Return a mask of the rows in those key groups."""
    of = compute_state_groups(rows, key, key_groups)
    return of.is_between(groups.start, groups.stop, closed="left")


def filter_groups(
    rows: pl.DataFrame, key: tuple[str, ...] | None, groups: range | None, key_groups: int
) -> pl.DataFrame:
    """Return the rows in those key groups; None: all rows."""
    return rows if groups is None else rows.filter(mask_groups(rows, key, groups, key_groups))


def filter_unexpired(rows: pl.DataFrame, now_us: int) -> pl.DataFrame:
    """Return the rows that have not expired."""
    import polars as pl

    if EXPIRY not in rows.columns:
        return rows
    return rows.filter(pl.col(EXPIRY).is_null() | (pl.col(EXPIRY) >= now_us))


def add_expiry_column(frame: pl.DataFrame) -> pl.DataFrame:
    """Add an EXPIRY column of nulls."""
    import polars as pl

    return frame.with_columns(pl.lit(None, dtype=pl.Int64).alias(EXPIRY))
