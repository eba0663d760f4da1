"""Which pieces of a key make one session: those that follow each other at most the gap apart.

Plain functions over columns. A piece has a start and an end, the times of its first and its last
row; a single row is a piece. All keys are done in one pass: sorted by key and start, a session
begins where the key changes, or where a piece starts behind the gap after everything before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

START = "__start"
END = "__end"
"""The times (microseconds) of the first and the last row of a piece."""


def joined(pieces: pl.DataFrame, key: Sequence[str], gap_us: int) -> pl.DataFrame:
    """The pieces, each with the start and the end of the session that it is part of; sorted."""
    import polars as pl

    rows = pieces.sort(*key, START, nulls_last=False).with_columns(
        _changes(key).cum_sum().alias("__of")
    )
    begins = (pl.col("__of") != pl.col("__of").shift()) | (
        pl.col(START) - pl.col("__reach").shift() > gap_us
    )
    rows = rows.with_columns(_reach(rows).alias("__reach"))
    rows = rows.with_columns(begins.fill_null(True).alias("__begins"))
    if rows["__begins"].all():
        return rows.drop("__of", "__reach", "__begins")  # nothing belongs together
    ends = pl.col("__begins").shift(-1, fill_value=True)
    return rows.with_columns(
        pl.when("__begins").then(START).forward_fill().alias(START),
        pl.when(ends).then("__reach").backward_fill().alias(END),
    ).drop("__of", "__reach", "__begins")


def _changes(key: Sequence[str]) -> pl.Expr:
    """Whether a row has another key than the row before it."""
    import polars as pl

    if not key:
        return pl.int_range(pl.len()) < 0
    return pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in key)


def _reach(rows: pl.DataFrame) -> pl.Expr:
    """The greatest end so far of each key, whose number is in the column `__of`.

    One pass over all keys where the times leave room for the key's number above them.
    """
    import polars as pl

    if not rows.height:
        return pl.col(END)
    low, high = int(rows[START].min()), int(rows[END].max())  # type: ignore[arg-type]
    span, keys = high - low + 1, int(rows["__of"][-1]) + 1
    if span * keys >= 1 << 62:
        return pl.col(END).cum_max().over("__of")
    lifted = pl.col("__of").cast(pl.Int64) * span
    return (pl.col(END) - low + lifted).cum_max() - lifted + low


def continued(
    pieces: pl.DataFrame, later: pl.DataFrame, key: Sequence[str], gap_us: int
) -> pl.DataFrame:
    """The sessions among `pieces` that some of `later` continue, with the end of these in `END`.

    `pieces` are whole as far as they go: `START`, `END` and the key of each stand once.
    """
    import polars as pl

    others = later.select(*key, pl.col(START).alias("__s"), pl.col(END).alias("__e"))
    names = (*key, START, END)
    pairs = (
        pieces.select(names).join(others, on=list(key), nulls_equal=True)
        if key
        else pieces.select(names).join(others, how="cross")
    )
    near = (pl.col("__s") - pl.col(END) <= gap_us) & (pl.col(START) - pl.col("__e") <= gap_us)
    touched = pairs.filter(near)
    return touched.group_by(names).agg(pl.col("__e").max())
