"""Rows that meet, and rows that do not, with a look first at whether there are any.

A changing join asks this seven times of a batch, which is most often one row, and of nothing there
is half of the time: Polars takes longer to find that out than all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def paired(rows: pl.DataFrame, others: pl.DataFrame, by: str) -> pl.DataFrame:
    """Each of the rows beside each of the others that is equal by that column."""
    if rows.height and others.height:
        return rows.join(others, on=by)
    return rows.clear().hstack(others.clear().drop(by).get_columns())


def beside(rows: pl.DataFrame, others: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Each of the rows with the columns of the one that is equal by these, or nulls."""
    return rows.join(others, on=by, how="left", maintain_order="left")


def that_meet(rows: pl.DataFrame, others: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Those of the rows of which there is an equal one."""
    if rows.height and others.height:
        return rows.join(others, on=by, how="semi", maintain_order="left")
    return rows.clear()


def that_meet_none(rows: pl.DataFrame, others: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Those of the rows of which there is no equal one."""
    if rows.height and others.height:
        return rows.join(others, on=by, how="anti", maintain_order="left")
    return rows
