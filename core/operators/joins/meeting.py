"""Joins of small frames, with shortcuts for empty ones.

A changelog join runs seven of these per batch, most often with a single row, and half of them have
an empty side: Polars takes longer to find that out than for all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def inner_join(rows: pl.DataFrame, others: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return the inner join of both on the column."""
    if rows.height and others.height:
        return rows.join(others, on=by)
    return rows.clear().hstack(others.clear().drop(by).get_columns())


def left_join(rows: pl.DataFrame, others: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the left join of both on the columns."""
    return rows.join(others, on=by, how="left", maintain_order="left")


def semi_join(rows: pl.DataFrame, others: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the rows that have an equal row among the others."""
    if rows.height and others.height:
        return rows.join(others, on=by, how="semi", maintain_order="left")
    return rows.clear()


def anti_join(rows: pl.DataFrame, others: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the rows that have no equal row among the others."""
    if rows.height and others.height:
        return rows.join(others, on=by, how="anti", maintain_order="left")
    return rows
